"""Types follow the records through a chain of operators: mypy checks what these tests assert."""

from typing import Any, assert_type

import pytest

import statestores as ss
from statestores import KeyValueStore, TimestampedKeyValueStore
from statestores.errors import CapabilityNotSupportedError, StoreMismatchError
from statestores.processing import (
    Processor,
    Record,
    Stream,
    Table,
    Topic,
    Topology,
    Windowed,
    session,
    tumbling,
    within,
)
from statestores.spi import (
    ReadOnlyKeyValueStore,
    ReadOnlySessionStore,
    ReadOnlyTimestampedKeyValueStore,
    ReadOnlyVersionedStore,
    ReadOnlyWindowStore,
)

COUNTS = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)


class Typed(Processor[str, str, str, int]):
    """Has stores of two kinds."""

    plain = ss.KeyValue("plain", key=ss.utf8, value=ss.int64)
    stamped = ss.TimestampedKeyValue("stamped", key=ss.utf8, value=ss.utf8)

    def process(self, record: Record[str, str]) -> None:
        """Use them."""
        assert_type(record.value, str)
        assert_type(self.store(self.plain), KeyValueStore[str, int])
        assert_type(self.store(self.stamped), TimestampedKeyValueStore[str, str])
        self.forward(record.with_value(len(record.value)))


def test_types_follow_a_chain() -> None:
    """Keys and values, through functions, groups, windows and joins."""
    topology = Topology("typed")
    lines = topology.stream(Topic("lines", key=ss.utf8, value=ss.utf8))
    assert_type(lines, Stream[str, str])
    assert_type(lines.map_values(len), Stream[str, int])
    assert_type(lines.flat_map(lambda record: record.value.split()), Stream[str, str])
    swapped = lines.map(lambda record: Record(len(record.value), record.key, record.time_ms))
    assert_type(swapped, Stream[int, str])
    assert_type(lines.rekey(lambda record: len(record.value)), Stream[int, str])
    assert_type(lines.rekey("value", key=ss.utf8, name="by value"), Stream[str, str])
    counts = lines.group_by("value", key=ss.utf8).count(COUNTS)
    assert_type(counts, Table[str, int])
    windows = ss.Window("w", retention_ms=9, window_size_ms=9, key=ss.utf8, value=ss.int64)
    assert_type(lines.group_by_key().window(tumbling(9)).count(windows), Table[Windowed[str], int])
    assert_type(lines.process(Typed), Stream[str, int])
    other = topology.stream(Topic("other", key=ss.utf8, value=ss.int64))
    joined = lines.join(other, lambda one, number: [one] * number, within=within(5))
    assert_type(joined, Stream[str, list[str]])
    assert_type(lines.join(counts, lambda one, number: one * number), Stream[str, str])
    rates = topology.table(Topic("rates", key=ss.utf8, value=ss.float64))
    assert_type(rates, Table[str, float])
    assert_type(counts.join(rates, lambda count, rate: count * rate), Table[str, float])
    raw: Stream[bytes, bytes] = topology.stream(Topic("raw"))
    assert_type(raw.rekey("key", name="same"), Stream[Any, bytes])

    assert "by value" in topology.describe()


class Keeps(Processor[str, int, str, int]):
    """Has a store that holds what it declares."""

    last = ss.KeyValue("last", key=ss.utf8, value=ss.int64)

    def process(self, record: Record[str, int]) -> None:
        """Keep the value."""
        self.store(self.last).put(record.key, record.value)


def test_the_driver_gives_stores_as_they_were_declared() -> None:
    """By every read, for reading, and typed.

    `get` and `range` hid the timestamps of an aggregate, and the sum and number of a mean;
    `get_many`, `prefix_scan` and the reads of sessions showed them, `get` of a versioned table took
    no `as_of_ms`, and a put went past the topology.
    """
    means = ss.KeyValue("means", key=ss.utf8, value=ss.float64)
    stamped = ss.TimestampedKeyValue("means", key=ss.utf8, value=ss.float64)
    visits = ss.Session("visits", retention_ms=99, key=ss.utf8, value=ss.float64)
    windows = ss.Window("windows", retention_ms=99, window_size_ms=9, key=ss.utf8, value=ss.float64)
    versions = ss.Versioned("versions", history_retention_ms=99, key=ss.utf8, value=ss.int64)
    topology = Topology("declared")
    numbers = topology.stream(Topic("numbers", key=ss.utf8, value=ss.int64))
    numbers.process(Keeps)
    grouped = numbers.group_by_key()
    grouped.mean("value", means)
    grouped.window(session(5)).mean("value", visits)
    grouped.window(tumbling(9)).mean("value", windows)
    topology.table(Topic("table", key=ss.utf8, value=ss.int64), versions)
    with topology.test() as driver:
        for time_ms, value in ((1, 3), (2, 4)):
            driver.topic("numbers").pipe(value, key="a", time_ms=time_ms)
            driver.topic("table").pipe(value, key="a", time_ms=time_ms)
        plain = driver.store(means)
        by_session, by_window = driver.store(visits), driver.store(windows)
        history = driver.store(versions)
        assert_type(plain, ReadOnlyKeyValueStore[str, float])
        assert_type(driver.store(stamped), ReadOnlyTimestampedKeyValueStore[str, float])
        assert_type(by_session, ReadOnlySessionStore[str, float])
        assert_type(by_window, ReadOnlyWindowStore[str, float])
        assert_type(history, ReadOnlyVersionedStore[str, int])
        session_row, window_row = ("a", 1, 2, 3.5), ("a", 0, 9, 3.5)

        assert (plain.get("a"), plain.get_many(["a", "b"])) == (3.5, [3.5, None])
        assert [*plain.range(), *plain.prefix_scan(b"a")] == [("a", 3.5)] * 2
        assert driver.store(stamped).get("a") == (3.5, 2)
        assert by_session.fetch_session("a", 1, 2) == 3.5
        assert [*by_session.find_sessions("a"), *by_session.find_all_sessions()] == [
            session_row
        ] * 2
        assert list(by_session.find_sessions_by_end()) == [session_row]
        assert by_window.fetch("a", 0) == 3.5
        assert [*by_window.fetch_range("a"), *by_window.fetch_all()] == [window_row] * 2
        assert history.get("a", as_of_ms=1) == (3, 1, 2)
        assert driver.store(Keeps.last).get("a") == 4
        with pytest.raises(CapabilityNotSupportedError, match="pipe a record"):
            driver.store("means").put("a", 5.0)
        for other in (ss.KeyValue("means"), ss.KeyValue("visits", key=ss.utf8)):
            with pytest.raises(StoreMismatchError, match="was asked for as a key-value store"):
                driver.store(other)
