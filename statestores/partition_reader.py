"""One partition of a store, read from its files while others write: no lock, and no engine.

The content is the newest valid snapshot and the changelog after it, merged as Arrow columns. A
staged write that is committed and not finished counts as a part of the changelog.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from statestores.arrow.key_selection import KeySelection
from statestores.arrow.merged_rows import tail_of
from statestores.arrow.schemas import row_schema, valid_at
from statestores.arrow.snapshot_directory import list_snapshots
from statestores.arrow.snapshot_reader import Snapshot, read_snapshot
from statestores.arrow.tail import Tail
from statestores.arrow.versioned_tail import VersionedTail
from statestores.changelog import (
    Frame,
    FrameKind,
    change_schema,
    changelog_partition,
)
from statestores.errors import (
    InvalidArgumentError,
    OffsetOutOfRangeError,
    SnapshotCorruptedError,
    StoreNotFoundError,
    UnsupportedFormatError,
)
from statestores.opening import backend_of
from statestores.serdes.raw_serde import serde_or_raw
from statestores.spi.offsets import Position
from statestores.spi.specification import StoreSpecification, Versioned
from statestores.state_root import PartitionDirectory
from statestores.visible_changelog import LogBeginning, LogEnd, VisibleChangelog, consistently
from statestores.write_intent import WriteIntent

OPERATIONS = ("put", "delete", "clear")
"""What a change can be. A clear has no key: it drops everything before it."""


class PartitionReader:
    """Reads one partition of a store. It holds nothing open between calls."""

    def __init__(
        self, directory: PartitionDirectory, specification: StoreSpecification[Any, Any]
    ) -> None:
        """Read what is in *directory*, which need not exist yet: then there is nothing."""
        self._directory = directory
        self._specification = specification
        self._number = int(directory.path.name)
        self._log = VisibleChangelog(directory, specification)

    @property
    def end_offset(self) -> int:
        """The offset that the next change will have; without a changelog, after the last snapshot.

        Raises:
            StoreLockedError: Staged writes follow each other too fast to be seen whole; try again.
            ChangelogCorruptedError, StoreCorruptedError, StorageError: It cannot be read.
        """
        (offset,) = end_offsets([self])
        return offset

    @property
    def beginning(self) -> LogBeginning:
        """Where what deletion and compaction have left of the changes begins.

        Raises:
            ChangelogCorruptedError, StorageError: It cannot be read.
        """
        return self._log.beginning()

    def change_bytes(self, from_offset: int) -> float:
        """Return about how many bytes a change from *from_offset* on takes; 0 if unknown."""
        return self._log.change_bytes(from_offset)

    @property
    def position(self) -> Position:
        """The input offsets that the content reflects."""
        return self._log.end().position

    def schema(self, *, typed: bool = True) -> pa.Schema:
        """Return the schema of `rows`."""
        return self._typed(row_schema(self._specification.kind), typed=typed)

    def change_schema(self, *, typed: bool = True) -> pa.Schema:
        """Return the schema of `changes`: offset, partition, operation, and the change itself."""
        changes = self._typed(change_schema(self._specification.kind), typed=typed)
        fields = [
            pa.field("offset", pa.int64()),
            pa.field("partition", pa.int32()),
            pa.field("operation", pa.string()),
            *(field.with_nullable(True) for field in changes),  # noqa: FBT003  # Arrow's signature
        ]
        return pa.schema(fields)

    def rows(
        self,
        *,
        as_of_ms: int | None = None,
        history: bool = False,
        offset: int | None = None,
        keys: KeySelection | None = None,
        columns: Iterable[str] | None = None,
        typed: bool = True,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the content in key order: what a store would show after its last commit.

        Args:
            as_of_ms: Versioned stores: the versions valid then, inclusive; by default the latest.
            history: Versioned stores: every version that the retention keeps.
            offset: The content after the change with this offset, instead of now; -1 is before
                the first one.
            keys: These keys only; the others are hardly read.
            columns: These columns only; a column that is left out is not decoded.
            typed: Whether keys and values are decoded by the store's serdes.

        Raises:
            InvalidArgumentError: A time is asked of a store that knows none, or a column is
                unknown.
            OffsetOutOfRangeError: The content at the offset is gone, or not yet there.
            SerializationError: A key or value is not the serde's, at the step that comes to it.
            SnapshotCorruptedError, ChangelogCorruptedError, StoreCorruptedError, StorageError:
                Something cannot be read, and no older snapshot can replace it.
        """
        if not isinstance(self._specification, Versioned) and (history or as_of_ms is not None):
            raise InvalidArgumentError(
                f"{self._specification.name!r} is a {self._specification.kind} store, and only a "
                "versioned one has a history and can be read as of a time"
            )
        if history and as_of_ms is not None:
            raise InvalidArgumentError("give as_of_ms or history, not both")
        schema = _selected(self.schema(typed=typed), columns)
        batches = self._content(offset, keys or KeySelection(), as_of_ms, history=history)
        return (self._decoded(batch, schema, typed=typed) for batch in batches)

    def changes(
        self,
        from_offset: int | None = None,
        to_offset: int | None = None,
        *,
        keys: KeySelection | None = None,
        columns: Iterable[str] | None = None,
        typed: bool = True,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the changes with ``from_offset <= offset < to_offset``, in the order of the log.

        ``None`` is the first offset that the changelog still has, and the end. Changes that a
        compaction has dropped are not there. A versioned store's changes include versions that
        came too late to be in its content.

        Raises:
            OffsetOutOfRangeError: An offset is not in the changelog.
            InvalidArgumentError: The range is inverted, or a column is unknown.
            ChangelogCorruptedError, StoreCorruptedError, StorageError: It cannot be read.
        """
        schema = _selected(self.change_schema(typed=typed), columns)
        return self._changes(from_offset, to_offset, keys or KeySelection(), schema, typed=typed)

    def replay(self, offset: int | None = None, keys: KeySelection | None = None) -> "Replay":
        """Return the content after the change with *offset*, to be followed by the later changes.

        ``None`` is now, and -1 before the first change.

        Raises:
            StoreNotFoundError: There is a live engine, and neither a changelog nor a snapshot.
            OffsetOutOfRangeError: The content at the offset is gone, or not yet there.
            SnapshotCorruptedError, ChangelogCorruptedError, StoreCorruptedError, StorageError:
                Something cannot be read, and no older snapshot can replace it.
        """
        keys = keys or KeySelection()
        end = self._log.end()
        snapshot = self._snapshot(offset, end)
        start = 0 if snapshot is None else snapshot.offset + 1
        stop = self._stop(offset, start, end)
        if not end.has_log and self._is_engine_alone():
            raise StoreNotFoundError(
                f"{str(self._directory.path)!r} has a live engine and neither a changelog nor a "
                "snapshot, which is what is read without its lock; write a snapshot of the store"
            )
        tail = tail_of(
            self._specification,
            stream_time_ms=None if snapshot is None else snapshot.manifest.stream_time_ms,
            keys=keys,
        )
        if start < stop:
            self._log.check_compaction(start, stop)
            for frame in self._log.frames(start, stop):
                if frame.kind is FrameKind.CLEAR:
                    tail.clear()
                else:
                    tail.add(frame.batch)
        return Replay(tail, snapshot, keys)

    # The content.

    def _content(
        self, offset: int | None, keys: KeySelection, as_of_ms: int | None, *, history: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows to show, as bytes."""
        replay = self.replay(offset, keys)
        tail = replay.tail
        for batch in replay.rows():
            shown = batch
            if isinstance(tail, VersionedTail):
                shown = (
                    batch.filter(pc.is_valid(batch.column("value")))
                    if history
                    else valid_at(batch, as_of_ms, tail.horizon_ms)
                )
            if shown.num_rows:
                yield shown

    def _is_engine_alone(self) -> bool:
        return backend_of(self._directory.path) is not None and not list_snapshots(
            self._directory.snapshots
        )

    def _snapshot(self, offset: int | None, end: LogEnd) -> Snapshot | None:
        """Return the newest snapshot up to *offset* whose files are whole."""
        expected = changelog_partition(self._specification.name, self._number)
        last_error: Exception | None = None
        for at, path in reversed(list_snapshots(self._directory.snapshots).items()):
            if offset is not None and at > offset:
                continue
            try:
                snapshot = read_snapshot(path)
                if end.has_log and snapshot.manifest.partition != expected:
                    continue  # its offset is one of another log
                snapshot.verify_checksums()
            except (SnapshotCorruptedError, UnsupportedFormatError, StoreNotFoundError) as error:
                last_error = last_error or error
            else:
                return snapshot
        if last_error is not None and self._log.first_offset() > 0:
            raise last_error  # the changelog alone is not enough
        return None

    def _stop(self, offset: int | None, start: int, end: LogEnd) -> int:
        """Return the offset before which to stop reading changes from *start*."""
        stop = end.offset if offset is None else offset + 1
        if stop > max(end.offset, start):
            raise OffsetOutOfRangeError(
                f"partition {self._number} of {self._specification.name!r} has no offset {offset} "
                f"yet: it ends before {max(end.offset, start)}"
            )
        return stop

    def _decoded(self, rows: pa.RecordBatch, schema: pa.Schema, *, typed: bool) -> pa.RecordBatch:
        """Return the columns of *schema*, decoded."""
        serdes = {"key": self._specification.key, "value": self._specification.value}
        columns = [
            serde_or_raw(serdes[name]).decode_array(rows.column(name))
            if typed and name in serdes
            else rows.column(name)
            for name in schema.names
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _typed(self, schema: pa.Schema, *, typed: bool) -> pa.Schema:
        if not typed:
            return schema
        for name, serde in (("key", self._specification.key), ("value", self._specification.value)):
            place = schema.get_field_index(name)
            schema = schema.set(
                place, schema.field(name).with_type(serde_or_raw(serde).arrow_type())
            )
        return schema

    # The changelog, with what an unfinished write adds to it.

    def _changes(
        self,
        from_offset: int | None,
        to_offset: int | None,
        keys: KeySelection,
        schema: pa.Schema,
        *,
        typed: bool,
    ) -> Iterator[pa.RecordBatch]:
        first = self._log.first_offset()
        start = first if from_offset is None else from_offset
        end = self._log.end().offset
        stop = end if to_offset is None else to_offset
        if not first <= start <= end or stop > end:
            raise OffsetOutOfRangeError(
                f"partition {self._number} of {self._specification.name!r} has the changes from "
                f"offset {first} up to, and without, {end}; asked for {start} up to {stop}"
            )
        if start > stop:
            raise InvalidArgumentError(
                f"from_offset must not exceed to_offset, got {start!r} and {stop!r}"
            )
        for frame in self._log.frames(start, stop):
            changes = self._described(frame)
            selected = changes if keys.everything else keys.filter(changes)
            if selected.num_rows:
                yield self._decoded(selected, schema, typed=typed)

    def _described(self, frame: Frame) -> pa.RecordBatch:
        """Return the changes of *frame* with offset, partition and operation."""
        schema = self.change_schema(typed=False)
        if frame.kind is FrameKind.CLEAR:
            row = {"offset": frame.base_offset, "partition": self._number, "operation": "clear"}
            return pa.RecordBatch.from_pylist([row], schema=schema)
        put, delete, _ = OPERATIONS
        columns = [
            frame.offset_column(),
            pa.repeat(pa.scalar(self._number, pa.int32()), frame.batch.num_rows),
            pc.if_else(pc.is_valid(frame.batch.column("value")), put, delete),
            *frame.batch.columns,
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _end_offset(self, intent: WriteIntent | None) -> int:
        """Return the end offset, *intent* being the last staged write."""
        end = self._log.end_with(intent)
        if end.has_log:
            return end.offset
        return max(list_snapshots(self._directory.snapshots), default=-1) + 1


@dataclass(frozen=True, slots=True)
class Replay:
    """The content of a partition at one offset: a snapshot, and the changes after it."""

    tail: Tail
    """The changes; the next ones may be added."""

    snapshot: Snapshot | None
    """What they come after."""

    keys: KeySelection
    """The keys that are there."""

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in key order; of versions also those that say that a key was deleted."""
        return self.tail.merge(_stored(self.snapshot, self.keys))


def end_offsets(readers: Sequence[PartitionReader]) -> list[int]:
    """Return the end offset of each of *readers*, partitions of one store, at one moment.

    A staged write is before all of them or after all of them, never between. Appends to single
    partitions may come in between: nothing says that they belong together.

    Raises:
        StoreLockedError: Staged writes follow each other too fast to be seen whole; try again.
        ChangelogCorruptedError, StoreCorruptedError, StorageError: One cannot be read.
    """
    if not readers:
        return []
    return consistently(
        readers[0]._log.store_directory,  # noqa: SLF001  # of this module
        lambda intent: [reader._end_offset(intent) for reader in readers],  # noqa: SLF001
    )


def _stored(snapshot: Snapshot | None, keys: KeySelection) -> Iterator[pa.RecordBatch]:
    """Yield the rows of *snapshot* with the selected *keys*."""
    if snapshot is None:
        return
    first, last = keys.bounds
    for batch in snapshot.batches(first_key=first, last_key=last):
        yield batch if keys.stop is None else keys.filter(batch)


def _selected(schema: pa.Schema, columns: Iterable[str] | None) -> pa.Schema:
    """Return the fields of *schema* that are wanted, in the order in which they are named.

    Raises:
        InvalidArgumentError: One is unknown.
    """
    if columns is None:
        return schema
    names = list(columns)
    if unknown := [name for name in names if name not in schema.names]:
        raise InvalidArgumentError(
            f"there is no column {unknown[0]!r}; there are: {', '.join(schema.names)}"
        )
    return pa.schema([schema.field(name) for name in names])
