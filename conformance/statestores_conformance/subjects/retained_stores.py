"""Opening the window and session stores under test, and writing and reading both the same way.

For the tests that hold for every kind, each write is a window or session of its own, which starts
at the write's number; the latest value of a key is that of its last one.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from statestores.spi import (
    Changes,
    Isolation,
    ReadOnlySessionStore,
    ReadOnlyWindowStore,
    Session,
    SessionRecord,
    SessionStore,
    StateStore,
    StoreSpecification,
    Window,
    WindowRecord,
    WindowStore,
)
from statestores_conformance.subjects.stores import (
    KEYS,
    RETENTION_MS,
    Content,
    Stores,
    StoreUnderTest,
)

OpenWindowStore: TypeAlias = Callable[[Path, Window[bytes, bytes]], WindowStore[bytes, bytes]]
"""Opens a window store in a directory. The same directory gives the same data again."""

OpenSessionStore: TypeAlias = Callable[[Path, Session[bytes, bytes]], SessionStore[bytes, bytes]]
"""Opens a session store in a directory. The same directory gives the same data again."""

Record: TypeAlias = WindowRecord[bytes, bytes] | SessionRecord[bytes, bytes]

WINDOW_SIZE_MS = 10
"""The window size of the window stores in the tests."""

SESSION_MS = 5
"""How long the sessions are that `SessionUnderTest` writes."""


class RetainedUnderTest(StoreUnderTest):
    """A window or session store."""

    @abstractmethod
    def records(self, key: bytes | None, isolation: Isolation | None) -> Iterator[Record]:
        """Return the records of *key*, or of all keys, in one operation."""

    @abstractmethod
    def stream_time_ms(self, isolation: Isolation | None) -> int | None:
        """Return the stream time that the owner sees, or a facade with *isolation*."""

    def content(self, isolation: Isolation | None = None) -> Content:
        found: Content = {key: list(self.records(key, isolation)) for key in KEYS}
        found = {key: records for key, records in found.items() if records}
        stream_time = self.stream_time_ms(isolation)
        if stream_time is not None:
            found[b"stream time"] = stream_time
        return found

    def latest(self, isolation: Isolation | None = None) -> dict[bytes, bytes]:
        return {record.key: record.value for record in self.records(None, isolation)}

    def latest_of_keys(self, isolation: Isolation | None = None) -> list[bytes | None]:
        latest = self.latest(isolation)
        return [latest.get(key) for key in KEYS]

    def frozen(self, isolation: Isolation | None = None) -> Callable[[], list[Any]]:
        iterators = [self.records(key, isolation) for key in (None, *KEYS)]
        return lambda: [list(iterator) for iterator in iterators]


class WindowUnderTest(RetainedUnderTest):
    """A window store."""

    def __init__(self, store: WindowStore[bytes, bytes]) -> None:
        self._store = store

    @property
    def store(self) -> WindowStore[bytes, bytes]:
        return self._store

    def facade(
        self, isolation: Isolation | str = Isolation.READ_COMMITTED
    ) -> ReadOnlyWindowStore[bytes, bytes]:
        return self._store.read_only(isolation)

    def write(self, key: bytes, number: int) -> None:
        self._store.put(key, b"%d" % number, number)

    def erase(self, key: bytes, number: int) -> None:
        for record in list(self._store.fetch_range(key)):
            self._store.put(key, None, record.start_ms)
        self._store.put(key, None, number)

    def changes(
        self, keys: Sequence[bytes], values: Sequence[bytes | None], numbers: Sequence[int]
    ) -> Changes:
        return Changes(keys, values, numbers)

    def records(
        self, key: bytes | None, isolation: Isolation | None
    ) -> Iterator[WindowRecord[bytes, bytes]]:
        reader = self._reader(isolation)
        return reader.fetch_all() if key is None else reader.fetch_range(key)

    def read_one(self, key: bytes, number: int, isolation: Isolation | None = None) -> Any:
        return self._reader(isolation).fetch(key, number)

    def stream_time_ms(self, isolation: Isolation | None) -> int | None:
        return self._reader(isolation).stream_time_ms

    def _reader(self, isolation: Isolation | None) -> ReadOnlyWindowStore[bytes, bytes]:
        return self._store if isolation is None else self._store.read_only(isolation)


class SessionUnderTest(RetainedUnderTest):
    """A session store."""

    def __init__(self, store: SessionStore[bytes, bytes]) -> None:
        self._store = store

    @property
    def store(self) -> SessionStore[bytes, bytes]:
        return self._store

    def facade(
        self, isolation: Isolation | str = Isolation.READ_COMMITTED
    ) -> ReadOnlySessionStore[bytes, bytes]:
        return self._store.read_only(isolation)

    def write(self, key: bytes, number: int) -> None:
        self._store.put(key, number, number + SESSION_MS, b"%d" % number)

    def erase(self, key: bytes, number: int) -> None:
        for record in list(self._store.find_sessions(key)):
            self._store.remove(key, record.start_ms, record.end_ms)
        self._store.remove(key, number, number + SESSION_MS)

    def changes(
        self, keys: Sequence[bytes], values: Sequence[bytes | None], numbers: Sequence[int]
    ) -> Changes:
        return Changes(
            keys, values, numbers, end_times_ms=[number + SESSION_MS for number in numbers]
        )

    def records(
        self, key: bytes | None, isolation: Isolation | None
    ) -> Iterator[SessionRecord[bytes, bytes]]:
        reader = self._reader(isolation)
        return reader.find_all_sessions() if key is None else reader.find_sessions(key)

    def read_one(self, key: bytes, number: int, isolation: Isolation | None = None) -> Any:
        return self._reader(isolation).fetch_session(key, number, number + SESSION_MS)

    def stream_time_ms(self, isolation: Isolation | None) -> int | None:
        return self._reader(isolation).stream_time_ms

    def _reader(self, isolation: Isolation | None) -> ReadOnlySessionStore[bytes, bytes]:
        return self._store if isolation is None else self._store.read_only(isolation)


class WindowStores(Stores):
    """Window stores."""

    kind = "window"

    def __init__(self, root: Path, open_store: OpenWindowStore) -> None:
        super().__init__(root)
        self._open_store = open_store

    @property
    def opener(self) -> Callable[..., Any]:
        return self._open_store

    def specification(
        self,
        name: str = "store",
        *,
        retention_ms: int = RETENTION_MS,
        window_size_ms: int = WINDOW_SIZE_MS,
        retain_duplicates: bool = False,
    ) -> Window[bytes, bytes]:
        return Window(
            name,
            retention_ms=retention_ms,
            window_size_ms=window_size_ms,
            retain_duplicates=retain_duplicates,
        )

    def open(
        self,
        name: str = "store",
        *,
        retention_ms: int = RETENTION_MS,
        window_size_ms: int = WINDOW_SIZE_MS,
        retain_duplicates: bool = False,
    ) -> WindowUnderTest:
        specification = self.specification(
            retention_ms=retention_ms,
            window_size_ms=window_size_ms,
            retain_duplicates=retain_duplicates,
        )
        store = self._open_store(self.path(name), specification)
        self.remember(store)
        return WindowUnderTest(store)

    def open_as(
        self, specification: StoreSpecification[Any, Any], name: str = "store"
    ) -> StateStore:
        store = self._open_store(self.path(name), specification)  # type: ignore[arg-type]  # on purpose
        self.remember(store)
        return store


class SessionStores(Stores):
    """Session stores."""

    kind = "session"

    def __init__(self, root: Path, open_store: OpenSessionStore) -> None:
        super().__init__(root)
        self._open_store = open_store

    @property
    def opener(self) -> Callable[..., Any]:
        return self._open_store

    def specification(
        self, name: str = "store", *, retention_ms: int = RETENTION_MS
    ) -> Session[bytes, bytes]:
        return Session(name, retention_ms=retention_ms)

    def open(self, name: str = "store", *, retention_ms: int = RETENTION_MS) -> SessionUnderTest:
        store = self._open_store(self.path(name), self.specification(retention_ms=retention_ms))
        self.remember(store)
        return SessionUnderTest(store)

    def open_as(
        self, specification: StoreSpecification[Any, Any], name: str = "store"
    ) -> StateStore:
        store = self._open_store(self.path(name), specification)  # type: ignore[arg-type]  # on purpose
        self.remember(store)
        return store
