"""Writes of several partitions: staged, and then committed together or not at all."""
