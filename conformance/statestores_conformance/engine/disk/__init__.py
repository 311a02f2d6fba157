"""What a disk does to an engine: waits, failures, shortages and damage."""
