"""Opening timestamped key-value stores, and using one as if it had no timestamps.

A timestamped store does all that a key-value store does, apart from its timestamps; so the tests of
key-value stores run for it too, through `WithoutTimestamps`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

from statestores.errors import InvalidArgumentError
from statestores.semantics.expiry.wall_clock import Clock
from statestores.serdes.typed_stores.delegation import DelegatingReadOnlyStore, DelegatingStateStore
from statestores.spi import (
    Changes,
    Isolation,
    KeyValueStore,
    ReadOnlyKeyValueStore,
    ReadOnlyTimestampedKeyValueStore,
    StateStore,
    StoreSpecification,
    TimestampedKeyValue,
    TimestampedKeyValueStore,
    TimestampedValue,
)
from statestores.spi.stores.store import Values
from statestores.spi.values import as_list
from statestores_conformance.subjects.openers import StoreOnEngine
from statestores_conformance.subjects.stores import KEYS, Content, Stores, StoreUnderTest

OpenTimestampedStore: TypeAlias = Callable[
    [Path, TimestampedKeyValue[bytes, bytes], Clock | None], TimestampedKeyValueStore[bytes, bytes]
]
"""Opens a timestamped store in a directory. The same directory gives the same data again. The
clock, if there is one, takes the place of the machine's."""

OpenWithItsOwnClock: TypeAlias = Callable[
    [Path, TimestampedKeyValue[bytes, bytes]], TimestampedKeyValueStore[bytes, bytes]
]
"""The same with the clock of the machine."""

LONG_MS = 1 << 40
"""A time to live that no test outlives: the store looks for what has expired, and finds nothing."""


class TimestampedUnderTest(StoreUnderTest):
    """A timestamped key-value store."""

    def __init__(self, store: TimestampedKeyValueStore[bytes, bytes]) -> None:
        self._store = store

    @property
    def store(self) -> TimestampedKeyValueStore[bytes, bytes]:
        return self._store

    def facade(
        self, isolation: Isolation | str = Isolation.READ_COMMITTED
    ) -> ReadOnlyTimestampedKeyValueStore[bytes, bytes]:
        return self._store.read_only(isolation)

    def write(self, key: bytes, number: int) -> None:
        self._store.put(key, b"%d" % number, number)

    def erase(self, key: bytes, number: int) -> None:
        self._store.delete(key)

    def changes(
        self, keys: Sequence[bytes], values: Sequence[bytes | None], numbers: Sequence[int]
    ) -> Changes:
        return Changes(keys, values, timestamps_ms=numbers)

    def content(self, isolation: Isolation | None = None) -> Content:
        reader = self._reader(isolation)
        found: Content = dict(reader.range())
        if reader.stream_time_ms is not None:
            found[b"stream time"] = reader.stream_time_ms
        return found

    def latest(self, isolation: Isolation | None = None) -> dict[bytes, bytes]:
        return {key: stamped.value for key, stamped in self._reader(isolation).range()}

    def latest_of_keys(self, isolation: Isolation | None = None) -> list[bytes | None]:
        return [stamped and stamped.value for stamped in self._reader(isolation).get_many(KEYS)]

    def read_one(self, key: bytes, number: int, isolation: Isolation | None = None) -> Any:
        return self._reader(isolation).get(key)

    def frozen(self, isolation: Isolation | None = None) -> Callable[[], list[Any]]:
        pairs = self._reader(isolation).range()
        return lambda: list(pairs)

    def _reader(
        self, isolation: Isolation | None
    ) -> ReadOnlyTimestampedKeyValueStore[bytes, bytes]:
        return self._store if isolation is None else self._store.read_only(isolation)


class TimestampedStores(Stores):
    """Timestamped key-value stores whose values live long."""

    kind = TimestampedKeyValue.kind

    def __init__(self, root: Path, open_store: OpenTimestampedStore) -> None:
        super().__init__(root)
        self._open_store = open_store

    @property
    def opener(self) -> Callable[..., Any]:
        return self._open_store

    def specification(self, name: str = "store") -> TimestampedKeyValue[bytes, bytes]:
        return TimestampedKeyValue(name, ttl_ms=LONG_MS)

    def open(self, name: str = "store") -> TimestampedUnderTest:
        return TimestampedUnderTest(self.open_with(self.specification(), name))

    def open_with(
        self,
        specification: TimestampedKeyValue[bytes, bytes],
        name: str = "store",
        clock: Clock | None = None,
    ) -> TimestampedKeyValueStore[bytes, bytes]:
        """Open the store in the directory *name* with a time to live of the test's own."""
        store = self._open_store(self.path(name), specification, clock)
        self.remember(store)
        return store

    def open_as(
        self, specification: StoreSpecification[Any, Any], name: str = "store"
    ) -> StateStore:
        store = self._open_store(self.path(name), specification, None)  # type: ignore[arg-type]  # on purpose
        self.remember(store)
        return store


