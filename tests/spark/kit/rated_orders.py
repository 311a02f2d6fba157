"""Orders, rates that change, and what a join of both gives in plain Python."""

from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

import statestores as ss
from statestores.partitioning import murmur2_partitioner

RATES = ss.Versioned("rates", history_retention_ms=1_000_000, key=ss.utf8, value=ss.float64)


HISTORY = [
    ("EUR", 1.0, 1_000),
    ("EUR", 1.1, 2_000),
    ("EUR", None, 3_000),
    ("EUR", 1.3, 4_000),
    ("日本", 0.5, 1_500),
    ("", 7.0, 0),
]


ORDERS: list[tuple[str | None, int | None]] = [
    ("EUR", 999),
    ("EUR", 1_000),
    ("EUR", 1_999),
    ("EUR", 3_500),
    ("EUR", 900_000),
    ("日本", 1_600),
    ("", 0),
    ("USD", 5_000),
    (None, 5_000),
    ("EUR", None),
]


RowsOf = Callable[[DataFrame], list[tuple[Any, ...]]]
Row = tuple[str | None, int | None, float | None, int | None]


def add_versions(
    state: Path | str, versions: list[tuple[str, float | None, int]], engines: Path | None = None
) -> None:
    """Put versions into the store, as its owner; in an object store with *engines* elsewhere."""
    root = ss.StateRoot.create(state)
    root.add_store(RATES, partitions=3)
    batch = [[each for each in versions if partition_of(each[0]) == number] for number in range(3)]
    for number, own in enumerate(batch):
        directory = None if engines is None else engines / str(number)
        with ss.open_logged_store(
            root, "rates", number, directory=directory, backend="memory"
        ) as store:
            for key, value, time_ms in own:
                store.store.put(key, value, time_ms)
            store.commit()


def partition_of(key: str) -> int:
    """Return the partition of a key."""
    return murmur2_partitioner.partition(key.encode(), 3)


def expected(history: list[tuple[str, float | None, int]], max_age_ms: int = 1 << 62) -> list[Row]:
    """Join the orders in plain Python."""
    rows: list[Row] = []
    for key, time_ms in ORDERS:
        own = sorted((start, value) for name, value, start in history if name == key)
        place = -1 if time_ms is None else bisect_right([start for start, _ in own], time_ms) - 1
        start, value = own[place] if place >= 0 else (None, None)
        if value is None or (time_ms or 0) - (start or 0) > max_age_ms:
            start, value = None, None
        rows.append((key, time_ms, value, start))
    return sorted(rows, key=repr)


def with_milliseconds(joined: DataFrame) -> DataFrame:
    """Return the joined rows with the start as a number."""
    return joined.selectExpr("key", "time_ms", "value", "unix_millis(valid_from)")
