"""Stores of other instances, read as if they were here: of bytes, one class for each kind."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import pyarrow as pa

from statestores.errors import CapabilityNotSupportedError
from statestores.query.metadata.host import Host
from statestores.query.questions import Question
from statestores.semantics.every_kind.arguments import check_lengths, keys_and_times
from statestores.serving.query import Query, position_from_json
from statestores.spi import kinds
from statestores.spi.kinds import Kind
from statestores.spi.offsets import Position, TopicPartition
from statestores.spi.records import SessionRecord, TimestampedValue, VersionedRecord, WindowRecord
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.key_value import ReadOnlyKeyValueStore
from statestores.spi.stores.session import ReadOnlySessionStore
from statestores.spi.stores.store import ReadOnlyStore, Values
from statestores.spi.stores.stream_time import ReadOnlyTimedStore
from statestores.spi.stores.timestamped_key_value import ReadOnlyTimestampedKeyValueStore
from statestores.spi.stores.versioned import ReadOnlyVersionedStore
from statestores.spi.stores.window import ReadOnlyWindowStore
from statestores.spi.values import as_list, one_for_each

_FEW_KEYS = 16
"""Up to so many keys, a batch is cheaper as a point read than as a stream."""


class Asking(Protocol):
    """What carries questions: a `statestores.serving.flight.client.FlightStores`."""

    def rows(self, host: Host, query: Query) -> list[tuple[Any, ...]]:
        """Return a few rows."""

    def batches(self, host: Host, query: Query) -> Iterator[pa.RecordBatch]:
        """Return many rows."""

    def about(self, host: Host, query: Query) -> dict[str, Any]:
        """Return what is known of a store."""


class RemoteStore(ReadOnlyStore):
    """What stores of every kind have in common. Nothing is asked before a read."""

    def __init__(self, asking: Asking, host: Host, question: Question) -> None:
        """Read the store of *question* at *host*."""
        self._asking = asking
        self._host = host
        self._specification = question.specification
        self._same: dict[str, Any] = {"store": question.specification.name, **question.terms}

    @property
    def name(self) -> str:
        """The store's name."""
        return self._specification.name

    @property
    def specification(self) -> StoreSpecification[Any, Any]:
        """What the store is, as this side knows it."""
        return self._specification

    @property
    def is_open(self) -> bool:
        """Always: it is found anew by each read."""
        return True

    @property
    def position(self) -> Position:
        """What what is read there has reached."""
        return position_from_json(self._about()["position"])

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """Refuse: that is for whoever writes.

        Raises:
            CapabilityNotSupportedError: Always.
        """
        raise CapabilityNotSupportedError(
            f"committed offsets of {self.name!r} are known where it is written; ask its position"
        )

    def _about(self) -> dict[str, Any]:
        return self._asking.about(self._host, Query(read="about", **self._same))

    def _few(self, read: Any, **fields: Any) -> list[tuple[Any, ...]]:
        return self._asking.rows(self._host, Query(read=read, **fields, **self._same))

    def _many(self, read: Any, **fields: Any) -> Iterator[tuple[Any, ...]]:
        """Return the rows of a stream, of which the first are there."""
        query = Query(read=read, **fields, **self._same)
        return _rows(self._asking.batches(self._host, query))

    def _batch(self, keys: list[bytes], **fields: Any) -> list[tuple[Any, ...]]:
        asked = {"keys": tuple(keys), **fields}
        if len(keys) <= _FEW_KEYS:
            return self._few("get_many", **asked)
        return list(self._many("get_many", **asked))


class RemoteTimedStore(RemoteStore, ReadOnlyTimedStore):
    """What stores with a stream time have in common."""

    @property
    def stream_time_ms(self) -> int | None:
        """The stream time of what is read there."""
        found: int | None = self._about()["stream_time_ms"]
        return found


