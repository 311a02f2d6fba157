"""Stores whose read-only facades show too much, too little, or two commits at once."""

import time
from collections.abc import Iterator
from typing import Any

from statestores.semantics.every_kind.arguments import check_key
from statestores.semantics.key_value.facades import CommittedKeyValues, UncommittedKeyValues
from statestores.semantics.key_value.store import EngineKeyValueStore
from statestores.semantics.versioned.facades import CommittedVersions
from statestores.semantics.versioned.store import EngineVersionedStore
from statestores.semantics.versioned.view import VersionedView
from statestores.spi import (
    EngineSnapshot,
    Isolation,
    Position,
    ReadOnlyKeyValueStore,
    ReadOnlyVersionedStore,
    VersionedRecord,
)
from statestores.spi.stores.store import Values
from statestores.spi.values import as_list
from statestores_mutants.registry import mutant

Pairs = Iterator[tuple[bytes, bytes]]
Facade = ReadOnlyKeyValueStore[bytes, bytes]


def _is_committed(facade: object) -> bool:
    return not isinstance(facade, UncommittedKeyValues)


@mutant("ROF-2", "COM-1")
class FacadesLeakPendingWrites(EngineKeyValueStore):
    """A facade shows what is pending, also when it is read committed.

    Imitates interactive queries before KIP-892 (KAFKA-14412): readers see what is rolled back.
    """

    def read_only(self, isolation: Isolation | str = Isolation.READ_COMMITTED) -> Facade:
        super().read_only(isolation)
        return super().read_only(Isolation.READ_UNCOMMITTED)


@mutant("ROF-8")
class UncommittedFacadesShowTheCommitted(EngineKeyValueStore):
    """A read-uncommitted facade shows committed content only.

    Imitates an option that is accepted and has no effect.
    """

    def read_only(self, isolation: Isolation | str = Isolation.READ_COMMITTED) -> Facade:
        super().read_only(isolation)
        return super().read_only(Isolation.READ_COMMITTED)


class _KeyByKey(CommittedKeyValues):
    def get_many(self, keys: Values[bytes]) -> list[bytes | None]:
        found = []
        for key in as_list("keys", keys):
            found.append(self.get(key))
            time.sleep(0)
        return found


@mutant("ROF-2")
class GetManyMixesCommits(EngineKeyValueStore):
    """`get_many` of a facade reads key by key.

    Imitates a multi-get without a snapshot: half of one commit and half of the next.
    """

    def read_only(self, isolation: Isolation | str = Isolation.READ_COMMITTED) -> Facade:
        facade = super().read_only(isolation)
        return _KeyByKey(self, self._engine) if _is_committed(facade) else facade


class _PageByPage(CommittedKeyValues):
    def _scan(self, start: bytes, stop: bytes, *, reverse: bool) -> Pairs:
        self._store.check_open()
        return self._pages(start, stop, reverse=reverse)

    def _pages(self, start: bytes, stop: bytes, *, reverse: bool) -> Pairs:
        engine = self._engine
        seek = engine.last if reverse else engine.first
        while (found := seek(start, stop)) is not None:
            yield found[0][1:], found[1]
            start, stop = (start, found[0]) if reverse else (found[0] + b"\x00", stop)


@mutant("ROF-2", "ROF-4")
class FacadeScanMixesCommits(EngineKeyValueStore):
    """A range of a facade asks the engine anew for each pair.

    Imitates paged queries over HTTP: nothing says that two pages are of one commit.
    """

    def read_only(self, isolation: Isolation | str = Isolation.READ_COMMITTED) -> Facade:
        facade = super().read_only(isolation)
        return _PageByPage(self, self._engine) if _is_committed(facade) else facade


class _Writable(CommittedKeyValues):
    def put(self, key: bytes, value: bytes | None) -> None:
        """Refuse, which is one method too many."""
        raise NotImplementedError


@mutant("ROF-1")
class FacadesHaveAPut(EngineKeyValueStore):
    """A facade has a `put`, which raises.

    Imitates Kafka's read-only decorator, which throws at run time what a type could say.
    """

    def read_only(self, isolation: Isolation | str = Isolation.READ_COMMITTED) -> Facade:
        facade = super().read_only(isolation)
        return _Writable(self, self._engine) if _is_committed(facade) else facade


class _Outliving(CommittedKeyValues):
    def __init__(self, store: EngineKeyValueStore, engine: Any) -> None:
        super().__init__(store, engine)
        self._last: dict[bytes, bytes | None] = {}

    def get(self, key: bytes) -> bytes | None:
        check_key(key)
        if self._store.is_open:
            self._last[key] = super().get(key)
        return self._last.get(key)


