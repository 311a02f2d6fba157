"""Exporting a snapshot against a bare scan by the raw driver."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import statestores as ss
from statestores.arrow.snapshots.snapshot import write_snapshot
from statestores_benchmarks.cases import Case, Group, Metric, Scale, Target, Timed
from statestores_benchmarks.data import VALUE, distinct_keys
from statestores_benchmarks.drivers import open_key_values, raw_rocksdb

_CHANGELOG = ss.TopicPartition("bench-changelog", 0)


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
            yield lambda: write_snapshot(store, path / "snapshots")

    yield Group(
        name="snapshot-export",
        title=f"Export {rows:,} rows of a RocksDB store as a snapshot",
        operations=rows,
        metric=Metric.WALL,
        cases=[
            Case("raw driver, bare scan", scan),
            Case("checksummed Arrow snapshot, fsynced", export),
        ],
        targets=[Target(case="checksummed Arrow snapshot, fsynced", at_most=1.45)],
    )


def _fill(path: Path, keys: list[bytes]) -> None:
    with open_key_values("rocksdb", path) as store:
        for start in range(0, len(keys), 10_000):
            chunk = keys[start : start + 10_000]
            store.put_many(chunk, [VALUE] * len(chunk))
            store.commit({})
        store.commit({_CHANGELOG: len(keys)})
