"""Read-only facades of a key-value store, for other threads (ROF)."""

from collections.abc import Callable, Iterator
from typing import Any

from statestores.semantics.every_kind.arguments import check_key, check_reverse
from statestores.semantics.every_kind.engine_store import EngineStore
from statestores.semantics.every_kind.facade import EngineFacade, UncommittedFacade
from statestores.semantics.every_kind.key_ranges import KeyRanges
from statestores.semantics.rows.layout import DATA, HISTORY
from statestores.semantics.rows.namespaced_rows import (
    key_bounds_of,
    without_namespace,
)
from statestores.semantics.rows.write_buffer import merge, rows_between
from statestores.spi.engine import Engine
from statestores.spi.stores.key_value import ReadOnlyKeyValueStore
from statestores.spi.stores.store import Values
from statestores.spi.values import as_list

_ABSENT = object()


class CommittedKeyValues(KeyRanges[bytes], EngineFacade, ReadOnlyKeyValueStore[bytes, bytes]):
    """A key-value store as its last commit left it.

    Each operation reads the engine once, at one instant, so it sees exactly one commit and never
    waits for the writer.
    """

    def get(self, key: bytes) -> bytes | None:
        check_key(key)
        return self._engine.get(DATA + key)

    def get_many(self, keys: Values[bytes]) -> list[bytes | None]:
        rows = []
        for key in as_list("keys", keys):
            check_key(key)
            rows.append(DATA + key)
        with self._engine.snapshot() as snapshot:
            return snapshot.get_many(rows)

    def _scan(self, start: bytes, stop: bytes, *, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        check_reverse(reverse)
        rows = self._engine.scan(start, stop, reverse=reverse)
        return self._store.count_iterator(without_namespace(rows))

    def approximate_num_entries(self) -> int:
        return self._engine.approximate_num_keys(DATA, HISTORY)


class UncommittedKeyValues(UncommittedFacade, CommittedKeyValues):
    """A key-value store with the writer's pending writes.

    Single reads look at the live buffer; the others copy it.
    """

    def __init__(
        self,
        store: EngineStore[Any, Any],
        engine: Engine,
        uncommitted_rows: Callable[[], dict[bytes, bytes | None]],
    ) -> None:
        super().__init__(store, engine)
        self._uncommitted_rows = uncommitted_rows

    def get(self, key: bytes) -> bytes | None:
        check_key(key)
        value = self._uncommitted_rows().get(key, _ABSENT)
        if value is _ABSENT:
            return self._engine.get(DATA + key)
        return value  # type: ignore[return-value]  # a buffered value, since it is not _ABSENT

    def get_many(self, keys: Values[bytes]) -> list[bytes | None]:
        self._store.check_open()
        return [self.get(key) for key in as_list("keys", keys)]

    def _scan(self, start: bytes, stop: bytes, *, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        check_reverse(reverse)
        pending, stored = self._of_one_commit(
            lambda: (
                self._uncommitted_rows().copy(),
                without_namespace(self._engine.scan(start, stop, reverse=reverse)),
            )
        )
        chosen = rows_between(pending, *key_bounds_of(start, stop), reverse=reverse)
        return self._store.while_open(merge(stored, chosen, reverse=reverse))

    def approximate_num_entries(self) -> int:
        return super().approximate_num_entries() + len(self._uncommitted_rows().copy())
