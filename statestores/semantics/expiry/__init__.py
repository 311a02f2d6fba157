"""Which rows are due to expire, and how many of them a commit may delete."""
