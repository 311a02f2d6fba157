"""What the local runner reads besides topics: files of JSON lines and of Parquet, and iterables."""

from statestores.processing.local.sources.items import Items
from statestores.processing.local.sources.json_lines import JsonLines
from statestores.processing.local.sources.parquet_files import ParquetFiles
from statestores.processing.local.sources.source import LocalSource

__all__ = ["Items", "JsonLines", "LocalSource", "ParquetFiles"]
