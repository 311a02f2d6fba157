"""Python sources as others write them. Sent to Spark's workers by value."""

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from two_queries import ROWS


class PlainReader(DataSourceReader):
    """Reads the rows, and takes no filters."""

    def partitions(self) -> list[InputPartition]:
        """Return one task."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Yield the rows."""
        yield from ROWS


class FilteringReader(PlainReader):
    """The same, but it takes ``key =``, as PySpark's documentation has it."""

    def __init__(self) -> None:
        self._keys: list[str] = []

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802  # Spark's name
        """Take the filters of one kind, and give the others back."""
        for each in filters:
            if type(each).__name__ == "EqualTo" and each.attribute == ("key",):
                self._keys.append(each.value)
            else:
                yield each

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Yield the rows that the filters let pass."""
        return (row for row in ROWS if all(row[0] == key for key in self._keys))


class PlainSource(DataSource):
    """Somebody's source."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format(...)``."""
        return "plain_source"

    def schema(self) -> str:
        """Return the columns."""
        return "key string, value long"

    def reader(self, schema: Any) -> DataSourceReader:
        """Return what reads."""
        return PlainReader()


class FilteringSource(PlainSource):
    """Somebody's source that takes filters."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format(...)``."""
        return "filtering_source"

    def reader(self, schema: Any) -> DataSourceReader:
        """Return what reads."""
        return FilteringReader()
