"""The content of one partition, read through whichever door is open: log, engine or snapshot.

A partition with a changelog is read from its files, without its writer's lock and as fresh as its
last commit. One that has only an engine is read through the engine, which takes its lock. All rows
are of bytes, as they are stored.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from itertools import islice, starmap
from typing import Any

import pyarrow as pa

from statestores.arrow.key_selection import KeySelection
from statestores.arrow.restore_mark import check_not_half_restored
from statestores.arrow.row_batches import batches_from_changes
from statestores.arrow.rows import tail_of
from statestores.arrow.schemas import valid_at
from statestores.arrow.snapshot_reader import Snapshot, newest_valid_snapshot
from statestores.arrow.store_of_bytes import store_of_bytes
from statestores.changelog import changelog_partition
from statestores.cli.locations import (
    Partition,
)
from statestores.cli.logged_content import read_tail
from statestores.cli.records import Record, backwards, records_of
from statestores.errors import InvalidArgumentError
from statestores.opening import open_existing
from statestores.partition_reader import PartitionReader
from statestores.serdes import specification_from_description
from statestores.spi.durability import Durability
from statestores.spi.key_value import ReadOnlyKeyValueStore
from statestores.spi.session import ReadOnlySessionStore
from statestores.spi.specification import StoreSpecification, Versioned
from statestores.spi.store import StateStore
from statestores.spi.timestamped_key_value import ReadOnlyTimestampedKeyValueStore
from statestores.spi.versioned import ReadOnlyVersionedStore
from statestores.spi.window import ReadOnlyWindowStore

_NEVER = 1 << 63
"""Above every time: where a version ends that is the latest."""


@dataclass(frozen=True, slots=True)
class Content:
    """Everything that a partition holds."""

    stream_time_ms: int | None
    """The highest timestamp that it has seen; ``None`` for kinds without one."""

    batches: Iterator[pa.RecordBatch]
    """The rows in key order, deletions of versioned stores among them."""


class View(ABC):
    """One partition that can be read."""

    def __init__(self, specification: StoreSpecification[Any, Any]) -> None:
        """Read a store of *specification*."""
        self.specification = specification

    def records(
        self,
        keys: KeySelection,
        *,
        as_of_ms: int | None = None,
        reverse: bool = False,
        limit: int = 0,
    ) -> Iterator[Record]:
        """Yield the values of *keys*, at a time, in key order; with a *limit*, at most so many.

        Raises:
            InvalidArgumentError: A time is asked of a store that knows none.
        """
        self._check_time_is_known(as_of_ms)
        found = self._records(keys, as_of_ms, reverse=reverse, limit=limit)
        return islice(found, limit) if limit else found

    def history(
        self, key: bytes, first_ms: int | None, last_ms: int | None, *, reverse: bool
    ) -> Iterator[Record]:
        """Yield the versions of *key* that were valid within the times, both inclusive.

        Raises:
            InvalidArgumentError: The store is not versioned, or the times are inverted.
        """
        if not isinstance(self.specification, Versioned):
            raise InvalidArgumentError(
                f"{self.specification.name!r} is a {self.specification.kind} store, which has no "
                "history; use get"
            )
        if first_ms is not None and last_ms is not None and first_ms > last_ms:
            raise InvalidArgumentError("the first time of the history is after the last")
        return self._history(key, first_ms, last_ms, reverse=reverse)

    @abstractmethod
    def content(self) -> AbstractContextManager[Content]:
        """Give everything, frozen now."""

    @abstractmethod
    def _records(
        self, keys: KeySelection, as_of_ms: int | None, *, reverse: bool, limit: int
    ) -> Iterator[Record]:
        """Yield what `records` does, or more than the limit."""

    @abstractmethod
    def _history(
        self, key: bytes, first_ms: int | None, last_ms: int | None, *, reverse: bool
    ) -> Iterator[Record]:
        """Yield what `history` does."""

    def _check_time_is_known(self, as_of_ms: int | None) -> None:
        if as_of_ms is not None and not isinstance(self.specification, Versioned):
            raise InvalidArgumentError(
                f"{self.specification.name!r} is a {self.specification.kind} store, which knows no "
                "time to be read as of; leave --as-of out"
            )


class _ColumnView(View):
    """A view whose rows come as Arrow columns."""

    @abstractmethod
    def _batches(
        self, keys: KeySelection, as_of_ms: int | None, *, history: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows in key order: all versions with *history*, deletions left out."""

    def _records(
        self, keys: KeySelection, as_of_ms: int | None, *, reverse: bool, limit: int
    ) -> Iterator[Record]:
        batches = self._batches(keys, as_of_ms, history=False)
        if reverse:
            return backwards(batches, self.specification, limit)
        return records_of(batches, self.specification)

    def _history(
        self, key: bytes, first_ms: int | None, last_ms: int | None, *, reverse: bool
    ) -> Iterator[Record]:
        batches = self._batches(KeySelection(first=key, last=key), None, history=True)
        if reverse:
            versions = backwards(batches, self.specification, 0)
        else:
            versions = records_of(batches, self.specification)
        for version in versions:
            began = last_ms is None or (version.start_ms or 0) <= last_ms
            ended = first_ms is not None and (version.end_ms or _NEVER) <= first_ms
            if began and not ended:
                yield version


