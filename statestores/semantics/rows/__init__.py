"""Rows of an engine: where they lie, what is kept of them in memory, what is pending."""
