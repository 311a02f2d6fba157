"""What holds for every kind of store."""