def with_its_own_clock(open_store: OpenTimestampedStore) -> OpenWithItsOwnClock:
    """Return an opener of the same stores that takes no clock.

    An opener of stores over an engine is one already, and is left alone: a file that performs the
    steps of a failure again must open the same store.
    """
    if isinstance(open_store, StoreOnEngine):
        return open_store
    return lambda path, specification: open_store(path, specification, None)


class ReadingWithoutTimestamps(DelegatingReadOnlyStore, ReadOnlyKeyValueStore[bytes, bytes]):
    """A timestamped store, or a facade of one, read as if it had no timestamps."""

    _store: ReadOnlyTimestampedKeyValueStore[bytes, bytes]

    def __init__(
        self,
        store: ReadOnlyTimestampedKeyValueStore[bytes, bytes],
        specification: StoreSpecification[Any, Any],
    ) -> None:
        """Read *store*, and claim to be what *specification* says."""
        self._store = store
        self._specification = specification

    def get(self, key: bytes) -> bytes | None:
        return _value_of(self._store.get(key))

    def get_many(self, keys: Values[bytes]) -> list[bytes | None]:
        return [_value_of(stamped) for stamped in self._store.get_many(keys)]

    def range(
        self, first: bytes | None = None, last: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        return _values_of(self._store.range(first, last, reverse=reverse))

    def prefix_scan(self, prefix: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        return _values_of(self._store.prefix_scan(prefix, reverse=reverse))

    def approximate_num_entries(self) -> int:
        return self._store.approximate_num_entries()


class WithoutTimestamps(
    DelegatingStateStore, ReadingWithoutTimestamps, KeyValueStore[bytes, bytes]
):
    """A timestamped store, written with one timestamp after the other."""

    _store: TimestampedKeyValueStore[bytes, bytes]

    def __init__(
        self,
        store: TimestampedKeyValueStore[bytes, bytes],
        specification: StoreSpecification[Any, Any],
    ) -> None:
        """Take *store* over."""
        super().__init__(store, specification)
        self._times = count()

    def put(self, key: bytes, value: bytes | None) -> None:
        self._store.put(key, value, next(self._times))

    def put_if_absent(self, key: bytes, value: bytes) -> bytes | None:
        return _value_of(self._store.put_if_absent(key, value, next(self._times)))

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        pairs = as_list("entries", entries)
        try:
            triples = [(key, value, next(self._times)) for key, value in pairs]
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(f"entries must be pairs: {error}") from error
        self._store.put_all(triples)

    def put_many(self, keys: Values[bytes], values: Values[bytes | None]) -> None:
        listed = as_list("keys", keys)
        self._store.put_many(listed, values, [next(self._times) for _ in listed])

    def add_many(self, keys: Values[bytes], values: Values[bytes | None]) -> None:
        listed = as_list("keys", keys)
        self._store.add_many(listed, values, [next(self._times) for _ in listed])

    def min_many(self, keys: Values[bytes], values: Values[bytes | None]) -> None:
        listed = as_list("keys", keys)
        self._store.min_many(listed, values, [next(self._times) for _ in listed])

    def max_many(self, keys: Values[bytes], values: Values[bytes | None]) -> None:
        listed = as_list("keys", keys)
        self._store.max_many(listed, values, [next(self._times) for _ in listed])

    def delete(self, key: bytes) -> bytes | None:
        return _value_of(self._store.delete(key))

    def read_only(
        self, isolation: Isolation | str = Isolation.READ_COMMITTED
    ) -> ReadOnlyKeyValueStore[bytes, bytes]:
        return ReadingWithoutTimestamps(self._store.read_only(isolation), self._specification)


def _value_of(stamped: TimestampedValue[bytes] | None) -> bytes | None:
    return None if stamped is None else stamped.value


def _values_of(
    pairs: Iterator[tuple[bytes, TimestampedValue[bytes]]],
) -> Iterator[tuple[bytes, bytes]]:
    # A generator would begin at the first step, and report too late what is wrong.
    return map(_pair_of_value, pairs)


def _pair_of_value(pair: tuple[bytes, TimestampedValue[bytes]]) -> tuple[bytes, bytes]:
    return pair[0], pair[1].value
