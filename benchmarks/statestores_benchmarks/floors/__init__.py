"""Floors of putting many rows: what any design must do, by the driver's own calls."""
