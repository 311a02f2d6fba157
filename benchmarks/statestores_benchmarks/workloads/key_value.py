"""Key-value stores against the raw driver: puts, gets, and a counter."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from statestores_benchmarks.cases import Case, Group, Scale, Target, Timed
from statestores_benchmarks.data import COMMIT_ROWS, VALUE, distinct_keys, drawn, zipf_keys
from statestores_benchmarks.drivers import RAW, open_key_values

_COUNTER_COMMIT_ROWS = 10_000


def groups(scale: Scale) -> Iterator[Group]:
    """Yield puts, gets and the counter for each backend that has a raw driver."""
    for backend in RAW:
        yield _puts(backend, scale.rows(100_000))
        yield _gets(backend, scale.rows(100_000))
        yield _counter(backend, scale.rows(100_000))


def _puts(backend: str, rows: int) -> Group:
    keys = distinct_keys(rows)

    @contextmanager
    def raw(path: Path) -> Iterator[Timed]:
        with RAW[backend](path) as database:

            def timed() -> None:
                put = database.put
                for key in keys:
                    put(key, VALUE)

            yield timed

    @contextmanager
    def ours(path: Path, *, commit_rows: int) -> Iterator[Timed]:
        with open_key_values(backend, path) as store:

            def timed() -> None:
                put = store.put
                for number, key in enumerate(keys, 1):
                    put(key, VALUE)
                    if number % commit_rows == 0:
                        store.commit({})
                store.commit({})

            yield timed

    return Group(
        name=f"{backend}-put",
        title=f"{backend}: put {rows:,} distinct keys",
        operations=rows,
        cases=[
            Case("raw driver, direct puts", raw),
            Case("put, commit every 100", partial(ours, commit_rows=100)),
            Case("put, commit every 1,000", partial(ours, commit_rows=COMMIT_ROWS)),
        ],
        targets=[Target(case="put, commit every 1,000", at_most=0.9)],
    )


def _gets(backend: str, rows: int) -> Group:
    keys = distinct_keys(rows)
    wanted = drawn(keys, rows)

    @contextmanager
    def raw(path: Path) -> Iterator[Timed]:
        with RAW[backend](path) as database:
            for key in keys:
                database.put(key, VALUE)
        with RAW[backend](path) as database:  # opened again, it reads files and not memory

            def timed() -> None:
                get = database.get
                for key in wanted:
                    get(key)

            yield timed

    @contextmanager
    def ours(path: Path, *, buffered: bool) -> Iterator[Timed]:
        with open_key_values(backend, path) as store:
            store.put_many(keys, [VALUE] * len(keys))
            store.commit({})
        with open_key_values(backend, path) as store:
            if buffered:
                store.put_many(keys, [VALUE] * len(keys))

            def timed() -> None:
                get = store.get
                for key in wanted:
                    get(key)

            yield timed

    return Group(
        name=f"{backend}-get",
        title=f"{backend}: get one of {rows:,} keys",
        operations=rows,
        cases=[
            Case("raw driver", raw),
            Case("get from disk", partial(ours, buffered=False)),
            Case("get from the write buffer", partial(ours, buffered=True)),
        ],
        targets=[
            Target(case="get from disk", at_most=1.5),
            Target(case="get from the write buffer", at_most=0.4),
        ],
    )


def _counter(backend: str, rows: int) -> Group:
    keys = zipf_keys(rows)

    @contextmanager
    def raw(path: Path) -> Iterator[Timed]:
        with RAW[backend](path) as database:

            def timed() -> None:
                get, put = database.get, database.put
                for key in keys:
                    counted = get(key)
                    count = int.from_bytes(counted, "big") if counted else 0
                    put(key, (count + 1).to_bytes(8, "big"))

            yield timed

    @contextmanager
    def ours(path: Path) -> Iterator[Timed]:
        with open_key_values(backend, path) as store:

            def timed() -> None:
                get, put = store.get, store.put
                for number, key in enumerate(keys, 1):
                    counted = get(key)
                    count = int.from_bytes(counted, "big") if counted else 0
                    put(key, (count + 1).to_bytes(8, "big"))
                    if number % _COUNTER_COMMIT_ROWS == 0:
                        store.commit({})
                store.commit({})

            yield timed

    return Group(
        name=f"{backend}-counter",
        title=f"{backend}: count {rows:,} events of 20,000 keys, Zipf",
        operations=rows,
        cases=[
            Case("raw driver, get and put", raw),
            Case("get and put, commit every 10,000", ours),
        ],
        targets=[Target(case="get and put, commit every 10,000", at_most=0.5)],
    )
