"""One partition of a store, read while others write: no lock, and no engine.

The content is the newest valid snapshot and the changelog after it, merged as Arrow columns. A
staged write that is committed and not finished counts as a part of the changelog.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import pyarrow as pa

from statestores.arrow.keys.key_selection import KeySelection
from statestores.arrow.rows.spilled_runs import SpilledRuns
from statestores.arrow.schemas import row_schema
from statestores.arrow.snapshots.key_splits import key_shares
from statestores.arrow.snapshots.manifest import Manifest
from statestores.arrow.snapshots.reader import Snapshot
from statestores.arrow.time_travel import check_has_history
from statestores.changelog import Frame
from statestores.errors import (
    InvalidArgumentError,
    OffsetOutOfRangeError,
    SnapshotCorruptedError,
    StorageError,
    StoreNotFoundError,
)
from statestores.generations import refuse_replaced
from statestores.object_log.view import View
from statestores.reading.change_feed import ChangeFeed, feed_schema
from statestores.reading.log_shares import log_shares
from statestores.reading.partition_columns import decoded, selected_fields, serdes_of, with_types
from statestores.reading.partition_places import PartitionPlace, log_at
from statestores.reading.replay import Replay
from statestores.reading.replays import Replays
from statestores.reading.usable_snapshots import UsableSnapshots
from statestores.reading.visible_log import LogBeginning, LogEnd
from statestores.reading.visible_object_log import VisibleObjectLog
from statestores.spi.offsets import Position
from statestores.spi.serde import Serde
from statestores.spi.specification import StoreSpecification
from statestores.state_root import PartitionDirectory

T = TypeVar("T")


class PartitionReader:
    """Reads one partition of a store. It holds nothing open between calls."""

    def __init__(self, place: PartitionPlace, specification: StoreSpecification[Any, Any]) -> None:
        """Read what is at *place*; a directory need not exist yet: then there is nothing."""
        self._place = place
        self._specification = specification
        self._log = log_at(place, specification)
        self._snapshots = UsableSnapshots(place, specification.name, self._log)
        self._replays = Replays(place, specification, self._log, self._snapshots)

    @property
    def end_offset(self) -> int:
        """The offset of the next change; without a changelog, the one after the last snapshot.

        Raises:
            StoreLockedError: Staged writes follow each other too fast to be seen whole; try again.
            ChangelogCorruptedError, StoreCorruptedError, StorageError: It cannot be read.
        """
        (offset,) = end_offsets([self])
        return offset

    @property
    def seen(self) -> View | None:
        """What has been seen of a log in an object store: readers elsewhere need not look again.

        ``None`` for a directory, where looking costs nothing worth saving.

        Raises:
            ChangelogCorruptedError, StorageError: It cannot be read.
        """
        return self._log.seen if isinstance(self._log, VisibleObjectLog) else None

    @property
    def end(self) -> LogEnd:
        """Where the changelog ends, and the input that it reflects there.

        Raises:
            StoreLockedError: Staged writes follow each other too fast to be seen whole; try again.
            StoreReshardedError: The store has other partitions since the root was opened.
            ChangelogCorruptedError, StoreCorruptedError, StorageError: It cannot be read.
        """
        return self._log.end()

    @property
    def history(self) -> str:
        """What has become of the changes before the beginning, for messages (`VisibleLog`)."""
        return self._log.history

    @property
    def beginning(self) -> LogBeginning:
        """Where the changes that deletion and compaction have left begin.

        Raises:
            ChangelogCorruptedError, StorageError: It cannot be read.
        """
        return self._log.beginning()

    def change_bytes(self, from_offset: int) -> float:
        """Return about how many bytes a change from *from_offset* on takes; 0 if unknown."""
        return self._log.change_bytes(from_offset)

    def offset_at(self, time_ms: int) -> int:
        """Return the first offset that was appended at *time_ms* or later; the end if none was.

        By the clock of whoever appended it. The changelog is read up to there.

        Raises:
            ChangelogCorruptedError, StoreCorruptedError, StorageError: It cannot be read.
        """
        with self._noticing_a_reshard():
            return self._log.offset_at(time_ms)

    def newest_snapshot(self) -> Manifest | None:
        """Return what the newest snapshot with a readable manifest is; ``None`` without one.

        Raises:
            ChangelogCorruptedError, StorageError: The partition cannot be read.
        """
        return next(
            (each.manifest for each in self._snapshots.readable(None, self._log.end())), None
        )

    def snapshots(self) -> Iterator[Manifest]:
        """Yield what the snapshots with readable manifests are, the newest first.

        Raises:
            ChangelogCorruptedError, StorageError: The partition cannot be read.
        """
        return (each.manifest for each in self._snapshots.readable(None, self._log.end()))

    def commits(self) -> Iterator[Frame]:
        """Yield what the changelog still has, commit by commit; merged ones are one.

        Raises:
            ChangelogCorruptedError, StoreCorruptedError, StorageError: It cannot be read.
        """
        with self._noticing_a_reshard():
            frames = self._log.frames(self._log.first_offset(), self._log.end().offset)
        return self._noticed(frames)

    def shares(
        self,
        offset: int,
        keys: KeySelection | None = None,
        *,
        count: int | None = None,
        rows: int | None = None,
    ) -> list[KeySelection]:
        """Return *keys* in parts for readers of the content at *offset* that share the work.

        Together they give the rows that one reader would, whatever is written meanwhile. As many as
        *count* says, or as are needed for *rows* of the snapshot each, or for as many changes if
        there is none; otherwise by its size, or one alone where most of the work is in the
        changelog, which each reader reads.

        Raises:
            ChangelogCorruptedError, StorageError: The partition cannot be read.
        """
        keys = keys or KeySelection()
        with self._noticing_a_reshard():
            snapshot = next(self._snapshots.readable(offset, self._log.end()), None)
            if snapshot is None:
                return log_shares(self._log, offset + 1, keys, count=count, rows=rows)
        if count is rows is None and offset - snapshot.offset > snapshot.rows:
            return [keys]
        return key_shares(snapshot.manifest, keys, count=count, rows=rows)

    @property
    def position(self) -> Position:
        """The input offsets that the content reflects."""
        return self._log.end().position

    def schema(self, *, typed: bool = True) -> pa.Schema:
        """Return the schema of `rows`."""
        rows = row_schema(self._specification.kind)
        return with_types(rows, serdes_of(self._specification)) if typed else rows

    def change_schema(
        self,
        *,
        typed: bool = True,
        before: bool = False,
        position: bool = False,
        commits: bool = False,
    ) -> pa.Schema:
        """Return the schema of `changes`: offset, partition, operation, and the change itself.

        With *before* and *position* also the columns of these names, and with *commits* those of
        `COMMIT_COLUMNS`.

        Raises:
            InvalidArgumentError: The values before the changes of such a store are not known.
        """
        return feed_schema(
            self._specification, typed=typed, before=before, position=position, commits=commits
        )

    def rows(
        self,
        *,
        as_of_ms: int | None = None,
        history: bool = False,
        offset: int | None = None,
        keys: KeySelection | None = None,
        columns: Iterable[str] | None = None,
        typed: bool = True,
        runs: SpilledRuns | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the content in key order: what a store would show after its last commit.

        It is that of this call: what is written before the first step, or later, does not show.

        Args:
            as_of_ms: Versioned stores: the versions valid then, inclusive; by default the latest.
            history: Versioned stores: every version that the retention keeps.
            offset: The content after the change with this offset, instead of now; -1 is before
                the first one.
            keys: These keys only; the others are hardly read.
            columns: These columns only; a column that is left out is not decoded.
            typed: Whether keys and values are decoded by the store's serdes.
            runs: Where changes go that are more than they allow to be held in memory.

        Raises:
            InvalidArgumentError: A time is asked of a store that knows none, or a column is
                unknown.
            OffsetOutOfRangeError: The content at the offset is gone, or not yet there.
            SerializationError: A key or value is not the serde's, at the step that comes to it.
            SnapshotCorruptedError, ChangelogCorruptedError, StoreCorruptedError, StorageError:
                Something cannot be read, and no older snapshot can replace it.
        """
        if history or as_of_ms is not None:
            check_has_history(self._specification)
        if history and as_of_ms is not None:
            raise InvalidArgumentError("give as_of_ms or history, not both")
        schema = selected_fields(self.schema(typed=typed), columns)
        batches = self.replay(offset, keys, runs).shown(as_of_ms, history=history)
        serdes = serdes_of(self._specification) if typed else {}
        return self._decoded(batches, schema, serdes)

    def _decoded(
        self,
        batches: Iterator[pa.RecordBatch],
        schema: pa.Schema,
        serdes: Mapping[str, Serde[Any]],
    ) -> Iterator[pa.RecordBatch]:
        return (decoded(batch, schema, serdes) for batch in self._noticed(batches))

    def _noticed(self, given: Iterator[T]) -> Iterator[T]:
        """Yield what is *given*, as `_noticing_a_reshard` says."""
        with self._noticing_a_reshard():
            yield from given

    def changes(
        self,
        from_offset: int | None = None,
        to_offset: int | None = None,
        *,
        keys: KeySelection | None = None,
        columns: Iterable[str] | None = None,
        typed: bool = True,
        before: bool = False,
        position: bool = False,
        commits: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the changes with ``from_offset <= offset < to_offset``, in the order of the log.

        ``None`` is the first offset that the changelog still has, and the end, both at this call.
        Changes that a compaction has dropped are not there. A versioned store's changes include
        versions that came too late to be in its content.

        Args:
            from_offset: The first offset.
            to_offset: The offset before which to end.
            keys: These keys only.
            columns: These columns only.
            typed: Whether keys and values are decoded by the store's serdes.
            before: Whether there is a column ``before``: the value that the change replaced, null
                where there was none. The keys that change, and their values, are held in memory.
            position: Whether there is a column ``position``: the input that the commit of the
                change reflects, as JSON by topic and partition; null where that is not known.
            commits: Whether there are the columns of `COMMIT_COLUMNS`.

        Raises:
            OffsetOutOfRangeError: An offset is not in the changelog; or the values before the
                first change are no longer known.
            InvalidArgumentError: The range is inverted, or a column is unknown; or the values
                before the changes of such a store are not known.
            ChangelogCorruptedError, StoreCorruptedError, StorageError: It cannot be read.
        """
        schema = self.change_schema(typed=typed, before=before, position=position, commits=commits)
        feed = ChangeFeed(
            self._log,
            self._specification,
            keys or KeySelection(),
            lambda offset, changing: self.replay(offset, changing).rows(),
        )
        wanted = selected_fields(schema, columns)
        with self._noticing_a_reshard():
            batches = feed.read(from_offset, to_offset, wanted, typed=typed, before=before)
        return self._noticed(batches)

    def replay(
        self,
        offset: int | None = None,
        keys: KeySelection | None = None,
        runs: SpilledRuns | None = None,
    ) -> Replay:
        """Return the content after the change with *offset*, to be followed by the later changes.

        ``None`` is now, and -1 before the first change. What *runs* do not allow to be held in
        memory is put there.

        Raises:
            StoreNotFoundError: There is a live engine, and neither a changelog nor a snapshot.
            OffsetOutOfRangeError: The content at the offset is gone, or not yet there.
            SnapshotCorruptedError, ChangelogCorruptedError, StoreCorruptedError, StorageError:
                Something cannot be read, and no older snapshot can replace it.
        """
        with self._noticing_a_reshard():
            return self._replays.at(offset, keys or KeySelection(), runs)

    @contextmanager
    def _noticing_a_reshard(self) -> Iterator[None]:
        """Say that the store has been resharded where that is why something is not there.

        Raises:
            StoreReshardedError: It has, since the root was opened.
        """
        try:
            yield
        except (
            OffsetOutOfRangeError,
            SnapshotCorruptedError,
            StorageError,
            StoreNotFoundError,
        ):
            if isinstance(self._place, PartitionDirectory):
                refuse_replaced(self._place.path.parent)
            raise

    def replay_after(self, snapshot: Snapshot | None, offset: int) -> Replay:
        """Return the content after the change with *offset*, made of *snapshot* as it is.

        Or of the changes alone. `replay` chooses the snapshot, and this is for checks of it.

        Raises:
            OffsetOutOfRangeError: Changes in between are gone, or not yet there.
            ChangelogCorruptedError, StoreCorruptedError, StorageError: They cannot be read.
        """
        return self._replays.of(snapshot, offset)

    def _end_offset(self, end: LogEnd) -> int:
        """Return the end offset where the log ends at *end*."""
        return end.offset if end.has_log else self._snapshots.newest_offset() + 1


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
    logs = [reader._log for reader in readers]  # noqa: SLF001  # of this module
    ends = logs[0].ends_of(logs)
    return [reader._end_offset(end) for reader, end in zip(readers, ends, strict=True)]  # noqa: SLF001
