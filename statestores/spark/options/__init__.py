"""The options of the data source, from Spark's strings to values."""

from statestores.spark.options.read_and_write import SourceOptions

__all__ = ["SourceOptions"]
