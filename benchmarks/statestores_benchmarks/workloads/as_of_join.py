"""Joining a batch as of its rows' times, against a get for each row and DuckDB's own join."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from statestores.arrow import AsOfIndex, join_as_of
from statestores_benchmarks.cases import Case, Figure, Group, Metric, Outcome, Scale, Target, Timed
from statestores_benchmarks.data import COMMIT_ROWS, SEED, VALUE_BYTES, distinct_keys, zipf_keys
from statestores_benchmarks.drivers import open_versions

_KEYS = 20_000
_BATCH_ROWS = 65_536
_STEP_MS = 10
_EACH = "get for each row"
_JOIN = "join_as_of"
_FACADE = "join_as_of, read-only facade"
_INDEX = "AsOfIndex, history in memory"
_DUCKDB = "DuckDB, history in memory"
_RECENT = 0.1
"""The part of the time at whose end a stream's questions are."""
_COMPARED = 500


class _Work(NamedTuple):
    """A history and a batch of questions."""

    history: pa.Table
    batch: pa.Table


def groups(scale: Scale) -> Iterator[Group]:
    """Yield a group for each kind of question."""
    rows = scale.rows(200_000)
    end = rows * _STEP_MS
    chance = random.Random(SEED)
    even = [name for _ in range(rows // _KEYS + 1) for name in distinct_keys(_KEYS)][:rows]
    skewed, asked = zipf_keys(rows), zipf_keys(_BATCH_ROWS)
    anytime = [chance.randrange(end) for _ in range(_BATCH_ROWS)]
    stream = [
        int(end * (1 - _RECENT + _RECENT * number / _BATCH_ROWS)) for number in range(_BATCH_ROWS)
    ]
    drawn = chance.choices(distinct_keys(_KEYS), k=_BATCH_ROWS)
    later = [end + number for number in range(_BATCH_ROWS)]
    yield _group("even", "even keys, any time", _work(even, drawn, anytime))
    yield _group("skewed", "skewed keys, any time", _work(skewed, asked, anytime))
    yield _group("stream", "skewed keys, stream order", _work(skewed, asked, stream), 1)
    yield _group("latest", "skewed keys, at or after the latest", _work(skewed, asked, later), 3)


def _work(stored: list[bytes], asked: list[bytes], times: list[int]) -> _Work:
    chance = random.Random(SEED)
    history = pa.table(
        {
            "key": pa.array(stored, pa.binary()),
            "value": [chance.randbytes(VALUE_BYTES) for _ in stored],
            "valid_from": range(0, len(stored) * _STEP_MS, _STEP_MS),
        }
    )
    batch = pa.table({"number": range(len(asked)), "k": pa.array(asked, pa.binary()), "t": times})
    return _Work(history, batch)


def _group(name: str, questions: str, work: _Work, against_duckdb: int | None = None) -> Group:
    targets = [
        Target(
            case=_JOIN,
            at_least=3,
            figure=Figure.SPEED_UP,
            row=f"join_as_of against a get for each row, {questions}",
        )
    ]
    if against_duckdb is not None:
        targets.append(
            Target(
                case=_JOIN,
                at_least=against_duckdb,
                figure=Figure.SPEED_UP,
                base=_DUCKDB,
                row=f"join_as_of against DuckDB's ASOF JOIN, {questions}",
            )
        )
    return Group(
        name=f"as-of-join-{name}",
        title=(
            f"Join {_BATCH_ROWS:,} rows as of their times with {work.history.num_rows:,} versions, "
            f"RocksDB: {questions}"
        ),
        operations=_BATCH_ROWS,
        metric=Metric.PROCESS,
        durability=None,
        cases=[
            Case(_EACH, partial(_each, work)),
            Case(_JOIN, partial(_joining, work, facade=False)),
            Case(_FACADE, partial(_joining, work, facade=True)),
            Case(_INDEX, partial(_asking_index, work)),
            Case(_DUCKDB, partial(_duckdb, work), needs=("duckdb",)),
        ],
        targets=targets,
    )


def _answer(joined: pa.Table) -> Outcome:
    return Outcome(answer=lambda: joined["value"].slice(0, _COMPARED).to_pylist())


@contextmanager
def _each(work: _Work, path: Path) -> Iterator[Timed]:
    keys, times = work.batch["k"].to_pylist(), work.batch["t"].to_pylist()
    _fill(work, path)
    with open_versions("rocksdb", path) as store:

        def timed() -> Outcome:
            get = store.get
            found = [get(key, time_ms) for key, time_ms in zip(keys, times, strict=True)]
            return Outcome(answer=lambda: [each and each.value for each in found[:_COMPARED]])

        yield timed


@contextmanager
def _joining(work: _Work, path: Path, *, facade: bool) -> Iterator[Timed]:
    _fill(work, path)
    with open_versions("rocksdb", path) as store:
        source = store.read_only() if facade else store
        yield lambda: _answer(join_as_of(source, work.batch, on="k", at="t"))


@contextmanager
def _asking_index(work: _Work, _: Path) -> Iterator[Timed]:
    index = AsOfIndex.from_rows(work.history)
    yield lambda: _answer(join_as_of(index, work.batch, on="k", at="t"))


@contextmanager
def _duckdb(work: _Work, _: Path) -> Iterator[Timed]:
    with import_module("duckdb").connect() as database:
        database.register("rows", work.history)
        database.execute("CREATE TABLE history AS SELECT * FROM rows")
        database.register("batch", work.batch)
        joined: Callable[[], pa.Table] = lambda: database.sql(  # noqa: E731  # one expression
            "SELECT batch.*, history.value, history.valid_from FROM batch ASOF LEFT JOIN history "
            "ON batch.k = history.key AND batch.t >= history.valid_from"
        ).to_arrow_table()

        yield lambda: Outcome(answer=partial(_in_order, joined()))


def _in_order(joined: pa.Table) -> list[bytes | None]:
    """Return the first values in the order of the batch, which DuckDB does not keep."""
    values: list[bytes | None] = joined.sort_by("number")["value"].slice(0, _COMPARED).to_pylist()
    return values


def _fill(work: _Work, path: Path) -> None:
    with open_versions("rocksdb", path) as store:
        for start in range(0, work.history.num_rows, COMMIT_ROWS):
            rows = work.history.slice(start, COMMIT_ROWS)
            store.put_many(rows["key"], rows["value"], rows["valid_from"])
            store.commit({})
