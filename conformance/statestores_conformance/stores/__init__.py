"""Door two: all tests of stores, by their kind."""
