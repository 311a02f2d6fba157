"""Opening the stores under test, of every kind, and writing and reading all in the same way.

Some things every store does, whatever its kind; so the tests of commits, facades and replay are
written once, against `StoreUnderTest`, and run for each kind that the author's class opens.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeAlias
from uuid import uuid4

from statestores.errors import CapabilityNotSupportedError
from statestores.spi import (
    Changes,
    Isolation,
    KeyValue,
    KeyValueStore,
    ReadOnlyKeyValueStore,
    ReadOnlyStore,
    ReadOnlyVersionedStore,
    StateStore,
    StoreSpecification,
    TopicPartition,
    Versioned,
    VersionedStore,
)
from statestores_conformance.subjects.engines import open_files_below

OpenKeyValueStore: TypeAlias = Callable[[Path, KeyValue[bytes, bytes]], KeyValueStore[bytes, bytes]]
"""Opens a key-value store in a directory. The same directory gives the same data again."""

OpenVersionedStore: TypeAlias = Callable[
    [Path, Versioned[bytes, bytes]], VersionedStore[bytes, bytes]
]
"""Opens a versioned store in a directory. The same directory gives the same data again."""

Content: TypeAlias = dict[bytes, Any]
"""All that a reader sees, in a form that can be compared."""

CHANGELOG = TopicPartition("changelog", 0)
"""The partition that the tests commit offsets of."""

INPUT = TopicPartition("input", 3)
"""The partition that the tests advance the position of."""

KEYS = (b"a", b"b", b"c", b"d")
"""The keys that the tests of all kinds write."""

RETENTION_MS = 1_000
"""The history retention of the versioned stores in the tests of all kinds."""


class StoreUnderTest(ABC):
    """One open store, with the few operations that tests of every kind need."""

    @property
    @abstractmethod
    def store(self) -> StateStore:
        """The store itself."""

    @abstractmethod
    def facade(self, isolation: Isolation | str = Isolation.READ_COMMITTED) -> ReadOnlyStore:
        """Return a read-only facade of the store."""

    @abstractmethod
    def write(self, key: bytes, number: int) -> None:
        """Put *number* as the value of *key*; a higher number is a later write."""

    @abstractmethod
    def erase(self, key: bytes, number: int) -> None:
        """Delete *key*; the number counts as for `write`."""

    @abstractmethod
    def changes(
        self, keys: Sequence[bytes], values: Sequence[bytes | None], numbers: Sequence[int]
    ) -> Changes:
        """Return what `write` and `erase` with these arguments change."""

    @abstractmethod
    def content(self, isolation: Isolation | None = None) -> Content:
        """Return what the owner reads, or what a facade with *isolation* does."""

    @abstractmethod
    def latest(self, isolation: Isolation | None = None) -> dict[bytes, bytes]:
        """Return the latest value of each key, in one operation: a scan."""

    @abstractmethod
    def latest_of_keys(self, isolation: Isolation | None = None) -> list[bytes | None]:
        """Return the latest value of each of `KEYS`, in one operation: a ``get_many``."""

    @abstractmethod
    def read_one(self, key: bytes, number: int, isolation: Isolation | None = None) -> Any:
        """Return what a single read gives for *key*, as `write` with *number* has put it."""

    @abstractmethod
    def frozen(self, isolation: Isolation | None = None) -> Callable[[], list[Any]]:
        """Begin iterating as the owner, or through a facade; the result steps to the end."""

    def committed(self) -> Content:
        """Return what others read."""
        return self.content(Isolation.READ_COMMITTED)

    def content_of_every_isolation(self) -> list[Content]:
        """Return what a read-committed and what a read-uncommitted facade see."""
        return [
            self.content(Isolation.READ_COMMITTED),
            self.content(Isolation.READ_UNCOMMITTED),
        ]

    def fill(self) -> None:
        """Write every key twice and erase one, and commit nothing."""
        for number, key in enumerate(KEYS):
            self.write(key, number)
        for number, key in enumerate(KEYS):
            self.write(key, 10 + number)
        self.erase(KEYS[1], 20)


class KeyValueUnderTest(StoreUnderTest):
    """A key-value store."""

    def __init__(self, store: KeyValueStore[bytes, bytes]) -> None:
        self._store = store

    @property
    def store(self) -> KeyValueStore[bytes, bytes]:
        return self._store

    def facade(
        self, isolation: Isolation | str = Isolation.READ_COMMITTED
    ) -> ReadOnlyKeyValueStore[bytes, bytes]:
        return self._store.read_only(isolation)

    def write(self, key: bytes, number: int) -> None:
        self._store.put(key, b"%d" % number)

    def erase(self, key: bytes, number: int) -> None:
        self._store.delete(key)

    def changes(
        self, keys: Sequence[bytes], values: Sequence[bytes | None], numbers: Sequence[int]
    ) -> Changes:
        return Changes(keys, values)

    def content(self, isolation: Isolation | None = None) -> Content:
        return dict(self._reader(isolation).range())

    def latest(self, isolation: Isolation | None = None) -> dict[bytes, bytes]:
        return dict(self._reader(isolation).range())

    def latest_of_keys(self, isolation: Isolation | None = None) -> list[bytes | None]:
        return self._reader(isolation).get_many(KEYS)

    def read_one(self, key: bytes, number: int, isolation: Isolation | None = None) -> Any:
        return self._reader(isolation).get(key)

    def frozen(self, isolation: Isolation | None = None) -> Callable[[], list[Any]]:
        pairs = self._reader(isolation).range()
        return lambda: list(pairs)

    def _reader(self, isolation: Isolation | None) -> ReadOnlyKeyValueStore[bytes, bytes]:
        return self._store if isolation is None else self._store.read_only(isolation)


class VersionedUnderTest(StoreUnderTest):
    """A versioned store."""

    def __init__(self, store: VersionedStore[bytes, bytes]) -> None:
        self._store = store

    @property
    def store(self) -> VersionedStore[bytes, bytes]:
        return self._store

    def facade(
        self, isolation: Isolation | str = Isolation.READ_COMMITTED
    ) -> ReadOnlyVersionedStore[bytes, bytes]:
        return self._store.read_only(isolation)

    def write(self, key: bytes, number: int) -> None:
        self._store.put(key, b"%d" % number, timestamp_ms=number)

    def erase(self, key: bytes, number: int) -> None:
        self._store.delete(key, timestamp_ms=number)

    def changes(
        self, keys: Sequence[bytes], values: Sequence[bytes | None], numbers: Sequence[int]
    ) -> Changes:
        return Changes(keys, values, numbers)

    def content(self, isolation: Isolation | None = None) -> Content:
        reader = self._reader(isolation)
        found: Content = {key: list(reader.history(key)) for key in KEYS}
        found = {key: versions for key, versions in found.items() if versions}
        if reader.stream_time_ms is not None:
            found[b"stream time"] = reader.stream_time_ms
        return found

    def latest(self, isolation: Isolation | None = None) -> dict[bytes, bytes]:
        return {key: record.value for key, record in self._reader(isolation).scan_as_of()}

    def latest_of_keys(self, isolation: Isolation | None = None) -> list[bytes | None]:
        records = self._reader(isolation).get_many(KEYS)
        return [record.value if record else None for record in records]

    def read_one(self, key: bytes, number: int, isolation: Isolation | None = None) -> Any:
        reader = self._reader(isolation)
        return reader.get(key), reader.get(key, number)

    def frozen(self, isolation: Isolation | None = None) -> Callable[[], list[Any]]:
        reader = self._reader(isolation)
        iterators = [reader.scan_as_of(), *(reader.history(key) for key in KEYS)]
        return lambda: [list(iterator) for iterator in iterators]

    def _reader(self, isolation: Isolation | None) -> ReadOnlyVersionedStore[bytes, bytes]:
        return self._store if isolation is None else self._store.read_only(isolation)


class Stores(ABC):
    """Opens stores of one kind below one directory and remembers them."""

    kind: ClassVar[str]
    """The name of the kind, as in a specification."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._opened: list[StateStore] = []

    def path(self, name: str = "store") -> Path:
        """Return the directory of the store *name*."""
        return self._root / name

    @abstractmethod
    def open(self, name: str = "store") -> StoreUnderTest:
        """Open the store in the directory *name*: a new one, or that one again."""

    @abstractmethod
    def specification(self, name: str = "store") -> StoreSpecification[bytes, bytes]:
        """Return a specification of the kind, for a store called *name*."""

    @abstractmethod
    def open_as(
        self, specification: StoreSpecification[Any, Any], name: str = "store"
    ) -> StateStore:
        """Open the directory *name* as what *specification* says, right or wrong."""

    @property
    @abstractmethod
    def opener(self) -> Callable[..., Any]:
        """The author's function, or what opens stores over an engine."""

    def has_kind_of(self, specification: StoreSpecification[Any, Any]) -> bool:
        """Return whether the author has stores of that kind at all, tried where there is none."""
        try:
            self.open_as(specification, f"another-{uuid4().hex}").close()
        except CapabilityNotSupportedError:
            return False
        return True

    def remember(self, store: StateStore) -> None:
        """Close *store* when the test ends."""
        self._opened.append(store)

    def close(self) -> None:
        """Close what is still open."""
        for store in self._opened:
            store.close()

    def files_left_open(self) -> list[str]:
        """Return the files below the directory that this process still has open."""
        return open_files_below(self._root)