class RemoteKeyValueStore(RemoteStore, ReadOnlyKeyValueStore[bytes, Any]):
    """A key-value store elsewhere."""

    @staticmethod
    def _value(row: tuple[Any, ...]) -> Any:
        return row[1]

    def get(self, key: bytes) -> Any:
        """Return the value of *key*."""
        found = self._few("get", key=key)
        return self._value(found[0]) if found else None

    def get_many(self, keys: Values[bytes]) -> list[Any]:
        """Return the value of each of *keys*."""
        found = self._batch(as_list("keys", keys))
        return [None if row[1] is None else self._value(row) for row in found]

    def range(
        self, first: bytes | None = None, last: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, Any]]:
        """Return the keys from *first* to *last*."""
        rows = self._many("range", first=first, last=last, reverse=reverse)
        return ((row[0], self._value(row)) for row in rows)

    def prefix_scan(self, prefix: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, Any]]:
        """Return the keys that begin with *prefix*."""
        rows = self._many("range", prefix=prefix, reverse=reverse)
        return ((row[0], self._value(row)) for row in rows)

    def approximate_num_entries(self) -> int:
        """Return about how many keys there are."""
        found: int = self._about()["entries"]
        return found


class RemoteTimestampedStore(
    RemoteKeyValueStore, RemoteTimedStore, ReadOnlyTimestampedKeyValueStore[bytes, bytes]
):
    """The same with timestamps."""

    @staticmethod
    def _value(row: tuple[Any, ...]) -> Any:
        return TimestampedValue(row[1], row[2])


