"""The name under which Spark knows the data source."""

from typing import Final

SOURCE_NAME: Final = "statestores"
"""For ``format(...)``; found without a call, through the package `pyspark_statestores`."""
