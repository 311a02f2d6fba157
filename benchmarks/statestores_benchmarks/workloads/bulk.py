"""Putting many rows at once: Arrow columns into a store, against direct puts of the raw driver."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa

from statestores_benchmarks.cases import Case, Group, Metric, Outcome, Scale, Target, Timed
from statestores_benchmarks.data import distinct_keys, random_values
from statestores_benchmarks.drivers import open_key_values, raw_batch, raw_rocksdb

_COMMIT_ROWS = 100_000
_BATCH_ROWS = 10_000
_DIRECT = "raw driver, direct puts"
_LISTS = "put_many of lists, commit every 100,000"
_COLUMNS = "put_many of Arrow columns, commit every 100,000"
_WHOLE = "put_many of all columns, one commit"
_COMPARED = 200


def groups(scale: Scale) -> Iterator[Group]:
    """Yield one load of many distinct keys in random order."""
    rows = scale.large_rows(1_000_000, quick=1_000_000)
    keys = distinct_keys(rows)
    pairs = keys, random_values(rows)
    yield Group(
        name="put-many",
        title=f"Put {rows:,} distinct keys in random order at once, RocksDB",
        operations=rows,
        metric=Metric.WALL,
        rounds=3,
        warm_up=False,
        cases=[
            Case(_DIRECT, partial(_direct, pairs)),
            Case("raw driver, batches of 10,000", partial(_batches, pairs)),
            Case(_LISTS, partial(_putting, pairs, _COMMIT_ROWS, as_columns=False)),
            Case(_COLUMNS, partial(_putting, pairs, _COMMIT_ROWS, as_columns=True)),
            Case(_WHOLE, partial(_putting, pairs, rows, as_columns=True)),
        ],
        targets=[
            Target(
                case=_COLUMNS, at_most=0.4, row=f"put_many of {rows:,} rows against direct puts"
            ),
            Target(
                case=_WHOLE,
                at_most=0.25,
                row=f"put_many of {rows:,} rows, all in one commit, as sorted files",
            ),
        ],
    )


Pairs = tuple[list[bytes], list[bytes]]


@contextmanager
def _direct(pairs: Pairs, path: Path) -> Iterator[Timed]:
    with raw_rocksdb(path) as database:

        def timed() -> Outcome:
            put = database.put
            for key, value in zip(*pairs, strict=True):
                put(key, value)
            return Outcome(answer=lambda: [database.get(key) for key in pairs[0][:_COMPARED]])

        yield timed


@contextmanager
def _batches(pairs: Pairs, path: Path) -> Iterator[Timed]:
    with raw_rocksdb(path) as database:

        def timed() -> Outcome:
            keys, values = pairs
            for start in range(0, len(keys), _BATCH_ROWS):
                batch, write = raw_batch("rocksdb", database)
                put = batch.put
                stop = start + _BATCH_ROWS
                for key, value in zip(keys[start:stop], values[start:stop], strict=True):
                    put(key, value)
                write()
            return Outcome(answer=lambda: [database.get(key) for key in keys[:_COMPARED]])

        yield timed


@contextmanager
def _putting(pairs: Pairs, commit_rows: int, path: Path, *, as_columns: bool) -> Iterator[Timed]:
    keys, values = pairs
    columns = (pa.array(keys, pa.binary()), pa.array(values, pa.binary())) if as_columns else pairs
    with open_key_values("rocksdb", path) as store:

        def timed() -> Outcome:
            for start in range(0, len(keys), commit_rows):
                taken = (column[start : start + commit_rows] for column in columns)
                store.put_many(*taken)
                store.commit({})
            return Outcome(answer=lambda: [store.get(key) for key in keys[:_COMPARED]])

        yield timed
