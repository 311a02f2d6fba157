"""Everybody's key-value state behind one door: ours, raw drivers, and what others use instead."""
