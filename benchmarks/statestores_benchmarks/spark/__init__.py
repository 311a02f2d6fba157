"""Measurements of stores in Spark, against what Spark itself offers."""
