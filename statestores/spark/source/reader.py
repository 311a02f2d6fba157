"""Batch reads: one or more tasks for each partition of the store, all pinned to one offset.

The offsets are taken once, while planning, and so are the partitions that they are of. So all tasks
show the store at one moment with regard to staged writes and reshards, and a task that is repeated
gives the same rows.
"""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from statestores.errors import InvalidArgumentError, InvalidOptionError, StoreNotFoundError
from statestores.files.scratch_directory import scratch_directory
from statestores.partitioning import partitioner_by_name
from statestores.root_document import Placement
from statestores.serdes.rows.struct_views import struct_view
from statestores.spark.given_root import GivenRoot
from statestores.spark.options.keys import selection_from_options
from statestores.spark.options.named_partitions import check_partitions
from statestores.spark.options.read_and_write import SourceOptions
from statestores.spark.options.values import ANY_AGE_MS, Offsets
from statestores.spark.scratch import scratch_place
from statestores.spi.specification import StoreSpecification

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import pyarrow as pa

    from statestores.arrow.keys.key_selection import KeySelection
    from statestores.object_log.view import View
    from statestores.reading.partition_reader import PartitionReader


_NOTHING_YET = -1


@dataclass(frozen=True)
class StorePartition(InputPartition):
    """What one task reads."""

    number: int
    """The partition of the store."""

    start: int | None
    """Change feed: the first offset; ``None`` for the first that there is."""

    stop: int
    """The offset before which content or changes end."""

    share: "KeySelection | None" = None
    """The keys that the task reads of those that the options select; ``None`` for all of them."""

    seen: "View | None" = None
    """What the driver has seen of a log in an object store, where its tasks need not look again."""

    home: Path | None = None
    """Where the partitions were that the driver has planned for, in a directory."""


