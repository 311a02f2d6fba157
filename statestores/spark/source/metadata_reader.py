"""What a state root says of itself as a DataFrame: ``option("metadata", "commits")`` and others."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from statestores.spark.given_root import GivenRoot
from statestores.spark.options.read_and_write import SourceOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

STORES = "stores"


@dataclass(frozen=True)
class MetadataPartition(InputPartition):
    """What one task reads."""

    store: str
    """The store."""

    number: int | None
    """Its partition; ``None`` for the store itself."""


class MetadataReader(DataSourceReader):
    """Reads one of the tables of `statestores.reading.root_tables`."""

    def __init__(self, root: GivenRoot, table: str, options: SourceOptions) -> None:
        """Read *table* of the store that *options* name, or of all stores of *root*.

        Raises:
            StoreNotFoundError: There is no such root or store.
        """
        self._root, self._table = root, table
        state = root.open()
        names = sorted(state.stores) if options.store_name is None else [options.store_name]
        self._entries = {name: state.store(name) for name in names}

    def arrow_schema(self) -> "pa.Schema":
        """Return the columns of the table."""
        from statestores.reading.root_tables import TABLES  # noqa: PLC0415  # needs pyarrow

        return TABLES[self._table]

    def partitions(self) -> list[InputPartition]:
        """Return a task for each partition of each store, or for each store.

        There is none where there are no stores; Spark makes one of that, which is not a
        `MetadataPartition`.
        """
        return [
            MetadataPartition(name, number)
            for name, entry in self._entries.items()
            for number in ([None] if self._table == STORES else range(entry.partitions))
        ]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Yield the rows of one task."""
        from statestores.reading.partition_reader import PartitionReader  # noqa: PLC0415
        from statestores.reading.root_tables import (  # noqa: PLC0415  # needs pyarrow
            as_batches,
            partition_rows,
            store_rows,
        )

        if not isinstance(partition, MetadataPartition):
            return iter(())  # Spark's own, since nothing was planned
        entry, number = self._entries[partition.store], partition.number
        if number is None:
            return as_batches(self._table, store_rows(entry))
        place = self._root.partition(entry.specification, entry.partitions, number)
        reader = PartitionReader(place, entry.specification)
        rows = partition_rows(self._table, reader, partition.store, number)
        return as_batches(self._table, rows)
