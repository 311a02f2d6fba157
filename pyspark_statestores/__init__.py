"""Lets Spark discover the data source without a call: it looks into every ``pyspark_*`` package."""

import statestores.spark.spark_required  # noqa: F401  # before what needs Spark

# isort: split
from statestores.spark.source.source import StateStoresDataSource as DefaultSource

__all__ = ["DefaultSource"]
