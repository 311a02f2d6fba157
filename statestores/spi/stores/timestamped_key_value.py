"""The timestamped key-value store: a value and its timestamp, which may expire (KIP-258)."""

from abc import abstractmethod
from collections.abc import Callable, Iterable
from time import time_ns
from typing import Any, TypeVar

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.spi.records import TimestampedValue
from statestores.spi.specification import TimestampedKeyValue, TtlClock
from statestores.spi.stores.key_value import ReadOnlyKeyValueStore
from statestores.spi.stores.merging import (
    Merge,
    check_equal_length,
    distinct_keys,
    keyed_rows,
    updated_values,
)
from statestores.spi.stores.stamped_merging import Expiry, check_stamps, merge_stamped
from statestores.spi.stores.store import Isolation, StateStore, Values
from statestores.spi.stores.stream_time import ReadOnlyTimedStore
from statestores.spi.values import as_list

K = TypeVar("K")
V = TypeVar("V")


class ReadOnlyTimestampedKeyValueStore(
    ReadOnlyTimedStore, ReadOnlyKeyValueStore[K, TimestampedValue[V]]
):
    """The reading half: that of a key-value store whose values have timestamps.

    A key whose value has expired is absent from every read, whether its row has been deleted yet
    or not (TTL-2); `approximate_num_entries` counts rows.
    """


