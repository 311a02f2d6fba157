"""What a stranger wrote down before he had seen the suite, and what passed it then."""
