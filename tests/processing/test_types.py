"""Types follow the records through a chain of operators: mypy checks what these tests assert."""

from typing import Any, assert_type

import statestores as ss
from statestores import KeyValueStore, TimestampedKeyValueStore
from statestores.processing import (
    Processor,
    Record,
    Stream,
    Table,
    Topic,
    Topology,
    Windowed,
    tumbling,
    within,
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
