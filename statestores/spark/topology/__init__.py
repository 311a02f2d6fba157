"""Topologies on Spark: each part one stateful step, chained within a micro-batch."""
