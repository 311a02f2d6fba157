"""The import of Spark's own state, at the address that programs know; see `spark.state`."""

from statestores.spark.state.importing import StateSelection, import_spark_state

__all__ = ["StateSelection", "import_spark_state"]
