"""The versioned row layout against history rows only (docs/decisions/0014-versioned-layout.md).

*Layout F*, ours, has a row of the latest version and history rows of superseded ones. *Layout C*
has only one row for each version: each put is one blind row, and each read one seek.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from statestores.registry import load_backend
from statestores.semantics.versioned.rows import history_from, history_key
from statestores.spi import Durability, Engine
from statestores_benchmarks.cases import Case, Group, Scale, Timed
from statestores_benchmarks.data import COMMIT_ROWS, SEED, VALUE, distinct_keys, drawn, times
from statestores_benchmarks.drivers import open_versions, raw_rocksdb
from statestores_benchmarks.workloads.versions.versioned import raw_rows

_BACKEND = "rocksdb"
_LATE_SHARE = 0.1
_FILES = 12
_MISSING = [b"nothing-%012d" % number for number in range(1_000)]


@dataclass(frozen=True, slots=True)
class _Stream:
    """Versions to put: every key once in each turn."""

    keys: list[bytes]
    timestamps_ms: list[int]


def groups(scale: Scale) -> Iterator[Group]:
    """Yield puts in order and late, and reads from one file and from many, by versions a key."""
    rows = scale.rows(100_000)
    for versions in (1, 10, 1_000):
        for late in (False, True):
            yield _puts(_stream(rows, versions, late=late), versions, late=late)
        for files in (1, _FILES):
            yield _reads(_stream(rows, versions, late=False), versions, files)


def _stream(rows: int, versions: int, *, late: bool) -> _Stream:
    keys = distinct_keys(max(1, rows // versions)) * versions
    timestamps = list(range(len(keys)))
    if late:
        chance = random.Random(SEED)
        for index in range(len(keys)):
            if chance.random() < _LATE_SHARE:
                timestamps[index] = chance.randint(0, index)
    return _Stream(keys, timestamps)


@contextmanager
def _engine(path: Path, files: int) -> Iterator[Engine]:
    with load_backend(_BACKEND).open(path) as engine:
        if files > 1:
            _driver(engine).set_options({"disable_auto_compactions": "true"})
        yield engine


def _driver(engine: Any) -> Any:
    return engine._database  # noqa: SLF001  # no option of ours makes sorted files by hand


def _put_c(engine: Engine, stream: _Stream, files: int) -> None:
    """Put *stream* in layout C, spread over *files* sorted files; one stays in the log."""
    batch = {}
    total = len(stream.keys)
    for number, (key, timestamp_ms) in enumerate(
        zip(stream.keys, stream.timestamps_ms, strict=True), 1
    ):
        batch[history_key(key, timestamp_ms)] = VALUE
        if number % COMMIT_ROWS == 0 or number == total:
            engine.apply(batch, Durability.PROCESS_CRASH)
            batch = {}
        if files > 1 and number % (total // files) == 0:
            engine.apply(batch, Durability.PROCESS_CRASH)
            batch = {}
            _driver(engine).flush()


def _put_f(store: Any, stream: _Stream, files: int) -> None:
    """Put *stream* in layout F."""
    put, total = store.put, len(stream.keys)
    for number, (key, timestamp_ms) in enumerate(
        zip(stream.keys, stream.timestamps_ms, strict=True), 1
    ):
        put(key, VALUE, timestamp_ms)
        if number % COMMIT_ROWS == 0 or number == total:
            store.commit({})
        if files > 1 and number % (total // files) == 0:
            store.commit({})
            _driver(store._engine).flush()  # noqa: SLF001  # the same


def _puts(stream: _Stream, versions: int, *, late: bool) -> Group:
    order = "10 % late" if late else "in order"
    return Group(
        name=f"layout-put-{versions}-{'late' if late else 'ordered'}",
        title=f"Layouts: put {versions:,} versions a key, {order}, commit every 1,000",
        operations=len(stream.keys),
        cases=[
            Case("raw driver, one batch row each", partial(raw_rows, _BACKEND, stream.keys)),
            Case("C: history rows only", partial(_putting_c, stream)),
            Case("F: latest and history rows", partial(_putting_f, stream)),
        ],
    )


@contextmanager
def _putting_c(stream: _Stream, path: Path) -> Iterator[Timed]:
    with _engine(path, 1) as engine:
        yield lambda: _put_c(engine, stream, 1)


@contextmanager
def _putting_f(stream: _Stream, path: Path) -> Iterator[Timed]:
    with open_versions(_BACKEND, path) as store:
        yield lambda: _put_f(store, stream, 1)


def _reads(stream: _Stream, versions: int, files: int) -> Group:
    keys = sorted(set(stream.keys))
    asked = drawn(keys, len(stream.keys))
    newest = len(stream.keys)
    wanted = {
        "latest": [(key, newest) for key in asked],
        "as of any time": list(zip(asked, times(len(asked), newest), strict=True)),
        "missing key": [(key, newest) for key in drawn(_MISSING, len(asked))],
    }
    spread = "one sorted file" if files == 1 else f"{files} sorted files"
    cases = [Case("raw driver, get one row of one file", partial(_reading_raw, stream))]
    for what, reads in wanted.items():
        cases += [
            Case(f"C: {what}", partial(_reading_c, stream, files, reads)),
            Case(f"F: {what}", partial(_reading_f, stream, files, reads)),
        ]
    return Group(
        name=f"layout-get-{versions}-{files}",
        title=f"Layouts: get, {versions:,} versions a key, {spread}",
        operations=len(asked),
        cases=cases,
    )


@contextmanager
def _reading_raw(stream: _Stream, path: Path) -> Iterator[Timed]:
    names = [key + b"%016d" % number for number, key in enumerate(stream.keys)]
    wanted = drawn(names, len(names))
    with raw_rocksdb(path) as database:
        for name in names:
            database.put(name, VALUE)
        database.flush()

        def timed() -> None:
            get = database.get
            for name in wanted:
                get(name)

        yield timed


@contextmanager
def _reading_c(
    stream: _Stream, files: int, reads: list[tuple[bytes, int]], path: Path
) -> Iterator[Timed]:
    with _engine(path, files) as engine:
        _put_c(engine, stream, files)
        _driver(engine).flush()

        def timed() -> None:
            first = engine.first
            for key, time_ms in reads:
                first(*history_from(key, time_ms))

        yield timed


@contextmanager
def _reading_f(
    stream: _Stream, files: int, reads: list[tuple[bytes, int]], path: Path
) -> Iterator[Timed]:
    with open_versions(_BACKEND, path) as store:
        driver = _driver(store._engine)  # noqa: SLF001  # as above
        if files > 1:
            driver.set_options({"disable_auto_compactions": "true"})
        _put_f(store, stream, files)
        driver.flush()

        def timed() -> None:
            get = store.get
            for key, time_ms in reads:
                get(key, time_ms)

        yield timed
