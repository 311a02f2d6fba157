"""The life of an engine: opening, locking, closing, and opening again."""
