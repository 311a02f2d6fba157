"""Stores that remember too long what was read, or sorted, or counted."""

from collections.abc import Iterable, Iterator
from typing import Any

from statestores.semantics.key_value.store import EngineKeyValueStore
from statestores.semantics.retained.session import EngineSessionStore
from statestores.semantics.retained.window import EngineWindowStore
from statestores.semantics.versioned.store import EngineVersionedStore
from statestores.spi.stores.store import Values
from statestores_mutants.registry import mutant

_MANY = 100


@mutant("COM-18", "COM-24")
class TruncationKeepsTheRowsThatWereRead(EngineKeyValueStore):
    """Values that were read often are still found when the store has been truncated.

    Imitates a read cache that only commits refresh.
    """

    def _forget_cached(self) -> None:
        return


@mutant("COM-18", "COM-24")
class TruncationKeepsTheVersionsThatWereRead(EngineVersionedStore):
    """The same in a versioned store: the latest version of a key outlives the store's content.

    Imitates a read cache that only commits refresh.
    """

    def _forget_cached(self) -> None:
        self._seeks.forget()
        self._vacuum.forget()


@mutant("COM-7", "COM-24")
class RollbackKeepsWhatWasRead(EngineKeyValueStore):
    """A pending value that was read is found again after a rollback.

    Imitates a cache in front of the write buffer.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._seen: dict[bytes, bytes | None] = {}

    def get(self, key: bytes) -> bytes | None:
        value = self._seen[key] if key in self._seen else super().get(key)
        if key in self._rows:
            self._seen[key] = value
        return value

    def put(self, key: bytes, value: bytes | None) -> None:
        super().put(key, value)
        self._seen.pop(key, None)

    def put_many(self, keys: Values[bytes], values: Values[bytes | None]) -> None:
        super().put_many(keys, values)
        self._seen.clear()


@mutant("COM-24")
class FewNewKeysAreNotSortedIn(EngineKeyValueStore):
    """When more than a hundred keys are pending and were scanned, the next few are not scanned.

    Imitates a sorted copy of the buffer, which is made again when enough has come.
    """

    _sorted: frozenset[bytes] = frozenset()

    def _scan(self, start: bytes, stop: bytes, *, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        if abs(len(self._rows) - len(self._sorted)) > _MANY // 10 or len(self._rows) < _MANY:
            self._sorted = frozenset(self._rows)
        hidden = {key for key in self._rows if key not in self._sorted}
        return (
            pair for pair in super()._scan(start, stop, reverse=reverse) if pair[0] not in hidden
        )


@mutant("COM-16")
class BulkIsNotCounted(EngineKeyValueStore):
    """`put_all` writes, and `uncommitted_bytes` stays as it was.

    Imitates a count in `put`, past which the bulk goes; whoever commits by size never does.
    """

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        before = self._uncommitted_bytes
        super().put_all(entries)
        self._uncommitted_bytes = before


@mutant("COM-16")
class StartsAreNotCounted(EngineWindowStore):
    """`uncommitted_bytes` of a window store counts keys and values alone.

    Imitates a count that was taken over from the store without times.
    """

    def put(self, key: bytes, value: bytes | None, window_start_ms: int) -> bool:
        before = self._uncommitted_bytes
        accepted = super().put(key, value, window_start_ms)
        if self._uncommitted_bytes != before:
            self._uncommitted_bytes -= 8
        return accepted


@mutant("COM-16")
class RemovalsAreNotCounted(EngineSessionStore):
    """`remove` of a session store adds nothing to `uncommitted_bytes`.

    Imitates a count of what is put.
    """

    def remove(self, key: bytes, start_ms: int, end_ms: int) -> bool:
        before = self._uncommitted_bytes
        accepted = super().remove(key, start_ms, end_ms)
        self._uncommitted_bytes = before
        return accepted
