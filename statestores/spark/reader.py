"""Batch reads: one task for each partition of the store, each of them pinned to an offset.

The offsets are taken once, while planning. So all tasks show the store at one moment with regard to
staged writes, and a task that is repeated gives the same rows.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from statestores.errors import InvalidOptionError
from statestores.spark.key_options import selection_from_options
from statestores.spark.options import Offsets, SourceOptions
from statestores.spi.specification import StoreSpecification
from statestores.state_root import PartitionDirectory

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from statestores.partition_reader import PartitionReader


@dataclass(frozen=True)
class StorePartition(InputPartition):
    """What one task reads."""

    number: int
    """The partition of the store."""

    start: int | None
    """Change feed: the first offset; ``None`` for the first that there is."""

    stop: int
    """The offset before which content or changes end."""


class StateStoreReader(DataSourceReader):
    """Reads the content or the changes of one store."""

    def __init__(
        self,
        root: Path,
        specification: StoreSpecification[Any, Any],
        partitions: int,
        options: SourceOptions,
    ) -> None:
        """Check what can be checked without reading.

        Raises:
            InvalidOptionError: An option does not fit the store.
        """
        self._store = root / specification.name
        self._specification = specification
        self._options = options
        self._numbers = options.partitions or tuple(range(partitions))
        for number in self._numbers:
            if number >= partitions:
                raise InvalidOptionError(
                    f"the option 'partitions' names {number}, and the store "
                    f"{specification.name!r} has the partitions 0 to {partitions - 1}"
                )
        if specification.kind != "versioned" and (options.history or options.as_of_ms is not None):
            raise InvalidOptionError(
                "the options asOf and history are for versioned stores, and "
                f"{specification.name!r} is a {specification.kind} store"
            )
        if foreign := [
            option
            for option, value in (
                ("kafkaKind", options.kafka_kind),
                ("keySerde", options.key_serde),
                ("valueSerde", options.value_serde),
            )
            if value is not None
        ]:
            raise InvalidOptionError(
                f"the option {foreign[0]!r} is for reading state directories of Kafka Streams; the "
                f"store {specification.name!r} says itself what it is; leave it out"
            )
        self._key_serde = None if options.raw else specification.key
        selection_from_options(options, self._key_serde)

    def arrow_schema(self) -> "pa.Schema":
        """Return the schema of the batches that `read` gives."""
        from statestores.spark.columns import spark_schema  # noqa: PLC0415  # needs pyarrow

        reader, typed = self._open(self._numbers[0]), not self._options.raw
        if self._options.read_change_feed:
            schema = reader.change_schema(typed=typed)
        else:
            schema = reader.schema(typed=typed)
        names = self._options.columns or tuple(schema.names)
        if unknown := [name for name in names if name not in schema.names]:
            raise InvalidOptionError(
                f"the option 'columns' names {unknown[0]!r}; the columns are: "
                f"{', '.join(schema.names)}"
            )
        import pyarrow as pa  # noqa: PLC0415  # workers import this module often

        chosen = pa.schema([schema.field(name) for name in names])
        return spark_schema(chosen, raw=self._options.raw)

    def partitions(self) -> list[InputPartition]:
        """Return a task for each partition of the store."""
        from statestores.partition_reader import end_offsets  # noqa: PLC0415  # needs pyarrow

        options = self._options
        ends = end_offsets([self._open(number) for number in self._numbers])
        chosen = options.ending_offset if options.read_change_feed else options.offset
        planned: list[InputPartition] = []
        for number, end in zip(self._numbers, ends, strict=True):
            last = _offset_of(chosen, number)
            start = _offset_of(options.starting_offset, number)
            planned.append(StorePartition(number, start, end if last is None else last + 1))
        return planned

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Yield the rows of one partition."""
        from statestores.spark.columns import to_spark  # noqa: PLC0415  # needs pyarrow

        assert isinstance(partition, StorePartition)  # noqa: S101  # what `partitions` planned
        options = self._options
        schema = self.arrow_schema()
        reader = self._open(partition.number)
        keys = selection_from_options(options, self._key_serde)
        if options.read_change_feed:
            batches = reader.changes(
                partition.start,
                partition.stop,
                keys=keys,
                columns=schema.names,
                typed=not options.raw,
            )
        else:
            batches = reader.rows(
                as_of_ms=options.as_of_ms,
                history=options.history,
                offset=partition.stop - 1,
                keys=keys,
                columns=schema.names,
                typed=not options.raw,
            )
        for batch in batches:
            yield to_spark(batch, schema)

    def _open(self, number: int) -> "PartitionReader":
        from statestores.partition_reader import PartitionReader  # noqa: PLC0415  # needs pyarrow

        return PartitionReader(PartitionDirectory(self._store / str(number)), self._specification)


def _offset_of(offsets: Offsets | None, number: int) -> int | None:
    """Return what *offsets* say for the partition *number*."""
    return offsets if offsets is None or isinstance(offsets, int) else offsets.get(number)
