"""Engines with one wrong step each."""
