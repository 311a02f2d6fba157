"""Spark: stores and their changes as DataFrames, and DataFrames into stores.

The data source is ``format("statestores")`` and needs no call; `register` makes
``format("statestore")``, the name of Spark's own source, work for state roots as well. This is the
only place that imports pyspark, and importing it does not: Spark's workers import it often.
"""

from statestores.spark.java_runtime import ensure_java
from statestores.spark.registration import register, unregister
from statestores.spark.source_name import SOURCE_NAME

__all__ = ["SOURCE_NAME", "ensure_java", "register", "unregister"]
