"""The change feed of a store as a stream: one task for each partition that has something new.

The ends of all partitions are taken at one moment, so without a limit a staged write is in one
micro-batch as a whole. With a limit it may be in several, none of its changes lost or doubled.
"""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from statestores.errors import InvalidOptionError, OffsetOutOfRangeError
from statestores.reading.commit_times import offset_from
from statestores.spark.given_root import GivenRoot
from statestores.spark.options.named_partitions import check_partitions
from statestores.spark.options.read_and_write import SourceOptions
from statestores.spark.options.stream import MAX_BYTES, MAX_RECORDS, StreamOptions
from statestores.spark.session.older_pyspark import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
    refuse_limit,
)
from statestores.spark.source.reader import StateStoreReader, StorePartition
from statestores.spark.source.stream_offsets import (
    StreamOffset,
    StreamOffsets,
    check_order,
    limited,
)
from statestores.spi.specification import StoreSpecification

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from statestores.object_log.view import View
    from statestores.reading.partition_reader import PartitionReader

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StreamPartition(InputPartition):
    """What one task reads in one micro-batch."""

    number: int
    """The partition of the store."""

    start: StreamOffset
    """How far it has been read."""

    stop: int
    """The offset before which the micro-batch ends."""

    seen: "View | None" = None
    """What the driver has seen of a log in an object store."""

    home: Path | None = None
    """Where the partitions are that the driver reads, in a directory."""


class StateStoreStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the changes of one store as they come."""

    def __init__(
        self,
        root: GivenRoot,
        specification: StoreSpecification[Any, Any],
        partitions: int,
        options: SourceOptions,
        stream: StreamOptions,
    ) -> None:
        """Check what can be checked without reading.

        Raises:
            InvalidOptionError: An option does not fit the store, or a stream.
        """
        if not options.read_change_feed:
            raise InvalidOptionError(
                "a stream gives the changes of a store: add the option readChangeFeed=true, so "
                "that its columns are those of changes"
            )
        for option, given in (
            ("endingOffset", options.ending_offset is not None),
            ("endingTimestamp", options.ending_timestamp_ms is not None),
        ):
            if given:
                raise InvalidOptionError(f"the option {option!r} is not for streams; leave it out")
        if options.starting_timestamp_ms is not None and stream.starting_offset != "earliest":
            raise InvalidOptionError(
                "the options 'startingTimestamp' and 'startingOffset' exclude each other; leave "
                "one out"
            )
        for option, limit in (
            (MAX_RECORDS, stream.max_records),
            (MAX_BYTES, stream.max_bytes),
        ):
            if limit is not None:
                refuse_limit(option)
        self._feed = StateStoreReader(root, specification, partitions, options)
        check_partitions("startingOffset", stream.starting_offset, specification.name, partitions)
        self._root = root
        self._partitions = partitions
        self._specification = specification
        self._numbers = options.partitions or tuple(range(partitions))
        self._options = stream
        self._starting_ms = options.starting_timestamp_ms
        self._last: dict[int, int] | None = None
        self._readers: dict[int, PartitionReader] = {}
        self._warned: dict[int, str] = {}
        self._home: Path | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what tasks get: they open what they read themselves."""
        return {**self.__dict__, "_readers": {}}

    # On the driver, in one process for the life of the query.

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Return where a query without a checkpoint begins."""
        ends = self._ends()
        offsets = StreamOffsets()
        for number in self._numbers:
            beginning = self._open(number).beginning
            start = self._options.start_of(number)
            if self._starting_ms is not None:
                start = min(ends[number], self._first_at(number, self._starting_ms))
            if start == "latest":
                start = ends[number]
            if start in {"earliest", beginning.offset}:
                offsets[number] = StreamOffset(beginning.offset, beginning.complete_from)
                continue
            assert isinstance(start, int)  # noqa: S101  # the words are dealt with
            if start > ends[number]:
                raise InvalidOptionError(
                    f"the option 'startingOffset' names {start}, and partition {number} of "
                    f"{self._specification.name!r} ends at {ends[number]}; say latest for its end"
                )
            offsets[number] = StreamOffset(start, 0)
        return offsets.to_json(self._specification.name)

    def _first_at(self, number: int, time_ms: int) -> int:
        """Return the first offset of a partition that was appended at *time_ms* or later.

        Raises:
            OffsetOutOfRangeError: Such changes may be gone, and the query is to fail then.
        """
        reader = self._open(number)
        if not self._options.fail_on_data_loss:
            return reader.offset_at(time_ms)
        return offset_from(reader, time_ms, f"partition {number} of {self._specification.name!r}")

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        """Return the limit of the options; Spark says when it counts."""
        if self._options.max_records is not None:
            return ReadMaxRows(self._options.max_records)
        if self._options.max_bytes is not None:
            return ReadMaxBytes(self._options.max_bytes)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        """Take what there is now as all that the query is going to read."""
        self._last = self._ends()

    def latestOffset(  # noqa: N802  # Spark's name
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Return up to where the next micro-batch reads.

        Before 4.2 Spark says neither from where it reads nor how much: it is everything.
        """
        if start is None:
            return self.reportLatestOffset()
        begun = self._of_checkpoint(start)
        ends = self._ends()
        for number, each in begun.items():
            check_order(number, each.offset, ends[number])
        if self._last is not None:
            ends = {
                number: max(begun[number].offset, min(end, self._last[number]))
                for number, end in ends.items()
            }
        begun = self._after_losses(begun)
        if not isinstance(limit, ReadAllAvailable):
            ends = self._limited(begun, ends)
        return StreamOffsets(
            {
                number: StreamOffset(max(each.offset, ends[number]), each.complete_from)
                for number, each in begun.items()
            }
        ).to_json(self._specification.name)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Return the ends of the store, for the progress of the query."""
        return StreamOffsets(
            {number: StreamOffset(end, 0) for number, end in self._ends().items()}
        ).to_json(self._specification.name)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return a task for each partition with changes from *start* to *end*."""
        stops = self._of_checkpoint(end)
        for number, each in self._of_checkpoint(start).items():
            check_order(number, each.offset, stops[number].offset)
        return [
            StreamPartition(number, each, stops[number].offset, self._open(number).seen, self._home)
            for number, each in self._after_losses(self._of_checkpoint(start)).items()
            if each.offset < stops[number].offset
        ]

    # In a task.

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Yield the changes of one partition, and make sure that none has gone meanwhile."""
        assert isinstance(partition, StreamPartition)  # noqa: S101  # what `partitions` planned
        number, stop, seen = partition.number, partition.stop, partition.seen
        self._home = partition.home
        self._open(number, seen)
        begun = self._after_losses(StreamOffsets({number: partition.start}))
        start = begun[number].offset
        if start < stop:
            planned = StorePartition(number, start, stop, seen=seen, home=partition.home)
            yield from self._feed.read(planned)
        self._after_losses(begun)

    def _after_losses(self, offsets: StreamOffsets) -> StreamOffsets:
        """Return *offsets*, or what comes after changes that are gone where that is accepted.

        Raises:
            OffsetOutOfRangeError: Changes are gone that were still to be read.
        """
        kept = StreamOffsets()
        for number, each in offsets.items():
            beginning = self._open(number).beginning
            if not each.is_lost(beginning):
                kept[number] = each
                continue
            message = (
                f"changes of partition {number} of {self._specification.name!r} from offset "
                f"{each.offset} on have been deleted or compacted before the query has read them: "
                f"the changelog begins at {beginning.offset}, and is complete from "
                f"{beginning.complete_from}{self._open(number).history}"
            )
            if self._options.fail_on_data_loss:
                raise OffsetOutOfRangeError(
                    f"{message}; start anew with another checkpoint and a read of the store's "
                    "content, or go on without them with failOnDataLoss=false"
                )
            self._warn(number, message)
            kept[number] = StreamOffset(max(each.offset, beginning.offset), beginning.complete_from)
        return kept

    def _warn(self, number: int, message: str) -> None:
        """Say in the log what of the partition *number* a query goes on without, once.

        Spark asks for the end of a micro-batch and then for its tasks, and both find the same loss.
        """
        if self._warned.get(number) != message:
            _log.warning("%s; the query goes on without them (failOnDataLoss=false)", message)
            self._warned[number] = message

    def _limited(self, begun: StreamOffsets, ends: dict[int, int]) -> dict[int, int]:
        """Return up to where the options allow one micro-batch to read."""
        starts = {number: each.offset for number, each in begun.items()}
        max_bytes = self._options.max_bytes
        return limited(
            starts,
            ends,
            max_records=self._options.max_records,
            max_bytes=max_bytes,
            change_bytes={}
            if max_bytes is None
            else {number: self._open(number).change_bytes(each) for number, each in starts.items()},
        )

    def _of_checkpoint(self, content: dict[str, Any]) -> StreamOffsets:
        """Return the offsets of a checkpoint, which must be those of these partitions."""
        offsets = StreamOffsets.from_json(content, self._specification.name)
        if sorted(offsets) != sorted(self._numbers):
            raise InvalidOptionError(
                f"the checkpoint is of a query of the partitions {sorted(offsets)}, and this one "
                f"reads {sorted(self._numbers)}; leave the option 'partitions' as it was; or the "
                "store has been resharded: start anew with another checkpoint and a read of the "
                "store's content"
            )
        return offsets

    def _ends(self) -> dict[int, int]:
        """Return the end offsets of all partitions, at one moment."""
        from statestores.reading.partition_reader import end_offsets  # noqa: PLC0415  # needs pyarrow

        ends = end_offsets([self._open(number) for number in self._numbers])
        return dict(zip(self._numbers, ends, strict=True))

    def _open(self, number: int, seen: "View | None" = None) -> "PartitionReader":
        """Return the reader of a partition, which is kept: that of a log remembers what it saw."""
        from statestores.reading.partition_reader import PartitionReader  # noqa: PLC0415  # needs pyarrow

        reader = self._readers.get(number)
        if reader is None or seen is not None:
            self._home = self._home or self._root.home(self._specification.name, self._partitions)
            place = self._root.partition(
                self._specification, self._partitions, number, seen, home=self._home
            )
            reader = self._readers[number] = PartitionReader(place, self._specification)
        return reader
