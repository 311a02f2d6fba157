"""What a store of each kind promises: to its owner, and to those who only read."""
