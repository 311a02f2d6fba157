"""Snapshots: a store's committed content as a directory of Arrow files."""