class TimestampedKeyValueStore(StateStore, ReadOnlyTimestampedKeyValueStore[K, V]):
    """A store of the latest value of each key, with the timestamp with which it was put.

    The latest is the last one put, whatever its timestamp (TKV-2).
    """

    @abstractmethod
    def put(self, key: K, value: V | None, timestamp_ms: int | None = None) -> None:
        """Set value and timestamp of *key*; a value of ``None`` deletes it (TKV-1).

        The timestamp may be left out for a deletion, which has none (TKV-4), and where values
        expire by the wall clock: then it is the time of the call (TKV-3).

        Raises:
            StoreClosedError: The store is closed.
            InvalidTypeError: An argument has the wrong type, or the timestamp is missing (COM-19).
            InvalidArgumentError: The timestamp is negative or not an int64.
        """

    @abstractmethod
    def put_if_absent(
        self, key: K, value: V, timestamp_ms: int | None = None
    ) -> TimestampedValue[V] | None:
        """Set the value of *key* unless it has one that has not expired; return that (KVS-2)."""

    def put_all(self, entries: Iterable[tuple[K, V | None, int | None]]) -> None:
        """Put all *entries* of key, value and timestamp in order, or none of them (KVS-3)."""
        triples = as_list("entries", entries)
        try:
            keys = [key for key, _, _ in triples]
            values = [value for _, value, _ in triples]
            timestamps = [timestamp_ms for _, _, timestamp_ms in triples]
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"entries must be triples of key, value and timestamp: {error}"
            ) from error
        self.put_many(keys, values, timestamps)

    @abstractmethod
    def put_many(
        self,
        keys: Values[K],
        values: Values[V | None],
        timestamps_ms: Values[int | None] | None = None,
    ) -> None:
        """Put columns of equal length, or nothing (KVS-3).

        Raises:
            InvalidArgumentError: The columns differ in length.
        """

    def add_many(
        self,
        keys: Values[K],
        values: Values[V | None],
        timestamps_ms: Values[int | None] | None = None,
    ) -> None:
        """Add *values* to those of *keys*, row by row; a key without one takes it (KVS-19).

        What a key has then has the highest timestamp of what was added up, and what has expired is
        not added to, by the stream time of the rows before (TKV-8). ``None`` changes nothing, and
        moves no time (KVS-20). Nothing is added if anything is wrong (KVS-22).

        Raises:
            StoreClosedError: The store is closed.
            InvalidArgumentError: The columns differ in length, or a timestamp is out of bounds.
            InvalidTypeError: A key, value or timestamp has the wrong type, or a timestamp is
                missing (TKV-3); bytes do not add up (KVS-23).
            SerializationError: A sum is not of the value serde's type, such as one above int64.
        """
        self._merge_many(Merge.SUM, keys, values, timestamps_ms)

    def min_many(
        self,
        keys: Values[K],
        values: Values[V | None],
        timestamps_ms: Values[int | None] | None = None,
    ) -> None:
        """Keep the lesser of each key's value and that of its row; as `add_many` (KVS-19)."""
        self._merge_many(Merge.LEAST, keys, values, timestamps_ms)

    def max_many(
        self,
        keys: Values[K],
        values: Values[V | None],
        timestamps_ms: Values[int | None] | None = None,
    ) -> None:
        """Keep the greater of each key's value and that of its row; as `add_many` (KVS-19)."""
        self._merge_many(Merge.GREATEST, keys, values, timestamps_ms)

    def update_many(
        self,
        keys: Values[K],
        function: Callable[
            [list[K], list[TimestampedValue[V] | None]], Values[TimestampedValue[V] | None]
        ],
    ) -> None:
        """Put what *function* makes of the values of *keys*, as columns, or nothing (KVS-21).

        It is called once, with each key once, in the order in which they first occur, and what
        `get_many` gives for them. It returns a `TimestampedValue` for each, ``None`` to delete.
        Without keys it is not called.

        Raises:
            StoreClosedError: The store is closed.
            InvalidArgumentError: *function* returned a column of another length.
            InvalidTypeError: A key, value or timestamp has the wrong type.
        """
        key_list = distinct_keys(keys, self.specification.key)
        updated = updated_values(function, key_list, self.get_many(key_list))
        try:
            pairs = [(None, None) if each is None else (each[0], each[1]) for each in updated]
        except (TypeError, LookupError) as error:
            raise InvalidTypeError(
                f"the function returns a TimestampedValue or None for each key: {error}"
            ) from error
        self.put_many(key_list, [value for value, _ in pairs], [stamp for _, stamp in pairs])

    def _merge_many(
        self,
        merge: Merge,
        keys: Values[K],
        values: Values[V | None],
        timestamps_ms: Values[int | None] | None,
    ) -> None:
        """Merge *values* into those of *keys*, by one read and one put of each key."""
        key_list, value_list = as_list("keys", keys), as_list("values", values)
        times = None if timestamps_ms is None else as_list("timestamps_ms", timestamps_ms)
        check_equal_length(len(key_list), len(value_list), times)
        check_stamps(times or [])
        expiry = self._expiry_of_rows()
        rows = keyed_rows(
            key_list,
            value_list,
            self.specification.key,
            self._given_times(value_list, times, expiry),
        )
        present = self.get_many(rows.keys)
        self.put_many(*merge_stamped(merge, rows, present, expiry))

    def _given_times(
        self, values: list[Any], times: list[Any] | None, expiry: Expiry | None
    ) -> list[Any]:
        """Return the timestamp of each row, with that of the call where it may be left out.

        Raises:
            InvalidTypeError: It may not (TKV-3).
        """
        found = [None] * len(values) if times is None else times
        if None not in found:
            return found
        if expiry is not None and not expiry.follows_rows:
            return [expiry.now_ms if each is None else each for each in found]
        if any(
            time_ms is None and value is not None
            for value, time_ms in zip(values, found, strict=True)
        ):
            raise InvalidTypeError(
                f"timestamp_ms must be an int of milliseconds, got None; {self.name!r} does not "
                "expire by the wall clock, whose time it could be"
            )
        return found

    def _expiry_of_rows(self) -> Expiry | None:
        """Return how values expire from now on; ``None`` if they do not."""
        specification = self.specification
        if not isinstance(specification, TimestampedKeyValue) or specification.ttl_ms is None:
            return None
        follows = specification.ttl_clock is TtlClock.EVENT
        stream_time = self.stream_time_ms if follows else None
        now_ms = (-1 if stream_time is None else stream_time) if follows else self._wall_clock_ms()
        return Expiry(ttl_ms=specification.ttl_ms, now_ms=now_ms, follows_rows=follows)

    def _wall_clock_ms(self) -> int:
        """Return the time by which values expire; a store with a clock of its own has another."""
        return time_ns() // 1_000_000

    @abstractmethod
    def delete(self, key: K) -> TimestampedValue[V] | None:
        """Delete *key* and return what it had (KVS-4)."""

    @abstractmethod
    def read_only(
        self, isolation: Isolation | str = Isolation.READ_COMMITTED
    ) -> ReadOnlyTimestampedKeyValueStore[K, V]:
        """Return a facade without write methods, safe to use from other threads (ROF-1)."""