@mutant("ROF-3")
class FacadeAnswersAfterClose(EngineKeyValueStore):
    """A facade answers `get` from its memory when the store is closed.

    Imitates a cache in front of a store that has moved elsewhere.
    """

    def read_only(self, isolation: Isolation | str = Isolation.READ_COMMITTED) -> Facade:
        facade = super().read_only(isolation)
        return _Outliving(self, self._engine) if _is_committed(facade) else facade


class _Frozen(CommittedVersions):
    def __init__(self, store: EngineVersionedStore, engine: Any, retention_ms: int) -> None:
        super().__init__(store, engine, retention_ms)
        self._stream_time_ms = super().stream_time_ms

    @property
    def stream_time_ms(self) -> int | None:
        self._store.check_open()
        return self._stream_time_ms


@mutant("ROF-7", "ROF-9")
class FacadeKeepsItsStreamTime(EngineVersionedStore):
    """The stream time of a facade is that of its making.

    Imitates a value that is read once: a facade made before the first commit knows no time.
    """

    def read_only(
        self, isolation: Isolation | str = Isolation.READ_COMMITTED
    ) -> ReadOnlyVersionedStore[bytes, bytes]:
        facade = super().read_only(isolation)
        if type(facade) is not CommittedVersions:
            return facade
        return _Frozen(self, self._engine, self._retention_ms)


class _OwnersHorizon(CommittedVersions):
    def _frozen(self) -> tuple[EngineSnapshot, VersionedView]:
        store = self._store
        assert isinstance(store, EngineVersionedStore)
        snapshot = self._engine.snapshot()
        stream_time = store.uncommitted_versions()[1]
        return snapshot, VersionedView(snapshot, {}, stream_time, self._retention_ms)


@mutant("ROF-2", "ROF-9")
class FacadeHasTheOwnersHorizon(EngineVersionedStore):
    """The horizon of a read-committed facade follows pending writes.

    Imitates one field for stream time, shared by the writer and its readers.
    """

    def read_only(
        self, isolation: Isolation | str = Isolation.READ_COMMITTED
    ) -> ReadOnlyVersionedStore[bytes, bytes]:
        facade = super().read_only(isolation)
        if type(facade) is not CommittedVersions:
            return facade
        return _OwnersHorizon(self, self._engine, self._retention_ms)


class _PendingPosition(CommittedKeyValues):
    @property
    def position(self) -> Position:
        self._store.check_open()
        return self._store.position


@mutant("ROF-9", "ROF-2")
class FacadeHasTheOwnersPosition(EngineKeyValueStore):
    """The position of a read-committed facade is the pending one.

    Imitates Kafka's position, which is moved before the write is there: "you can read it now".
    """

    def read_only(self, isolation: Isolation | str = Isolation.READ_COMMITTED) -> Facade:
        facade = super().read_only(isolation)
        return _PendingPosition(self, self._engine) if _is_committed(facade) else facade


class _Unsafe(UncommittedKeyValues):
    def _scan(self, start: bytes, stop: bytes, *, reverse: bool) -> Pairs:
        pairs = list(super()._scan(start, stop, reverse=reverse))
        for row in self._uncommitted_rows():  # the writer's own dict
            time.sleep(0)
            assert row is not None
        return self._store.while_open(iter(pairs))


@mutant("ROF-6", raises=RuntimeError)
class UncommittedFacadeIteratesOverTheBuffer(EngineKeyValueStore):
    """A read-uncommitted facade iterates over the dict that the owner writes.

    Imitates "dictionary changed size during iteration", which no test with one thread shows.
    """

    def read_only(self, isolation: Isolation | str = Isolation.READ_COMMITTED) -> Facade:
        facade = super().read_only(isolation)
        if _is_committed(facade):
            return facade
        return _Unsafe(self, self._engine, self.uncommitted_rows)


class _Late(CommittedVersions):
    def get(self, key: bytes, as_of_ms: int | None = None) -> VersionedRecord[bytes] | None:
        record = super().get(key, as_of_ms)
        if record is None or as_of_ms is None:
            return record
        return VersionedRecord(record.value, record.valid_from_ms, None)


@mutant("VRS-22", "ROF-2")
class FacadeForgetsWhenVersionsEnd(EngineVersionedStore):
    """A facade returns versions as of a time without their end.

    Imitates KIP-960, whose single-key queries did not have `validTo` at first.
    """

    def read_only(
        self, isolation: Isolation | str = Isolation.READ_COMMITTED
    ) -> ReadOnlyVersionedStore[bytes, bytes]:
        facade = super().read_only(isolation)
        if type(facade) is not CommittedVersions:
            return facade
        return _Late(self, self._engine, self._retention_ms)
