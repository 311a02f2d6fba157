"""Putting many rows in one call: Arrow columns into a store, against direct puts of the driver."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa

from statestores.arrow import commit_many
from statestores_benchmarks.cases import (
    PROCESS_CRASH,
    Case,
    Group,
    Metric,
    Outcome,
    Scale,
    Target,
    Timed,
)
from statestores_benchmarks.data import distinct_keys, random_values
from statestores_benchmarks.drivers import open_key_values, raw_batch, raw_rocksdb

_COMMIT_ROWS = 100_000
_BATCH_ROWS = 10_000
_DIRECT = "raw driver, direct puts"
_LISTS = "put_many of lists, commit every 100,000"
_TABLES = "commit_many of tables of 100,000 rows"
_WHOLE = "commit_many of one table"
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
        durability=f"{PROCESS_CRASH}; sorted files, which `commit_many` writes, are synced as well",
        cases=[
            Case(_DIRECT, partial(_direct, pairs)),
            Case("raw driver, batches of 10,000", partial(_batches, pairs)),
            Case(_LISTS, partial(_putting, pairs)),
            Case(_TABLES, partial(_committing, pairs, _COMMIT_ROWS)),
            Case(_WHOLE, partial(_committing, pairs, rows)),
        ],
        targets=[
            Target(
                case=_TABLES,
                at_most=0.4,
                row=f"put {rows:,} rows as tables of 100,000 against direct puts",
            ),
            Target(
                case=_WHOLE,
                at_most=0.25,
                row=f"put {rows:,} rows as one table, which becomes a sorted file",
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
def _putting(pairs: Pairs, path: Path) -> Iterator[Timed]:
    keys, values = pairs
    with open_key_values("rocksdb", path) as store:

        def timed() -> Outcome:
            for start in range(0, len(keys), _COMMIT_ROWS):
                stop = start + _COMMIT_ROWS
                store.put_many(keys[start:stop], values[start:stop])
                store.commit({})
            return Outcome(answer=lambda: [store.get(key) for key in keys[:_COMPARED]])

        yield timed


@contextmanager
def _committing(pairs: Pairs, commit_rows: int, path: Path) -> Iterator[Timed]:
    keys, values = (pa.array(column, pa.binary()) for column in pairs)
    table = pa.table({"key": keys, "value": values})
    with open_key_values("rocksdb", path) as store:

        def timed() -> Outcome:
            for start in range(0, table.num_rows, commit_rows):
                commit_many(store, table.slice(start, commit_rows))
            return Outcome(answer=lambda: [store.get(key) for key in pairs[0][:_COMPARED]])

        yield timed
