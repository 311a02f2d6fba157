"""Records drawn from a seed: keys that come again, times out of order, extremes, broken bytes."""

import random
from typing import Any, NamedTuple

import statestores as ss
from statestores.processing import RawRecord, Record

SERDES: dict[str, Any] = {
    "utf8": ss.utf8,
    "int64": ss.int64,
    "float64": ss.float64,
    "json": ss.json,
    "raw": ss.raw,
}

KEYS: dict[str, list[Any]] = {
    "utf8": ["a", "b", "c", "", "é漢"],
    "int64": [0, 1, -1, (1 << 63) - 1, 7],
}

_VALUES: dict[str, list[Any]] = {
    "int64": [0, 1, 2, 3, 13, -5, 7],
    "float64": [0.0, 1.0, 2.5, 13.0, 1e16, -1e16, 0.1],
    "utf8": ["", "x", "y z", "13", "é", "a"],
    "json": [1, 2, 13, 2.5, "x", "13", [1, 2], {"a": 1}, True, -3],
    "raw": [b"", b"x", b"\xff", b"13"],
}

_EXTREMES: dict[str, list[Any]] = {
    "int64": [(1 << 63) - 1, -(1 << 63), 1 << 62],
    "float64": [float("nan"), -0.0, float("inf"), -float("inf")],
    "json": [(1 << 63) - 1, -0.0, 1e300],
}

_BROKEN = {"int64": b"bad", "float64": b"bad", "json": b"{", "utf8": b"\xff\xfe"}

LATEST_MS = (1 << 63) - 1


class Source(NamedTuple):
    """A topic that a topology reads, with the names of its serdes."""

    topic: str
    key: str
    value: str


def is_bad(value: Any) -> bool:
    """Return whether *value* is one at which functions fail that are to fail."""
    return not isinstance(value, list | dict) and value in (13, 13.0, "13", b"13")


def number(value: Any) -> Any:
    """Return a number for any value: its own, or its length."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | float):
        return value
    return 0 if value is None else len(value)


def small(value: Any) -> int:
    """Return a whole number below a million for any value."""
    found = number(value)
    return 0 if found != found or abs(found) > 1e6 else int(found)  # noqa: PLR0124  # NaN


def drawn_records(
    seed: int, sources: list[Source], *, may_fail: bool
) -> list[tuple[str, RawRecord]]:
    """Return topics and records; with *may_fail* some bytes are none of their serde."""
    drawn = random.Random(seed)
    extremes = drawn.random() < 0.4
    records = []
    now_ms = drawn.choice([0, 0, 5, 1000])
    for _ in range(drawn.choice([3, 8, 20, 40])):
        source = drawn.choice(sources)
        key, value = _pair(drawn, source, extremes=extremes)
        now_ms += drawn.choice([0, 0, 1, 1, 2, 5] + [30] * (drawn.random() < 0.1))
        time_ms = max(0, now_ms - drawn.choice([0, 0, 0, 0, 1, 3, 9]))
        if extremes and drawn.random() < 0.01:
            time_ms = drawn.choice([0, 1 << 62, LATEST_MS])
        if may_fail and drawn.random() < 0.05:
            value = _BROKEN.get(source.value, value)
        if may_fail and drawn.random() < 0.01:
            time_ms = -1
        headers = () if drawn.random() < 0.8 else (("h", drawn.choice([b"1", b""])),)
        records.append((source.topic, Record(key, value, time_ms, headers)))
    return records


def _pair(
    drawn: random.Random, source: Source, *, extremes: bool
) -> tuple[bytes | None, bytes | None]:
    """Return key and value as bytes, either of which may be absent."""
    keys = KEYS[source.key][: drawn.choice([2, 3, 5])]
    values = _VALUES[source.value] + (_EXTREMES.get(source.value, []) if extremes else [])
    key = None if drawn.random() < 0.06 else SERDES[source.key].encode(drawn.choice(keys))
    value = None if drawn.random() < 0.12 else SERDES[source.value].encode(drawn.choice(values))
    return key, value