class RemoteVersionedStore(RemoteTimedStore, ReadOnlyVersionedStore[bytes, bytes]):
    """A versioned store elsewhere."""

    def get(self, key: bytes, as_of_ms: int | None = None) -> VersionedRecord[bytes] | None:
        """Return the version of *key* that is valid at a time."""
        found = self._few("get", key=key, as_of_ms=as_of_ms)
        return VersionedRecord(*found[0][1:]) if found else None

    def get_many(
        self, keys: Values[bytes], as_of_ms: int | Values[int] | None = None
    ) -> list[VersionedRecord[bytes] | None]:
        """Return `get` of each of *keys*."""
        wanted, times = keys_and_times(keys, as_of_ms)
        asked = tuple(time for time in times if time is not None) or None
        found = self._batch(wanted, as_of_ms=asked)
        return [None if row[1] is None else VersionedRecord(*row[1:]) for row in found]

    def history(
        self,
        key: bytes,
        first_ms: int | None = None,
        last_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[VersionedRecord[bytes]]:
        """Return the versions of *key*."""
        rows = self._many("history", key=key, first_ms=first_ms, last_ms=last_ms, reverse=reverse)
        return (VersionedRecord(*row[1:]) for row in rows)

    def range_history(
        self,
        first: bytes | None = None,
        last: bytes | None = None,
        first_ms: int | None = None,
        last_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[tuple[bytes, VersionedRecord[bytes]]]:
        """Return the versions of a range of keys."""
        span = {"first_ms": first_ms, "last_ms": last_ms}
        rows = self._many("history", first=first, last=last, reverse=reverse, **span)
        return ((row[0], VersionedRecord(*row[1:])) for row in rows)

    def scan_as_of(
        self,
        as_of_ms: int | None = None,
        first: bytes | None = None,
        last: bytes | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[tuple[bytes, VersionedRecord[bytes]]]:
        """Return the keys from *first* to *last*, as of a time."""
        rows = self._many("range", as_of_ms=as_of_ms, first=first, last=last, reverse=reverse)
        return ((row[0], VersionedRecord(*row[1:])) for row in rows)


class RemoteWindowStore(RemoteTimedStore, ReadOnlyWindowStore[bytes, bytes]):
    """A window store elsewhere."""

    def fetch(self, key: bytes, start_ms: int) -> bytes | None:
        """Return the value of *key* in the window that starts then."""
        found = self._few("get", key=key, start_ms=start_ms)
        return found[0][1] if found else None

    def fetch_many(self, keys: Values[bytes], starts_ms: int | Values[int]) -> list[bytes | None]:
        """Return `fetch` of each of *keys*."""
        wanted = as_list("keys", keys)
        starts = one_for_each("starts_ms", starts_ms, len(wanted))
        return [row[1] for row in self._batch(wanted, start_ms=tuple(starts))]

    def fetch_range(
        self,
        key: bytes,
        first_ms: int | None = None,
        last_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[WindowRecord[bytes, bytes]]:
        """Return the windows of *key*."""
        rows = self._many("history", key=key, first_ms=first_ms, last_ms=last_ms, reverse=reverse)
        return (WindowRecord(key, start, end, value) for key, value, start, end in rows)

    def fetch_all(
        self,
        first_ms: int | None = None,
        last_ms: int | None = None,
        first_key: bytes | None = None,
        last_key: bytes | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[WindowRecord[bytes, bytes]]:
        """Return the windows of many keys."""
        span = {"first_ms": first_ms, "last_ms": last_ms}
        rows = self._many("range", first=first_key, last=last_key, reverse=reverse, **span)
        return (WindowRecord(key, start, end, value) for key, value, start, end in rows)


class RemoteSessionStore(RemoteTimedStore, ReadOnlySessionStore[bytes, bytes]):
    """A session store elsewhere."""

    def fetch_session(self, key: bytes, start_ms: int, end_ms: int) -> bytes | None:
        """Return the value of one session."""
        found = self._few("get", key=key, start_ms=start_ms, end_ms=end_ms)
        return found[0][1] if found else None

    def fetch_many(
        self, keys: Values[bytes], starts_ms: Values[int], ends_ms: Values[int]
    ) -> list[bytes | None]:
        """Return `fetch_session` of each session."""
        wanted = as_list("keys", keys)
        starts, ends = as_list("starts_ms", starts_ms), as_list("ends_ms", ends_ms)
        check_lengths(keys=wanted, starts_ms=starts, ends_ms=ends)
        found = self._batch(wanted, start_ms=tuple(starts), end_ms=tuple(ends))
        return [row[1] for row in found]

    def find_sessions(
        self,
        key: bytes,
        earliest_end_ms: int | None = None,
        latest_start_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[SessionRecord[bytes, bytes]]:
        """Return the sessions of *key*."""
        span = {"first_ms": earliest_end_ms, "last_ms": latest_start_ms}
        return _sessions(self._many("history", key=key, reverse=reverse, **span))

    def find_all_sessions(
        self,
        earliest_end_ms: int | None = None,
        latest_start_ms: int | None = None,
        first_key: bytes | None = None,
        last_key: bytes | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[SessionRecord[bytes, bytes]]:
        """Return the sessions of many keys."""
        span = {"first_ms": earliest_end_ms, "last_ms": latest_start_ms}
        keys = {"first": first_key, "last": last_key}
        return _sessions(self._many("range", reverse=reverse, **span, **keys))

    def find_sessions_by_end(
        self,
        first_ms: int | None = None,
        last_ms: int | None = None,
        first_key: bytes | None = None,
        last_key: bytes | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[SessionRecord[bytes, bytes]]:
        """Return the sessions of many keys that end within a time."""
        span = {"first_ms": first_ms, "last_ms": last_ms}
        keys = {"first": first_key, "last": last_key}
        return _sessions(self._many("by_end", reverse=reverse, **span, **keys))


def remote_store(asking: Asking, host: Host, question: Question) -> ReadOnlyStore:
    """Return the store of *question* at *host*, of the class of its kind."""
    return _CLASSES[question.specification.kind](asking, host, question)


_CLASSES: Mapping[Kind, type[RemoteStore]] = {
    kinds.KEY_VALUE: RemoteKeyValueStore,
    kinds.TIMESTAMPED_KEY_VALUE: RemoteTimestampedStore,
    kinds.VERSIONED: RemoteVersionedStore,
    kinds.WINDOW: RemoteWindowStore,
    kinds.SESSION: RemoteSessionStore,
}


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _sessions(rows: Iterator[tuple[Any, ...]]) -> Iterator[SessionRecord[bytes, bytes]]:
    return (SessionRecord(key, start, end, value) for key, value, start, end in rows)
