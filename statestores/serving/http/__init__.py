"""The HTTP face of what is served: JSON, Arrow, metrics, and a page for people."""
