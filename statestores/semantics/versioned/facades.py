"""Read-only facades of a versioned store, for other threads (ROF)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from statestores.semantics.every_kind.arguments import (
    check_key,
    check_reverse,
    check_time,
    check_time_range,
    keys_and_times,
)
from statestores.semantics.every_kind.engine_store import EngineStore
from statestores.semantics.every_kind.facade import TimedFacade, UncommittedTimedFacade
from statestores.semantics.rows.content_chunks import until_closed
from statestores.semantics.rows.layout import DATA
from statestores.semantics.rows.progress import read_progress
from statestores.semantics.versioned.reads import VersionedReads
from statestores.semantics.versioned.rows import Waiting, read_latest, versions_of
from statestores.semantics.versioned.view import VersionedView
from statestores.spi.engine import Engine, EngineSnapshot
from statestores.spi.records import VersionedRecord, new_tuple
from statestores.spi.stores.store import Values

Uncommitted = Callable[[], tuple[dict[bytes, Waiting], int]]
"""Returns the pending versions, live, and their stream time."""


class CommittedVersions(VersionedReads, TimedFacade):
    """A versioned store as its last commit left it.

    Each operation sees exactly one commit: it reads one row, or a snapshot of the engine, and
    takes stream time from there too. It never waits for the writer.
    """

    def __init__(self, store: EngineStore[Any, Any], engine: Engine, retention_ms: int) -> None:
        super().__init__(store, engine)
        self._retention_ms = retention_ms

    @property
    def _owner(self) -> EngineStore[Any, Any]:
        return self._store

    @contextmanager
    def view(self) -> Iterator[VersionedView]:
        """Give a view of one instant, for reads of many keys.

        Raises:
            StoreClosedError: The store is closed.
        """
        snapshot, view = self._frozen()
        with snapshot:
            yield view
        self._store.count_below_horizon(view.below_horizon)

    def _frozen(self) -> tuple[EngineSnapshot, VersionedView]:
        snapshot = self._engine.snapshot()
        stream_time = read_progress(snapshot).stream_time_ms
        return snapshot, VersionedView(snapshot, {}, stream_time, self._retention_ms)

    def _stream_time(self) -> int:
        return read_progress(self._engine).stream_time_ms

    def get(self, key: bytes, as_of_ms: int | None = None) -> VersionedRecord[bytes] | None:
        check_key(key)
        if as_of_ms is not None:
            check_time("as_of_ms", as_of_ms)
        row = self._engine.get(DATA + key)
        if row is None:
            return None
        latest = read_latest(row)
        if as_of_ms is None or latest.valid_from_ms <= as_of_ms:
            if latest.value is None:
                return None
            return new_tuple(VersionedRecord, (latest.value, latest.valid_from_ms, None))
        with self.view() as view:
            return view.get(key, as_of_ms)

    def get_many(
        self, keys: Values[bytes], as_of_ms: int | Values[int] | None = None
    ) -> list[VersionedRecord[bytes] | None]:
        key_list, times = keys_and_times(keys, as_of_ms)
        with self.view() as view:
            return view.get_many(key_list, times)

    def history(
        self,
        key: bytes,
        first_ms: int | None = None,
        last_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[VersionedRecord[bytes]]:
        check_reverse(reverse)
        check_key(key)
        check_time_range(first_ms, last_ms)
        self._store.check_open()
        snapshot, view = self._frozen()
        versions = view.history(key, first_ms, last_ms, reverse=reverse)
        self._store.count_below_horizon(view.below_horizon)
        return self._store.while_open(until_closed(snapshot, versions))


class UncommittedVersions(UncommittedTimedFacade, CommittedVersions):
    """A versioned store with the writer's pending versions, which each operation copies."""

    _uncommitted: Uncommitted

    def __init__(
        self,
        store: EngineStore[Any, Any],
        engine: Engine,
        retention_ms: int,
        uncommitted: Uncommitted,
    ) -> None:
        super().__init__(store, engine, retention_ms)
        self._uncommitted = uncommitted

    def _frozen(self) -> tuple[EngineSnapshot, VersionedView]:
        def look() -> tuple[EngineSnapshot, dict[bytes, dict[int, bytes | None]]]:
            live, _ = self._uncommitted()
            pending = {key: versions_of(waiting).copy() for key, waiting in live.copy().items()}
            return self._engine.snapshot(), pending

        snapshot, pending = self._of_one_commit(look, discard=lambda found: found[0].close())
        stored = read_progress(snapshot).stream_time_ms
        stream_time = max([stored, *(max(versions) for versions in pending.values())])
        return snapshot, VersionedView(snapshot, pending, stream_time, self._retention_ms)

    def get(self, key: bytes, as_of_ms: int | None = None) -> VersionedRecord[bytes] | None:
        check_key(key)
        if as_of_ms is not None:
            check_time("as_of_ms", as_of_ms)
        self._store.check_open()
        with self.view() as view:
            return view.get(key, as_of_ms)
