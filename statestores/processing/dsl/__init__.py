"""How a topology is written down: streams, tables, groups, windows and joins."""
