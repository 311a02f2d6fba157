"""Joins as of records' times: a topology in batches against DuckDB's ASOF JOIN, and two topics.

Against DuckDB the rows lie in memory on both sides, and the results too: the join is compared, and
not the disk. Ours has the history in a versioned store on RocksDB and gives its results as records
of bytes, DuckDB in a table of its own. The two topics are durable ones of the local runner, whose
records alternate: there, columns are compared with records one by one.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import statestores as ss
from statestores.changelog.rows import RECORD_ROWS
from statestores.processing import Record, Topic, Topology
from statestores.processing.local import LocalRunner, LocalTopics
from statestores.processing.runtime import LEAST_COLUMN_ROWS, TaskRuntime
from statestores.serdes.typed_stores.processor_store import for_processors
from statestores_benchmarks.cases import Case, Figure, Group, Metric, Outcome, Scale, Target, Timed
from statestores_benchmarks.data import SEED, zipf_keys

_BATCH_ROWS = 100_000
_STEP_MS = 10
_COMPARED = 500
_NEVER = 1 << 60

_TOPOLOGY = "statestores, a topology in batches"
_DUCKDB = "DuckDB, history in memory"

_ORDERS = Topic("orders", key=ss.raw, value=ss.float64)
_RATES = Topic("rates", key=ss.raw, value=ss.float64)
_PRICED = Topic("priced", key=ss.raw, value=ss.float64)
_HISTORY = ss.Versioned("rates", history_retention_ms=1 << 60, key=ss.raw, value=ss.float64)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Keys, times and values."""

    keys: pa.Array
    times: pa.Array
    values: pa.Array

    def as_records(self) -> pa.RecordBatch:
        """Return the rows as records of a topic."""
        data = ss.float64.encode_array(self.values)
        headers = pa.nulls(len(self.keys), pa.binary())
        return pa.RecordBatch.from_arrays([self.keys, data, self.times, headers], RECORD_ROWS.names)

    def as_table(self) -> pa.Table:
        """Return the rows as DuckDB gets them."""
        number = pa.array(range(len(self.keys)))
        return pa.table({"k": self.keys, "t": self.times, "v": self.values, "number": number})


def groups(scale: Scale) -> Iterator[Group]:
    """Yield the join in memory, and that of two topics."""
    yield _two_topics(scale.rows(200_000))
    asked = scale.large_rows(1_000_000, quick=1_000_000)
    stored = scale.rows(200_000)
    end = stored * _STEP_MS
    chance = random.Random(SEED)
    values = np.random.default_rng(SEED)
    history = _Rows(
        pa.array(zipf_keys(stored), pa.binary()),
        pa.array(range(0, end, _STEP_MS), pa.int64()),
        pa.array(values.random(stored)),
    )
    times = sorted(chance.randrange(end) for _ in range(asked))
    orders = _Rows(
        pa.array(zipf_keys(asked), pa.binary()),
        pa.array(times, pa.int64()),
        pa.array(values.random(asked)),
    )
    yield Group(
        name="processing-join-as-of",
        title=(
            f"Join {asked:,} records as of their times with {stored:,} versions, Zipf keys in the "
            f"order of a stream, batches of {_BATCH_ROWS:,}"
        ),
        operations=asked,
        metric=Metric.PROCESS,
        cases=[
            Case(_TOPOLOGY, partial(_topology, history, orders)),
            Case(_DUCKDB, partial(_duckdb, history, orders), needs=("duckdb",)),
        ],
        targets=[
            Target(
                case=_TOPOLOGY,
                base=_DUCKDB,
                figure=Figure.SPEED_UP,
                at_least=0.5,
                row=f"join_as_of in a topology, {asked:,} rows, against DuckDB's ASOF JOIN",
            )
        ],
    )


def _joining() -> Topology:
    topology = Topology("joining")
    rates = topology.table(_RATES, _HISTORY)
    price = pc.multiply(pc.field("value"), pc.field("other"))
    topology.stream(_ORDERS).join_as_of(rates, price, value=ss.float64).to(_PRICED)
    return topology


class _Kept:
    """A log that keeps what is emitted."""

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []

    def emit(self, topic: str, record: Any, partition: int | None) -> None:
        """Refuse: the join runs on columns."""
        raise AssertionError((topic, record, partition))

    def emit_rows(self, topic: str, rows: pa.RecordBatch) -> None:
        """Keep *rows*."""
        del topic
        self.batches.append(rows)


