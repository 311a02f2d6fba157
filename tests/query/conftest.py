"""A store of each kind in a few partitions, and every read that it has."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.query import (
    QueryableStores,
    QueryableStoreType,
    key_value_store,
    session_store,
    timestamped_key_value_store,
    versioned_store,
    window_store,
)
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.store import ReadOnlyStore

PARTITIONS = 3

Read = Callable[[Any, str], Any]


def _drained(found: Iterator[Any]) -> Any:
    """Return what an iterator gave; ``None`` for nothing, as for a value that is not there."""
    return list(found) or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of store, and how it is written and read."""

    name: str
    specification: StoreSpecification[Any, Any]
    type: QueryableStoreType[Any]
    put: Callable[[Any, str, int], Any]
    """Writes one word with a number."""
    one_key: Mapping[str, Read]
    """The reads of one key: they give ``None`` when it is not there."""
    all_keys: Mapping[str, Read]
    """The reads of all partitions."""
    iterators: Mapping[str, Callable[[Any, str], Iterator[Any]]]
    """Reads that are drained bit by bit."""


KINDS = (
    Kind(
        name="key-value",
        specification=ss.KeyValue("s", key=ss.utf8, value=ss.int64),
        type=key_value_store(),
        put=lambda store, word, number: store.put(word, number),
        one_key={
            "get": lambda store, word: store.get(word),
            "get_many": lambda store, word: store.get_many([word])[0],
        },
        all_keys={
            "range": lambda store, _: _drained(store.range()),
            "prefix_scan": lambda store, _: _drained(store.prefix_scan(b"")),
        },
        iterators={
            "range bit by bit": lambda store, _: store.range(),
            "range backwards": lambda store, _: store.range("k05", "k20", reverse=True),
            "prefix bit by bit": lambda store, _: store.prefix_scan(b"k1"),
        },
    ),
    Kind(
        name="timestamped",
        specification=ss.TimestampedKeyValue("s", key=ss.utf8, value=ss.int64),
        type=timestamped_key_value_store(),
        put=lambda store, word, number: store.put(word, number, timestamp_ms=100 + number),
        one_key={
            "get": lambda store, word: store.get(word),
            "get_many": lambda store, word: store.get_many([word])[0],
        },
        all_keys={
            "range": lambda store, _: _drained(store.range()),
            "stream_time_ms": lambda store, _: store.stream_time_ms,
        },
        iterators={
            "range bit by bit": lambda store, _: store.range(),
            "range backwards": lambda store, _: store.range("k05", "k20", reverse=True),
            "prefix bit by bit": lambda store, _: store.prefix_scan(b"k1"),
        },
    ),
    Kind(
        name="versioned",
        specification=ss.Versioned("s", history_retention_ms=1_000, key=ss.utf8, value=ss.int64),
        type=versioned_store(),
        put=lambda store, word, number: store.put(word, number, timestamp_ms=100 + number),
        one_key={
            "get": lambda store, word: store.get(word),
            "get as of": lambda store, word: store.get(word, as_of_ms=500),
            "get_many": lambda store, word: store.get_many([word])[0],
            "get_many as of": lambda store, word: store.get_many([word], as_of_ms=500)[0],
            "history": lambda store, word: _drained(store.history(word)),
        },
        all_keys={
            "scan_as_of": lambda store, _: _drained(store.scan_as_of(500)),
            "stream_time_ms": lambda store, _: store.stream_time_ms,
        },
        iterators={
            "scan bit by bit": lambda store, _: store.scan_as_of(None),
            "scan backwards": lambda store, _: store.scan_as_of(130, reverse=True),
            "history bit by bit": lambda store, word: store.history(word),
        },
    ),
    Kind(
        name="window",
        specification=ss.Window(
            "s", retention_ms=1_000, window_size_ms=10, key=ss.utf8, value=ss.int64
        ),
        type=window_store(),
        put=lambda store, word, number: store.put(word, number, window_start_ms=100),
        one_key={
            "fetch": lambda store, word: store.fetch(word, 100),
            "fetch_range": lambda store, word: _drained(store.fetch_range(word)),
        },
        all_keys={
            "fetch_all": lambda store, _: _drained(store.fetch_all()),
            "stream_time_ms": lambda store, _: store.stream_time_ms,
        },
        iterators={
            "fetch_all bit by bit": lambda store, _: store.fetch_all(),
            "fetch_all backwards": lambda store, _: store.fetch_all(reverse=True),
            "fetch_range bit by bit": lambda store, word: store.fetch_range(word),
        },
    ),
    Kind(
        name="session",
        specification=ss.Session("s", retention_ms=1_000, key=ss.utf8, value=ss.int64),
        type=session_store(),
        put=lambda store, word, number: store.put(word, 100, 110, number),
        one_key={
            "fetch_session": lambda store, word: store.fetch_session(word, 100, 110),
            "find_sessions": lambda store, word: _drained(store.find_sessions(word)),
        },
        all_keys={
            "find_all_sessions": lambda store, _: _drained(store.find_all_sessions()),
            "find_sessions_by_end": lambda store, _: _drained(store.find_sessions_by_end()),
        },
        iterators={
            "sessions bit by bit": lambda store, _: store.find_all_sessions(),
            "by end backwards": lambda store, _: store.find_sessions_by_end(reverse=True),
            "one key bit by bit": lambda store, word: store.find_sessions(word),
        },
    ),
)


class Members:
    """The partitions of one store, as a task manager would show them."""

    def __init__(self, directory: Path, specification: Any, backend: str = "memory") -> None:
        self._specification = specification
        self.stores: dict[int, Any] = {
            number: ss.open_store(directory / str(number), specification, backend=backend)
            for number in range(PARTITIONS)
        }
        self.here = set(self.stores)
        self.facades: dict[int, ReadOnlyStore] = {
            number: store.read_only() for number, store in self.stores.items()
        }

    def unready(self, name: str) -> dict[int, str]:
        """Return nothing: all of them are open."""
        return {}

    def local_stores(
        self, name: str, *, include_stale: bool = False
    ) -> Mapping[int, ReadOnlyStore]:
        """Return the partitions that are here."""
        return {number: self.facades[number] for number in self.here}

    def specification(self, name: str) -> StoreSpecification[Any, Any]:
        """Return what the store is."""
        specification: StoreSpecification[Any, Any] = self._specification
        return specification

    def partition_count(self, name: str) -> int:
        """Return how many partitions there are."""
        return PARTITIONS

    def commit(self, partition: int, position: Mapping[ss.TopicPartition, int]) -> None:
        """Commit what is pending in *partition*, with the inputs that it reflects."""
        self.stores[partition].advance_position(position)
        self.stores[partition].commit({})

    @property
    def queries(self) -> QueryableStores:
        """The store as its queries see it."""
        return QueryableStores(self)

    def close(self) -> None:
        """Close the partitions."""
        for store in self.stores.values():
            store.close()


@pytest.fixture
def open_members(tmp_path: Path) -> Iterator[Callable[..., Members]]:
    """Return the function that opens the partitions of a store, and close them in the end."""
    opened: list[Members] = []

    def open_one(specification: Any, backend: str = "memory") -> Members:
        opened.append(Members(tmp_path / str(len(opened)), specification, backend))
        return opened[-1]

    yield open_one
    for members in opened:
        members.close()


@pytest.fixture
def kinds() -> tuple[Kind, ...]:
    """Return every kind of store that a composite reads."""
    return KINDS
