"""The state of Spark's own streaming queries, taken into a store."""