class StateStoreReader(DataSourceReader):
    """Reads the content or the changes of one store."""

    def __init__(
        self,
        root: GivenRoot,
        specification: StoreSpecification[Any, Any],
        partitions: int,
        options: SourceOptions,
        *,
        placement: Placement | None = None,
    ) -> None:
        """Check what can be checked without reading.

        With *placement* by the partitioner, a read of certain keys goes to their partitions only.

        Raises:
            InvalidOptionError: An option does not fit the store.
        """
        if options.value_schema is not None:
            specification = _with_value_schema(specification, options)
        self._root = root
        self._partitions = partitions
        self._specification = specification
        self._options = options
        self._numbers = options.partitions or tuple(range(partitions))
        for option, named in (
            ("partitions", options.partitions),
            ("offset", options.offset),
            ("startingOffset", options.starting_offset),
            ("endingOffset", options.ending_offset),
        ):
            check_partitions(option, named, specification.name, partitions)
        self._refuse_inverted()
        if not specification.kind.has_history and (options.history or options.as_of_ms is not None):
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
        keys = selection_from_options(options, self._key_serde)
        self._read_numbers = self._numbers
        if keys is not None and placement is Placement.PARTITIONER:
            holding = self._holding(keys)
            self._read_numbers = tuple(each for each in self._numbers if each in holding)

    def _refuse_inverted(self) -> None:
        """Accept offsets of changes of which the first is at most the one after the last.

        Raises:
            InvalidOptionError: They are the wrong way round.
        """
        options = self._options
        for number in self._numbers:
            first = _offset_of(options.starting_offset, number)
            last = _offset_of(options.ending_offset, number)
            if first is not None and last is not None and first > last + 1:
                raise InvalidOptionError(
                    f"the option 'startingOffset' (or 'startingVersion') is {first} for partition "
                    f"{number} of {self._specification.name!r}, and 'endingOffset' (or "
                    f"'endingVersion') is {last}: the changes end before they begin; exchange them"
                )

    def arrow_schema(self) -> "pa.Schema":
        """Return the schema of the batches that `read` gives."""
        from statestores.spark.columns import spark_schema  # noqa: PLC0415  # needs pyarrow

        options = self._options
        reader, typed = self._open(self._numbers[0]), not options.raw
        if options.read_change_feed:
            schema = reader.change_schema(
                typed=typed,
                before=options.before_image,
                position=options.input_position,
                commits=options.commit_columns,
            )
        else:
            schema = reader.schema(typed=typed)
        names = options.columns or tuple(schema.names)
        if unknown := [name for name in names if name not in schema.names]:
            raise InvalidOptionError(
                f"the option 'columns' names {unknown[0]!r}; the columns are: "
                f"{', '.join(schema.names)}"
            )
        import pyarrow as pa  # noqa: PLC0415  # workers import this module often

        chosen = [schema.field(name) for name in names]
        for option, name, kind in (
            ("offsetColumn", options.offset_column, pa.int64()),
            ("partitionColumn", options.partition_column, pa.int32()),
        ):
            if name is None:
                continue
            if name.lower() in {field.name.lower() for field in chosen}:
                raise InvalidOptionError(
                    f"the option {option!r} names {name!r}, and there is such a column already; "
                    "give another name"
                )
            chosen.append(pa.field(name, kind))
        return spark_schema(pa.schema(chosen), raw=options.raw)

    def partitions(self) -> list[InputPartition]:
        """Return the tasks: one for each partition of the store, or for each part of its keys.

        There is none where no partition can have the keys; Spark makes one of that, which is not a
        `StorePartition`.
        """
        from statestores.reading.commit_times import offset_as_of  # noqa: PLC0415  # needs pyarrow
        from statestores.reading.partition_reader import end_offsets  # noqa: PLC0415  # needs pyarrow

        options = self._options
        home = self._root.home(self._specification.name, self._partitions)
        readers = [self._open(number, home=home) for number in self._read_numbers]
        planned: list[InputPartition] = []
        for number, reader, end in zip(
            self._read_numbers, readers, end_offsets(readers), strict=True
        ):
            if options.read_change_feed:
                planned.append(replace(self._changes(number, reader, end), home=home))
                continue
            last = _offset_of(options.offset, number)
            if options.timestamp_as_of_ms is not None:
                shown = f"partition {number} of {self._specification.name!r}"
                last = min(end - 1, offset_as_of(reader, options.timestamp_as_of_ms, shown))
            if options.freshness_ms is not None:
                last = self._fresh_enough(reader, end, number)
            stop = end if last is None else last + 1
            planned += [
                StorePartition(number, None, stop, share, reader.seen, home)
                for share in reader.shares(
                    stop - 1,
                    self._keys(),
                    count=options.splits,
                    rows=options.max_rows_per_task,
                )
            ]
        return planned

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Yield the rows of one partition."""
        import pyarrow as pa  # noqa: PLC0415  # workers import this module often

        from statestores.spark.columns import to_spark  # noqa: PLC0415  # needs pyarrow

        if not isinstance(partition, StorePartition):
            return  # Spark's own, since nothing was planned
        options = self._options
        schema = self.arrow_schema()
        extra = {
            name: pa.scalar(value, schema.field(name).type)
            for name, value in (
                (options.offset_column, partition.stop - 1),
                (options.partition_column, partition.number),
            )
            if name is not None
        }
        stored = pa.schema([field for field in schema if field.name not in extra])
        for batch in self._batches(partition, stored.names):
            rows = to_spark(batch, stored)
            for name, value in extra.items():
                rows = rows.append_column(schema.field(name), pa.repeat(value, rows.num_rows))
            if rows.num_rows:
                yield rows

    def _batches(self, partition: StorePartition, columns: list[str]) -> "Iterator[pa.RecordBatch]":
        """Yield the rows of one task as they are stored, or decoded."""
        options = self._options
        reader = self._open(partition.number, partition.seen, partition.home)
        keys = self._keys() if partition.share is None else partition.share
        if options.read_change_feed:
            return reader.changes(
                partition.start,
                partition.stop,
                keys=keys,
                columns=columns,
                typed=not options.raw,
                before=options.before_image,
                position=options.input_position,
                commits=options.commit_columns,
            )
        return self._content(reader, partition.stop - 1, keys, columns)

    def _content(
        self,
        reader: "PartitionReader",
        offset: int,
        keys: "KeySelection | None",
        columns: list[str],
    ) -> "Iterator[pa.RecordBatch]":
        """Yield the content at *offset*, with what does not fit into memory on the local disk."""
        from statestores.arrow.rows.spilled_runs import SpilledRuns  # noqa: PLC0415  # needs pyarrow

        options = self._options
        with scratch_directory(scratch_place()) as spilled:
            yield from reader.rows(
                as_of_ms=options.as_of_ms,
                history=options.history,
                offset=offset,
                keys=keys,
                columns=columns,
                typed=not options.raw,
                # As much again, and more, is in use while it is sorted.
                runs=SpilledRuns(spilled, max(1, options.memory_per_task // 4)),
            )

    def _keys(self) -> "KeySelection | None":
        """Return the keys that the options select; ``None`` for all."""
        return selection_from_options(self._options, self._key_serde)

    def _holding(self, keys: "KeySelection") -> "Collection[int]":
        """Return the partitions that can have *keys*: all of them, unless these are certain ones.

        Requires: the store's partitioner places its keys.
        """
        points = keys.points
        if points is None and keys.first is not None and keys.first == keys.last:
            points = (keys.first,)
        if points is None:
            return range(self._partitions)
        partitioner = partitioner_by_name(self._specification.partitioner)
        return {partitioner.partition(key, self._partitions) for key in points}

    def _changes(self, number: int, reader: "PartitionReader", end: int) -> StorePartition:
        """Return the task that reads the changes that the options ask for."""
        from statestores.reading.commit_times import offset_from  # noqa: PLC0415  # needs pyarrow

        options = self._options
        start = _offset_of(options.starting_offset, number)
        if options.starting_timestamp_ms is not None:
            shown = f"partition {number} of {self._specification.name!r}"
            start = min(end, offset_from(reader, options.starting_timestamp_ms, shown))
        last = _offset_of(options.ending_offset, number)
        stop = end if last is None else last + 1
        if options.ending_timestamp_ms is not None:
            stop = min(end, reader.offset_at(options.ending_timestamp_ms + 1))
        if options.starting_timestamp_ms is not None and start is not None:
            start = min(start, stop)
        if options.ending_timestamp_ms is not None and start is not None and start <= end:
            stop = max(start, stop)  # the time is before the offset: there is nothing
        return StorePartition(number, start, stop, seen=reader.seen)

    def _fresh_enough(self, reader: "PartitionReader", end: int, number: int) -> int | None:
        """Return the offset of the newest snapshot, if it is young enough; ``None`` for the end.

        Raises:
            StoreNotFoundError: Nothing but a snapshot will do, and there is none.
        """
        age_ms = self._options.freshness_ms
        snapshot = reader.newest_snapshot()
        if snapshot is None:
            if age_ms != ANY_AGE_MS:
                return None
            if end == 0:
                return _NOTHING_YET
            raise StoreNotFoundError(
                f"partition {number} of {self._specification.name!r} has no snapshot; write one, "
                "or read with freshness=latest, which takes the changelog"
            )
        oldest_ms = time.time_ns() // 1_000_000 - (age_ms or 0)
        return snapshot.offset if snapshot.created_at_ms >= oldest_ms else None

    def _open(
        self, number: int, seen: "View | None" = None, home: Path | None = None
    ) -> "PartitionReader":
        from statestores.reading.partition_reader import PartitionReader  # noqa: PLC0415  # needs pyarrow

        place = self._root.partition(
            self._specification, self._partitions, number, seen, pinned=seen is not None, home=home
        )
        return PartitionReader(place, self._specification)


def _with_value_schema(
    specification: StoreSpecification[Any, Any], options: SourceOptions
) -> StoreSpecification[Any, Any]:
    """Return *specification* with values that are read as structs of the option's schema.

    Raises:
        InvalidOptionError: The values are not those that a schema is for, or are read as bytes.
    """
    assert options.value_schema is not None  # noqa: S101  # the caller has looked
    if options.raw:
        raise InvalidOptionError(
            "the options 'raw' and 'valueSchema' exclude each other; leave one out"
        )
    try:
        view = struct_view(specification.value, options.value_schema)
    except InvalidArgumentError as error:
        raise InvalidOptionError(
            f"the option 'valueSchema' does not fit the store {specification.name!r}: {error}; "
            "leave it out"
        ) from error
    return replace(specification, value=view)


def _offset_of(offsets: Offsets | None, number: int) -> int | None:
    """Return what *offsets* say for the partition *number*."""
    return offsets if offsets is None or isinstance(offsets, int) else offsets.get(number)