class LogView(_ColumnView):
    """A partition read from changelog and snapshots; it holds nothing open."""

    def __init__(self, partition: Partition, specification: StoreSpecification[Any, Any]) -> None:
        """Read *partition*, whose store is of *specification*."""
        super().__init__(specification)
        self._directory = partition.directory
        self._end: int | None = None
        self.reader = PartitionReader(partition.directory, specification)

    def stop_at(self, end_offset: int) -> None:
        """Read the content before *end_offset*, whatever is written from now on."""
        self._end = end_offset

    @contextmanager
    def content(self) -> Iterator[Content]:
        """Give the newest valid snapshot with the changes after it."""
        log = changelog_partition(self.specification.name, int(self._directory.path.name))
        snapshot = newest_valid_snapshot(self._directory.snapshots, to_offset=self._offset).snapshot
        if snapshot is not None and snapshot.manifest.partition != log:
            snapshot = None  # its offset is one of another log
        tail = read_tail(self.reader, self.specification, snapshot, to_offset=self._end)
        rows = () if snapshot is None else snapshot.batches()
        yield Content(getattr(tail, "stream_time_ms", None), tail.merge(rows))

    def _batches(
        self, keys: KeySelection, as_of_ms: int | None, *, history: bool
    ) -> Iterator[pa.RecordBatch]:
        return self.reader.rows(
            as_of_ms=as_of_ms, history=history, offset=self._offset, keys=keys, typed=False
        )

    @property
    def _offset(self) -> int | None:
        """The last offset to read; ``None`` for all there is."""
        return None if self._end is None else self._end - 1


class SnapshotView(_ColumnView):
    """A snapshot by itself."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Read *snapshot*."""
        super().__init__(specification_from_description(snapshot.manifest.specification))
        self._snapshot = snapshot

    @contextmanager
    def content(self) -> Iterator[Content]:
        """Give the rows of the snapshot."""
        with closing(self._snapshot.batches()) as batches:
            yield Content(self._snapshot.manifest.stream_time_ms, batches)

    def _batches(
        self, keys: KeySelection, as_of_ms: int | None, *, history: bool
    ) -> Iterator[pa.RecordBatch]:
        first, last = keys.bounds
        stream_time_ms = self._snapshot.manifest.stream_time_ms
        stored = self._snapshot.batches(first_key=first, last_key=last)
        rows: Iterator[pa.RecordBatch] = (keys.filter(batch) for batch in stored)
        if not isinstance(self.specification, Versioned):
            # Through a tail without changes: it leaves out what has expired since.
            rows = tail_of(self.specification, stream_time_ms=stream_time_ms).merge(rows)
        for batch in rows:
            shown = valid_rows(
                self.specification,
                batch,
                as_of_ms,
                stream_time_ms,
                history=history,
            )
            if shown.num_rows:
                yield shown


