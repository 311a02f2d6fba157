"""Versioned stores against the raw driver: puts and as-of reads."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from statestores_benchmarks.cases import Case, Group, Scale, Target, Timed
from statestores_benchmarks.data import (
    COMMIT_ROWS,
    VALUE,
    distinct_keys,
    drawn,
    times,
    zipf_keys,
)
from statestores_benchmarks.drivers import RAW, RETENTION_MS, open_versions, raw_batch

_VERSIONS = 10
_STEP_MS = 1_000
_EXPIRING = 6
"""Of a stream with expiry one sixth is within retention."""


def groups(scale: Scale) -> Iterator[Group]:
    """Yield puts, puts with expiry and as-of reads for each backend that has a raw driver."""
    for backend in RAW:
        yield _puts(backend, scale.rows(100_000))
        yield _reads(backend, scale.rows(100_000))
    yield _expiry("rocksdb", scale.rows(100_000))


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
def _put_all(backend: str, keys: list[bytes], retention_ms: int, path: Path) -> Iterator[Timed]:
    with open_versions(backend, path, retention_ms) as store:

        def timed() -> None:
            put = store.put
            for number, key in enumerate(keys, 1):
                put(key, VALUE, number)
                if number % COMMIT_ROWS == 0:
                    store.commit({})
            store.commit({})

        yield timed


def _puts(backend: str, rows: int) -> Group:
    keys = zipf_keys(rows)
    return Group(
        name=f"{backend}-versioned-put",
        title=f"{backend}: put {rows:,} versions of 20,000 keys, Zipf, commit every 1,000",
        operations=rows,
        cases=[
            Case("raw driver, one batch row each", partial(raw_rows, backend, keys)),
            Case("versioned put", partial(_put_all, backend, keys, RETENTION_MS)),
        ],
        targets=[Target(case="versioned put", at_most=3.5)],
    )


def _expiry(backend: str, rows: int) -> Group:
    keys = zipf_keys(rows)
    return Group(
        name=f"{backend}-expiry",
        title=f"{backend}: the same with five sixths of the versions expiring",
        operations=rows,
        cases=[
            Case("without expiry", partial(_put_all, backend, keys, RETENTION_MS)),
            Case("with expiry", partial(_put_all, backend, keys, rows // _EXPIRING)),
        ],
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

            def timed() -> None:
                get = database.get
                for name in asked:
                    get(name)

            yield timed

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
            Target(case="as of the latest or later", at_most=2),
            Target(case="as of any time, evenly", at_most=4.5),
        ],
    )
