"""Door one: all tests of an engine."""
