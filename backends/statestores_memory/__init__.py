"""The in-memory backend: the reference, read it first."""
