"""Reading an engine: its pairs as they are now, as they were, and from many threads."""
