"""Many rows in one call against as many calls, commits included, by kind of store."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from statestores_benchmarks.cases import (
    STEADY_ROUNDS,
    Case,
    Group,
    Outcome,
    Scale,
    Target,
    Timed,
)
from statestores_benchmarks.data import COMMIT_ROWS, VALUE, distinct_keys, zipf_keys
from statestores_benchmarks.drivers import OPENED, content, open_typed
from statestores_benchmarks.floors.columns import put_rows
from statestores_benchmarks.floors.versions import put_versions
from statestores_benchmarks.retired import asked_with_floor

_UPDATE_ROWS = 10_000
_ZIPF_KEYS = 50_000
_HOUR_MS = 3_600_000
_VERSIONS = 10

_LOOP = "get and put, one by one"
_MANY = "add_many of lists"
_COLUMNS = "add_many of Arrow columns"
_SINGLE = "one by one"
_PUT_MANY = "put_many of 1,000"
_FLOOR = "the floor, by the driver's calls"

Columns = Sequence[list[Any]]


def groups(scale: Scale) -> Iterator[Group]:
    """Yield updates and puts for each backend that has a raw driver."""
    rows = scale.rows(100_000)
    for backend in ("rocksdb", "leveldb"):
        yield _updates(backend, zipf_keys(rows, keys=_ZIPF_KEYS), is_stamped=False)
        yield _updates(backend, zipf_keys(rows, keys=_ZIPF_KEYS), is_stamped=True)
        for kind, columns in _puts(rows).items():
            yield _put_group(backend, kind, columns)


def _puts(rows: int) -> dict[str, Columns]:
    """Return the columns of each kind, in the order in which a put takes them."""
    keys, values = distinct_keys(rows), [VALUE] * rows
    few = keys[: max(1, rows // _VERSIONS)] * _VERSIONS
    times = [number // max(1, rows // _VERSIONS) * _HOUR_MS for number in range(len(few))]
    some = values[: len(few)]
    return {
        "key-value": (keys, values),
        "timestamped": (keys, values, list(range(rows))),
        "versioned": (few, some, times),
        "window": (few, some, times),
        "session": (few, times, times, some),
    }


def _updates(backend: str, keys: list[bytes], *, is_stamped: bool) -> Group:
    what = "timestamped-" if is_stamped else ""
    return Group(
        name=f"{backend}-{what}add-many",
        title=f"{backend}: add to {what}int64 of {_ZIPF_KEYS:,} keys, Zipf, commit every 10,000",
        operations=len(keys),
        cases=[
            Case(_LOOP, partial(_one_by_one, backend, keys, is_stamped=is_stamped)),
            Case(_MANY, partial(_added, backend, keys, list, is_stamped=is_stamped)),
            Case(_COLUMNS, partial(_added, backend, keys, pa.array, is_stamped=is_stamped)),
        ],
        targets=[
            Target(
                case=_MANY,
                at_most=0.65,
                row=f"{what}add_many of 10,000 rows, Zipf, against get and put, {backend}",
            )
        ],
    )


@contextmanager
def _one_by_one(
    backend: str, keys: list[bytes], path: Path, *, is_stamped: bool
) -> Iterator[Timed]:
    with open_typed(backend, path, is_stamped=is_stamped) as store:
        get, put = store.get, store.put

        def timed() -> Outcome:
            for start in range(0, len(keys), _UPDATE_ROWS):
                for key in keys[start : start + _UPDATE_ROWS]:
                    found = get(key)
                    if is_stamped:
                        put(key, 1 if found is None else found[0] + 1, start)
                    else:
                        put(key, 1 if found is None else found + 1)
                store.commit({})
            return Outcome(answer=lambda: list(store.range()))

        yield timed


@contextmanager
def _added(
    backend: str,
    keys: list[bytes],
    form: Callable[[list[Any]], Any],
    path: Path,
    *,
    is_stamped: bool,
) -> Iterator[Timed]:
    batches = []
    for start in range(0, len(keys), _UPDATE_ROWS):
        batch = keys[start : start + _UPDATE_ROWS]
        columns: list[list[Any]] = [batch, [1] * len(batch), [start] * len(batch)]
        batches.append([form(column) for column in columns[: 3 if is_stamped else 2]])
    with open_typed(backend, path, is_stamped=is_stamped) as store:

        def timed() -> Outcome:
            for columns in batches:
                store.add_many(*columns)
                store.commit({})
            return Outcome(answer=lambda: list(store.range()))

        yield timed


def _put_group(backend: str, kind: str, columns: Columns) -> Group:
    floor = (
        partial(put_versions, backend, columns)
        if kind == "versioned"
        else partial(put_rows, backend, kind, columns)
    )
    row = f"{kind} put_many of 1,000 with commit against"
    name = f"{backend}-{kind}-put-many"
    targets = asked_with_floor(
        name,
        Target(case=_PUT_MANY, at_most=0.75, row=f"{row} single puts, {backend}", floor=_FLOOR),
        f"{row} the floor, {backend}",
    )
    return Group(
        name=name,
        title=f"{backend}: {kind}, put {len(columns[0]):,} rows, commit every 1,000",
        operations=len(columns[0]),
        cases=[
            Case(_SINGLE, partial(_put_each, backend, kind, columns)),
            Case(_PUT_MANY, partial(_put_many, backend, kind, columns)),
            Case(_FLOOR, floor),
        ],
        targets=targets,
        least_rounds=STEADY_ROUNDS,
    )


@contextmanager
def _put_each(backend: str, kind: str, columns: Columns, path: Path) -> Iterator[Timed]:
    rows = list(zip(*columns, strict=True))
    with OPENED[kind](backend, path) as store:

        def timed() -> Outcome:
            put = store.put
            for number, row in enumerate(rows, 1):
                put(*row)
                if number % COMMIT_ROWS == 0:
                    store.commit({})
            store.commit({})
            return Outcome(answer=lambda: content(store))

        yield timed


@contextmanager
def _put_many(backend: str, kind: str, columns: Columns, path: Path) -> Iterator[Timed]:
    batches = [
        [column[start : start + COMMIT_ROWS] for column in columns]
        for start in range(0, len(columns[0]), COMMIT_ROWS)
    ]
    with OPENED[kind](backend, path) as store:

        def timed() -> Outcome:
            for batch in batches:
                store.put_many(*batch)
                store.commit({})
            store.commit({})
            return Outcome(answer=lambda: content(store))

        yield timed
