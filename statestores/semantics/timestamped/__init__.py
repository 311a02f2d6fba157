"""Key-value stores whose values have timestamps, and may expire."""
