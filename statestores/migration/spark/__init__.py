"""A store as Spark's own state."""
