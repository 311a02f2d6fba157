"""Key-value stores over an engine."""
