"""The tasks of an instance: their stores, how these come up, and how they commit together."""
