"""Joins of two streams on columns: rows of both sides, what they find, and what waits."""
