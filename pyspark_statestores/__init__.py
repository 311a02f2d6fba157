"""Lets Spark discover the data source without a call: it looks into every ``pyspark_*`` package."""

from statestores.spark.source import StateStoresDataSource as DefaultSource

__all__ = ["DefaultSource"]
