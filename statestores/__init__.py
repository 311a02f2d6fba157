"""The state layer for Python stream processing: one contract, many engines."""
