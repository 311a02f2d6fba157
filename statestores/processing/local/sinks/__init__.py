"""Where the local runner writes besides topics: Parquet files, and functions."""

from statestores.processing.local.sinks.at_least_once import AtLeastOnce
from statestores.processing.local.sinks.parquet_sink import ParquetSink
from statestores.processing.local.sinks.sink import LocalSink

__all__ = ["AtLeastOnce", "LocalSink", "ParquetSink"]
