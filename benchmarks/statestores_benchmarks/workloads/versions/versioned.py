"""Versioned stores against the raw driver: puts and as-of reads."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from statestores_benchmarks.cases import (
    STEADY_ROUNDS,
    Case,
    Group,
    Outcome,
    Scale,
    Target,
    Timed,
)
from statestores_benchmarks.data import (
    COMMIT_ROWS,
    SEED,
    VALUE,
    distinct_keys,
    drawn,
    times,
    zipf_keys,
)
from statestores_benchmarks.drivers import RAW, content, open_versions, raw_batch, raw_rocksdb
from statestores_benchmarks.floors.version_streams import put_stream
from statestores_benchmarks.retired import asked_with_floor

_VERSIONS = 10
_STEP_MS = 1_000
_LATE_SHARE = 0.1
_FILES = 12
_FLOOR = "the floor, by the driver's calls"


def groups(scale: Scale) -> Iterator[Group]:
    """Yield puts and as-of reads for each backend that has a raw driver."""
    rows = scale.rows(100_000)
    for backend in RAW:
        for stream in _streams(rows):
            yield _puts(backend, stream)
        yield _reads(backend, rows)
    yield _many_files(rows)


@dataclass(frozen=True, slots=True)
class _Stream:
    """Versions to put, and what they may cost as a multiple of one row of a raw batch."""

    name: str
    title: str
    keys: list[bytes]
    timestamps_ms: list[int]
    at_most: float


def _streams(rows: int) -> list[_Stream]:
    zipf = zipf_keys(rows)
    in_order = list(range(rows))
    repeated = distinct_keys(max(1, rows // _VERSIONS)) * _VERSIONS
    return [
        _Stream("", f"{rows:,} versions of 20,000 keys, Zipf", zipf, in_order, 2.8),
        _Stream("-ten", f"{_VERSIONS} versions a key", repeated, list(range(len(repeated))), 4.5),
        _Stream("-late", "the Zipf ones, 10 % of them late", zipf, _partly_late(rows), 3),
    ]


def _partly_late(rows: int) -> list[int]:
    chance = random.Random(SEED)
    return [
        chance.randint(0, number) if chance.random() < _LATE_SHARE else number
        for number in range(rows)
    ]


@contextmanager
def raw_rows(backend: str, keys: list[bytes], path: Path) -> Iterator[Timed]:
    """Give the base of all puts: a row each, in batches of a thousand, nothing else."""
    with RAW[backend](path) as database:

        def timed() -> None:
            batch, write = raw_batch(backend, database)
            for number, key in enumerate(keys, 1):
                batch.put(key + b"%016d" % number, VALUE)
                if number % COMMIT_ROWS == 0:
                    write()
                    batch, write = raw_batch(backend, database)
            write()

        yield timed


@contextmanager
def _put_all(backend: str, stream: _Stream, path: Path) -> Iterator[Timed]:
    with open_versions(backend, path) as store:

        def timed() -> Outcome:
            put = store.put
            for number, (key, timestamp_ms) in enumerate(
                zip(stream.keys, stream.timestamps_ms, strict=True), 1
            ):
                put(key, VALUE, timestamp_ms)
                if number % COMMIT_ROWS == 0:
                    store.commit({})
            store.commit({})
            return Outcome(answer=lambda: content(store))

        yield timed


def _puts(backend: str, stream: _Stream) -> Group:
    name = f"{backend}-versioned-put{stream.name}"
    title = f"{backend}: put {stream.title}, commit every 1,000"
    rows = list(zip(stream.keys, stream.timestamps_ms, strict=True))
    return Group(
        name=name,
        title=title,
        operations=len(stream.keys),
        cases=[
            Case("raw driver, one batch row each", partial(raw_rows, backend, stream.keys)),
            Case("versioned put", partial(_put_all, backend, stream)),
            Case(_FLOOR, partial(put_stream, backend, rows, lambda _: VALUE)),
        ],
        least_rounds=STEADY_ROUNDS,
        targets=asked_with_floor(
            name,
            Target(case="versioned put", at_most=stream.at_most, floor=_FLOOR),
            f"{title}: versioned put, against the floor",
        ),
    )


def _reads(backend: str, rows: int) -> Group:
    keys = distinct_keys(rows // _VERSIONS)
    wanted = drawn(keys, rows)
    last = (_VERSIONS - 1) * _STEP_MS

    @contextmanager
    def raw(path: Path) -> Iterator[Timed]:
        names = [key + b"%016d" % version for version in range(_VERSIONS) for key in keys]
        with RAW[backend](path) as database:
            for name in names:
                database.put(name, VALUE)
        asked = drawn(names, rows)
        with RAW[backend](path) as database:
            yield partial(_get_each, database.get, asked)

    @contextmanager
    def ours(path: Path, *, as_of_ms: list[int]) -> Iterator[Timed]:
        with open_versions(backend, path) as store:
            for version in range(_VERSIONS):
                store.put_many(keys, [VALUE] * len(keys), [version * _STEP_MS] * len(keys))
                store.commit({})
        with open_versions(backend, path) as store:
            asked = list(zip(wanted, as_of_ms, strict=True))

            def timed() -> None:
                get = store.get
                for key, time_ms in asked:
                    get(key, time_ms)

            yield timed

    return Group(
        name=f"{backend}-as-of",
        title=f"{backend}: get as of a time, {_VERSIONS} versions of {len(keys):,} keys",
        operations=rows,
        cases=[
            Case("raw driver, get one row", raw),
            Case("as of the latest or later", partial(ours, as_of_ms=[last] * rows)),
            Case(
                "as of any time, evenly",
                partial(ours, as_of_ms=times(rows, last + _STEP_MS - 1)),
            ),
        ],
        targets=[
            Target(case="as of the latest or later", at_most=1.6, stretch=1.3),
            Target(case="as of any time, evenly", at_most=3.5, stretch=2.1),
        ],
        durability=None,
    )


def _many_files(rows: int) -> Group:
    """Return gets of the latest versions from twelve sorted files, uncompacted."""
    keys = distinct_keys(max(1, rows // _VERSIONS))
    wanted = drawn(keys, rows)

    @contextmanager
    def raw(path: Path) -> Iterator[Timed]:
        with raw_rocksdb(path) as database:
            for version in range(_VERSIONS):
                for key in keys:
                    database.put(key + b"%016d" % version, VALUE)
            database.flush()
            names = [key + b"%016d" % (_VERSIONS - 1) for key in wanted]
            yield partial(_get_each, database.get, names)

    @contextmanager
    def ours(path: Path) -> Iterator[Timed]:
        with open_versions("rocksdb", path) as store:
            # No option of ours makes sorted files by hand.
            driver: Any = store._engine._database  # type: ignore[attr-defined]  # noqa: SLF001
            driver.set_options({"disable_auto_compactions": "true"})
            files = 0
            for number, (key, timestamp_ms) in enumerate(
                ((key, version) for version in range(_VERSIONS) for key in keys), 1
            ):
                store.put(key, VALUE, timestamp_ms)
                if number * _FILES // (len(keys) * _VERSIONS) > files:
                    files += 1
                    store.commit({})
                    driver.flush()
            yield partial(_get_each, store.get, wanted)

    return Group(
        name="rocksdb-many-files",
        title=f"rocksdb: get the latest of {_VERSIONS} versions from {_FILES} level-0 files",
        operations=rows,
        cases=[
            Case("raw driver, get one row of one file", raw),
            Case("versioned get", ours),
        ],
        targets=[Target(case="versioned get", at_most=2)],
        durability=None,
    )


def _get_each(get: Callable[[bytes], object], names: list[bytes]) -> None:
    for name in names:
        get(name)
