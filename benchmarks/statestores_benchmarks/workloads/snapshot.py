"""Exporting a snapshot against a bare scan by the raw driver."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import statestores as ss
from statestores.arrow.snapshots.snapshot import write_snapshot
from statestores_benchmarks.cases import (
    STEADY_ROUNDS,
    Case,
    Group,
    Metric,
    Outcome,
    Scale,
    Target,
    Timed,
)
from statestores_benchmarks.data import VALUE, distinct_keys
from statestores_benchmarks.drivers import open_key_values, raw_rocksdb
from statestores_benchmarks.floors.exporting import export_rows
from statestores_benchmarks.retired import asked_with_floor

_CHANGELOG = ss.TopicPartition("bench-changelog", 0)
_OURS = "checksummed Arrow snapshot, fsynced"
_FLOOR = "the floor: the driver's scan and bare pyarrow"


def groups(scale: Scale) -> Iterator[Group]:
    """Yield the export of a key-value store."""
    rows = scale.rows(1_000_000)
    keys = distinct_keys(rows)

    @contextmanager
    def scan(path: Path) -> Iterator[Timed]:
        _fill(path / "store", keys)
        with raw_rocksdb(path / "store") as database:

            def timed() -> None:
                for _ in database.items():
                    pass

            yield timed

    @contextmanager
    def export(path: Path) -> Iterator[Timed]:
        _fill(path / "store", keys)
        with open_key_values("rocksdb", path / "store") as store:

            def timed() -> Outcome:
                info = write_snapshot(store, path / "snapshots")
                return Outcome(answer=lambda: info.rows)

            yield timed

    @contextmanager
    def floor(path: Path) -> Iterator[Timed]:
        _fill(path / "store", keys)
        with raw_rocksdb(path / "store") as database:

            def timed() -> Outcome:
                count = export_rows(database, path / "rows.arrow")
                return Outcome(answer=lambda: count)

            yield timed

    yield Group(
        name="snapshot-export",
        title=f"Export {rows:,} rows of a RocksDB store as a snapshot",
        operations=rows,
        metric=Metric.WALL,
        cases=[
            Case("raw driver, bare scan", scan),
            Case(_OURS, export),
            Case(_FLOOR, floor),
        ],
        least_rounds=STEADY_ROUNDS,
        targets=asked_with_floor(
            "snapshot-export",
            Target(case=_OURS, at_most=1.45, floor=_FLOOR),
            f"{_OURS}, of the floor",
        ),
    )


def _fill(path: Path, keys: list[bytes]) -> None:
    with open_key_values("rocksdb", path) as store:
        for start in range(0, len(keys), 10_000):
            chunk = keys[start : start + 10_000]
            store.put_many(chunk, [VALUE] * len(chunk))
            store.commit({})
        store.commit({_CHANGELOG: len(keys)})