class KeyValueStores(Stores):
    """Key-value stores."""

    kind = "key-value"

    def __init__(self, root: Path, open_store: OpenKeyValueStore) -> None:
        super().__init__(root)
        self._open_store = open_store

    @property
    def opener(self) -> Callable[..., Any]:
        return self._open_store

    def specification(self, name: str = "store") -> KeyValue[bytes, bytes]:
        return KeyValue(name)

    def open(self, name: str = "store") -> KeyValueUnderTest:
        store = self._open_store(self.path(name), self.specification())
        self.remember(store)
        return KeyValueUnderTest(store)

    def open_as(
        self, specification: StoreSpecification[Any, Any], name: str = "store"
    ) -> StateStore:
        store = self._open_store(self.path(name), specification)  # type: ignore[arg-type]  # on purpose
        self.remember(store)
        return store


class VersionedStores(Stores):
    """Versioned stores."""

    kind = "versioned"

    def __init__(self, root: Path, open_store: OpenVersionedStore) -> None:
        super().__init__(root)
        self._open_store = open_store

    @property
    def opener(self) -> Callable[..., Any]:
        return self._open_store

    def specification(
        self, name: str = "store", *, history_retention_ms: int = RETENTION_MS
    ) -> Versioned[bytes, bytes]:
        return Versioned(name, history_retention_ms=history_retention_ms)

    def open(
        self, name: str = "store", *, history_retention_ms: int = RETENTION_MS
    ) -> VersionedUnderTest:
        specification = self.specification(history_retention_ms=history_retention_ms)
        store = self._open_store(self.path(name), specification)
        self.remember(store)
        return VersionedUnderTest(store)

    def open_as(
        self, specification: StoreSpecification[Any, Any], name: str = "store"
    ) -> StateStore:
        store = self._open_store(self.path(name), specification)  # type: ignore[arg-type]  # on purpose
        self.remember(store)
        return store
