"""Keys as columns: their order, which are wanted, and how they are shared out."""
