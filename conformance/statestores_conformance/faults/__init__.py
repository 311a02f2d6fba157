"""Kills and failing calls."""
