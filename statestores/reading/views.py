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

from statestores.arrow.keys.key_selection import KeySelection
from statestores.arrow.restore_mark import check_not_half_restored
from statestores.arrow.row_batches import batches_from_changes
from statestores.arrow.snapshots.reader import Snapshot
from statestores.arrow.store_of_bytes import store_of_bytes
from statestores.arrow.time_travel import check_has_history
from statestores.errors import InvalidArgumentError
from statestores.opening import open_existing
from statestores.reading.locations import Partition
from statestores.reading.partition_places import PartitionPlace
from statestores.reading.partition_reader import PartitionReader
from statestores.reading.records import Record, backwards, records_of
from statestores.reading.replay import Replay, shown_rows
from statestores.serdes import specification_from_description
from statestores.spi.durability import Durability
from statestores.spi.specification import StoreSpecification, Versioned
from statestores.spi.stores.key_value import ReadOnlyKeyValueStore
from statestores.spi.stores.session import ReadOnlySessionStore
from statestores.spi.stores.store import StateStore
from statestores.spi.stores.timestamped_key_value import ReadOnlyTimestampedKeyValueStore
from statestores.spi.stores.versioned import ReadOnlyVersionedStore
from statestores.spi.stores.window import ReadOnlyWindowStore

_NEVER = 1 << 63
"""Above every time: the end of the latest version."""


@dataclass(frozen=True, slots=True)
class Content:
    """Everything that a partition holds."""

    specification: StoreSpecification[Any, Any]
    """What the store is."""

    stream_time_ms: int | None
    """The highest timestamp that it has seen; ``None`` for kinds without one."""

    batches: Iterator[pa.RecordBatch]
    """The rows in key order, deletions of versioned stores among them."""

    def shown(self, as_of_ms: int | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows that a read as of a time, or now, shows."""
        horizon_ms = None
        if isinstance(self.specification, Versioned):
            # Without a stream time there are no rows.
            horizon_ms = (self.stream_time_ms or 0) - self.specification.history_retention_ms
        return shown_rows(self.batches, horizon_ms, as_of_ms)


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
        """Yield the values of *keys*, at a time, in key order; with a *limit*, at most that many.

        Raises:
            InvalidArgumentError: A time is asked of a store that knows none.
        """
        if as_of_ms is not None:
            check_has_history(self.specification)
        found = self._records(keys, as_of_ms, reverse=reverse, limit=limit)
        return islice(found, limit) if limit else found

    def history(
        self, key: bytes, first_ms: int | None, last_ms: int | None, *, reverse: bool
    ) -> Iterator[Record]:
        """Yield the versions of *key* that were valid within the times, both inclusive.

        Raises:
            InvalidArgumentError: The store is not versioned, or the times are inverted.
        """
        check_has_history(self.specification)
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


class _FileView(View):
    """A view of files: a snapshot, the changes after it, or both."""

    @contextmanager
    def content(self) -> Iterator[Content]:
        """Give the newest valid snapshot with the changes after it."""
        replay = self._replay(KeySelection())
        yield Content(self.specification, replay.stream_time_ms, replay.rows())

    @abstractmethod
    def _replay(self, keys: KeySelection) -> Replay:
        """Return the content of *keys*."""

    def _records(
        self, keys: KeySelection, as_of_ms: int | None, *, reverse: bool, limit: int
    ) -> Iterator[Record]:
        batches = self._replay(keys).shown(as_of_ms)
        if reverse:
            return backwards(batches, self.specification, limit)
        return records_of(batches, self.specification)

    def _history(
        self, key: bytes, first_ms: int | None, last_ms: int | None, *, reverse: bool
    ) -> Iterator[Record]:
        batches = self._replay(KeySelection(first=key, last=key)).shown(history=True)
        if reverse:
            versions = backwards(batches, self.specification, 0)
        else:
            versions = records_of(batches, self.specification)
        for version in versions:
            began = last_ms is None or (version.start_ms or 0) <= last_ms
            ended = first_ms is not None and (version.end_ms or _NEVER) <= first_ms
            if began and not ended:
                yield version


class LogView(_FileView):
    """A partition read from changelog and snapshots; it holds nothing open."""

    def __init__(self, place: PartitionPlace, specification: StoreSpecification[Any, Any]) -> None:
        """Read what is at *place*, whose store is of *specification*."""
        super().__init__(specification)
        self._offset: int | None = None
        self.reader = PartitionReader(place, specification)

    def stop_at(self, end_offset: int) -> None:
        """Read the content before *end_offset*, whatever is written from now on."""
        self._offset = end_offset - 1

    def _replay(self, keys: KeySelection) -> Replay:
        return self.reader.replay(self._offset, keys)


class SnapshotView(_FileView):
    """A snapshot on its own."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Read *snapshot*."""
        super().__init__(specification_from_description(snapshot.manifest.specification))
        self._snapshot = snapshot

    def _replay(self, keys: KeySelection) -> Replay:
        return Replay.of(self.specification, self._snapshot, keys)


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
        # Nothing is committed here, so no engine need promise more.
        with open_existing(
            partition.home, options=options, durability=Durability.PROCESS_CRASH, decoded=False
        ) as store:
            check_not_half_restored(store.specification, store.committed_offsets())
            yield cls(store)

    @contextmanager
    def content(self) -> Iterator[Content]:
        """Give what the last commit left."""
        content = self._store.committed_content()
        with closing(content.changes) as changes:
            batches = batches_from_changes(self.specification.kind, changes)
            yield Content(self.specification, content.stream_time_ms, batches)

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
