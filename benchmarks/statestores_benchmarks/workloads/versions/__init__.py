"""Versioned stores, beside other ways to keep versions."""
