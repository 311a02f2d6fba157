"""What stores of every kind share over an engine: commit, rows, facades."""