class EngineView(View):
    """A store that only its engine knows; the engine is open, and locked, while it is read."""

    def __init__(self, store: StateStore) -> None:
        """Read *store*, one of bytes."""
        super().__init__(store.specification)
        self._store = store

    @classmethod
    @contextmanager
    def open(cls, partition: Partition, options: Mapping[str, object] | None) -> Iterator[View]:
        """Open the engine of *partition*.

        Raises:
            StoreLockedError: It is open elsewhere.
            StoreMismatchError: A restore has left it half-way.
        """
        # Nothing is committed here, so no engine has to promise more.
        with open_existing(
            partition.path, options=options, durability=Durability.PROCESS_CRASH, decoded=False
        ) as store:
            check_not_half_restored(store.specification, store.committed_offsets())
            yield cls(store)

    @contextmanager
    def content(self) -> Iterator[Content]:
        """Give what the last commit left."""
        content = self._store.committed_content()
        with closing(content.changes) as changes:
            batches = batches_from_changes(self.specification.kind, changes)
            yield Content(content.stream_time_ms, batches)

    def _records(
        self, keys: KeySelection, as_of_ms: int | None, *, reverse: bool, limit: int
    ) -> Iterator[Record]:
        first, last = keys.bounds
        for record in self._stored_records(first, last, as_of_ms, reverse=reverse):
            if record.key != keys.stop:
                yield record

    def _stored_records(
        self, first: bytes | None, last: bytes | None, as_of_ms: int | None, *, reverse: bool
    ) -> Iterator[Record]:
        """Return the records of the keys from *first* to *last*, as the store's own reads do."""
        store: object = store_of_bytes(self._store)
        if isinstance(store, ReadOnlyTimestampedKeyValueStore):
            stamped = store.range(first, last, reverse=reverse)
            return (Record(key, *value) for key, value in stamped)
        if isinstance(store, ReadOnlyKeyValueStore):
            return starmap(Record, store.range(first, last, reverse=reverse))
        if isinstance(store, ReadOnlyVersionedStore):
            versions = store.scan_as_of(as_of_ms, first, last, reverse=reverse)
            return (Record(key, *version) for key, version in versions)
        if isinstance(store, ReadOnlyWindowStore):
            windows = store.fetch_all(None, None, first, last, reverse=reverse)
            return (Record(each.key, each.value, each.start_ms, each.end_ms) for each in windows)
        assert isinstance(store, ReadOnlySessionStore)  # noqa: S101  # the last kind that there is
        sessions = store.find_all_sessions(None, None, first, last, reverse=reverse)
        return (Record(each.key, each.value, each.start_ms, each.end_ms) for each in sessions)

    def _history(
        self, key: bytes, first_ms: int | None, last_ms: int | None, *, reverse: bool
    ) -> Iterator[Record]:
        store: object = store_of_bytes(self._store)
        if isinstance(store, ReadOnlyVersionedStore):
            for version in store.history(key, first_ms, last_ms, reverse=reverse):
                yield Record(key, *version)


def valid_rows(
    specification: StoreSpecification[Any, Any],
    rows: pa.RecordBatch,
    as_of_ms: int | None,
    stream_time_ms: int | None,
    *,
    history: bool = False,
) -> pa.RecordBatch:
    """Return those of the content *rows* that a read as of a time, or of the history, shows."""
    if not isinstance(specification, Versioned):
        return rows
    if history:
        return rows.filter(rows.column("value").is_valid())
    # Without a stream time there are no rows.
    return valid_at(rows, as_of_ms, (stream_time_ms or 0) - specification.history_retention_ms)