@contextmanager
def _topology(history: _Rows, orders: _Rows, path: Path) -> Iterator[Timed]:
    (part,) = _joining().build().sub_topologies
    stores = {
        each.name: ss.open_store(
            path / each.name, each, backend="rocksdb", durability=ss.Durability.PROCESS_CRASH
        )
        for each in part.stores
    }
    kept = _Kept()
    inside = {name: for_processors(store, "by the benchmark") for name, store in stores.items()}
    runtime = TaskRuntime(part, 0, inside, kept, wall_ms=0, least_column_rows=1)
    rows = history.as_records()
    runtime.process_rows("rates", 0, range(rows.num_rows), rows)
    for store in stores.values():
        store.commit({})
    records = orders.as_records()

    def timed() -> Outcome:
        for start in range(0, records.num_rows, _BATCH_ROWS):
            batch = records.slice(start, _BATCH_ROWS)
            offsets = range(start, start + batch.num_rows)
            runtime.process_rows("orders", 0, offsets, batch)
        return Outcome(answer=lambda: _first(kept.batches))

    try:
        yield timed
    finally:
        for store in stores.values():
            store.close()


def _first(batches: list[pa.RecordBatch]) -> list[tuple[int, float]]:
    """Return times and values of the first results."""
    table = pa.Table.from_batches(batches).slice(0, _COMPARED)
    values = ss.float64.decode_array(table["value"]).to_pylist()
    return list(zip(table["timestamp"].to_pylist(), values, strict=True))


@contextmanager
def _duckdb(history: _Rows, orders: _Rows, _: Path) -> Iterator[Timed]:
    with import_module("duckdb").connect() as database:
        database.register("rows", history.as_table())
        database.execute("CREATE TABLE history AS SELECT * FROM rows")
        database.register("orders", orders.as_table())
        query = (
            "SELECT orders.number, orders.t, orders.v * history.v AS v FROM orders ASOF JOIN "
            "history ON orders.k = history.k AND orders.t >= history.t"
        )

        def timed() -> Outcome:
            joined = database.sql(query).to_arrow_table()
            return Outcome(answer=lambda: _in_order(joined))

        yield timed


def _in_order(joined: pa.Table) -> list[tuple[int, float]]:
    """Return the first results in the order of the stream, which DuckDB does not keep."""
    first = joined.sort_by("number").slice(0, _COMPARED)
    return list(zip(first["t"].to_pylist(), first["v"].to_pylist(), strict=True))


# Two topics.


_ONE_BY_ONE = "records one by one"
_COLUMNS = "columns"
_ONE_BY_ONE_WAITING = "records one by one, each waits 100 ms"
_COLUMNS_WAITING = "columns, each record waits 100 ms"


def _two_topics(rows: int) -> Group:
    """Return the group: as many versions as records, one after the other."""
    keys = zipf_keys(rows)
    cases = {
        _ONE_BY_ONE: (_NEVER, 0),
        _COLUMNS: (LEAST_COLUMN_ROWS, 0),
        _ONE_BY_ONE_WAITING: (_NEVER, 100),
        _COLUMNS_WAITING: (LEAST_COLUMN_ROWS, 100),
    }
    return Group(
        name="processing-two-topics",
        title=(
            f"Join {rows:,} records of a durable topic as of their times with {rows:,} versions of "
            "another, which alternate, Zipf keys, RocksDB, a commit every 10,000"
        ),
        operations=2 * rows,
        metric=Metric.PROCESS,
        cases=[
            Case(name, partial(_alternating, keys, least_rows, wait_ms))
            for name, (least_rows, wait_ms) in cases.items()
        ],
    )


def _price(value: float, other: float) -> float:
    return value * other


@contextmanager
def _alternating(keys: list[bytes], least_rows: int, wait_ms: int, path: Path) -> Iterator[Timed]:
    with LocalTopics(path / "topics", durability=ss.Durability.PROCESS_CRASH) as topics:
        topics.topic(_RATES).append(
            Record(key, float(at), at * _STEP_MS) for at, key in enumerate(reversed(keys))
        )
        topics.topic(_ORDERS).append(
            [
                *(Record(key, float(at), at * _STEP_MS + 1) for at, key in enumerate(keys)),
                Record(b"nobody", 0.0, len(keys) * _STEP_MS + wait_ms),  # the last have waited
            ]
        )
    topology = Topology("joining")
    orders: Any = topology.stream(_ORDERS)
    rates: Any = topology.table(_RATES, _HISTORY)
    orders.join_as_of(rates, _price, value=ss.float64, wait_ms=wait_ms).to(_PRICED)
    runner = LocalRunner(
        topology,
        path / "state",
        path / "topics",
        backend="rocksdb",
        durability=ss.Durability.PROCESS_CRASH,
        commit_interval_ms=3_600_000,
        least_column_rows=least_rows,
        until="idle",
    )

    def timed() -> Outcome:
        runner.run()
        return Outcome(answer=lambda: _written(path))

    yield timed


def _written(path: Path) -> int:
    """Return how much has come out."""
    with LocalTopics(path / "topics") as topics:
        return sum(1 for _ in topics.topic(_PRICED).read())
