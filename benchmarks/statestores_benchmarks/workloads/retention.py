"""What expiry costs in a steady state, against the same writes where nothing expires.

A sixth of what is written is alive: each row put makes another expire. Both stores have lived for
two retentions when the time is taken, so the sweep, the vacuum or the removal is at work in each
commit. Rows are counted afterwards, in the engine.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import statestores as ss
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.rows.layout import DATA, END, HISTORY
from statestores.spi import Engine
from statestores_benchmarks.cases import (
    STEADY_ROUNDS,
    Case,
    Figure,
    Group,
    Outcome,
    Scale,
    Target,
    Timed,
)
from statestores_benchmarks.data import COMMIT_ROWS, VALUE, distinct_keys, zipf_keys
from statestores_benchmarks.drivers import RAW, RETENTION_MS
from statestores_benchmarks.floors.expiring import FLOORS, Puts, put_expiring
from statestores_benchmarks.retired import asked_with_floor

_WRITTEN_FOR_EACH_LIVING = 6
_RETENTIONS_BEFORE = 2
_WINDOW_MS = 10
_KEPT = "rows kept for one needed"
_WITHOUT, _WITH = "without expiry", "with expiry"
_COUNTED = "with expiry, rows counted as well"
_FLOOR = "the floor, by the driver's calls"


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of store that forgets."""

    name: str
    """For the group's name."""

    title: str
    """What is put."""

    specification: Callable[[int], Any]
    """Makes its specification with a retention."""

    times: Callable[[int], range | list[int]]
    """Returns the times of that many puts."""

    keys: Callable[[int], list[bytes]]
    """Returns their keys."""

    stop: bytes
    """Where the rows that count end: an index without values does not count."""


_KINDS = (
    _Kind(
        "versioned",
        "versions of 20,000 keys, Zipf",
        lambda retention_ms: ss.Versioned("bench", history_retention_ms=retention_ms),
        range,
        zipf_keys,
        END,
    ),
    _Kind(
        "ttl",
        "values with a time to live, keys that come once",
        lambda ttl_ms: ss.TimestampedKeyValue("bench", ttl_ms=ttl_ms),
        range,
        distinct_keys,
        HISTORY,
    ),
    _Kind(
        "windows",
        "windows of keys that come once",
        lambda retention_ms: ss.Window(
            "bench", window_size_ms=_WINDOW_MS, retention_ms=retention_ms
        ),
        lambda count: [number - number % _WINDOW_MS for number in range(count)],
        distinct_keys,
        HISTORY,
    ),
)


def groups(scale: Scale) -> Iterator[Group]:
    """Yield each kind on RocksDB, and on SQLite, whose puts cost more compared with expiry."""
    for backend in ("rocksdb", "sqlite"):
        for kind in _KINDS:
            yield _group(backend, kind, scale.rows(100_000))


def _group(backend: str, kind: _Kind, rows: int) -> Group:
    live = max(_WINDOW_MS, rows // _WRITTEN_FOR_EACH_LIVING)
    count = _RETENTIONS_BEFORE * live + rows
    puts = list(zip(kind.keys(count), kind.times(count), strict=True))
    before, measured = puts[:-rows], puts[-rows:]
    name = f"retention-{kind.name}-{backend}"
    ratio, kept, of_floor = (
        f"{kind.name} with retention in a steady state, {backend}, {what}"
        for what in ("against none", "rows kept", "against the floor")
    )
    targets = [Target(case=_WITH, at_most=1.5, row=ratio)]
    floors = []
    if backend in RAW and kind.name in FLOORS:
        floors = [
            Case(_FLOOR, partial(put_expiring, kind.name, backend, before, measured, live)),
        ]
        targets = asked_with_floor(
            name,
            replace(targets[0], floor=_FLOOR),
            of_floor,
        )
    return Group(
        name=name,
        title=f"{backend}: put {rows:,} {kind.title}, a sixth of them alive, commit every 1,000",
        operations=rows,
        cases=[
            Case(_WITHOUT, partial(_putting, backend, kind, before, measured, RETENTION_MS)),
            Case(_WITH, partial(_putting, backend, kind, before, measured, live)),
            Case(_COUNTED, partial(_counted, backend, kind, before, measured, live)),
            *floors,
        ],
        least_rounds=STEADY_ROUNDS,
        targets=[
            *targets,
            Target(case=_COUNTED, at_most=1.3, figure=Figure.QUANTITY, quantity=_KEPT, row=kept),
        ],
    )


@contextmanager
def _opened(
    backend: str, kind: _Kind, before: Puts, retention_ms: int, path: Path
) -> Iterator[tuple[Engine, Any]]:
    """Give an engine and a store on it that has lived through the puts *before*."""
    engine = load_backend(backend).open(path / "store")
    specification = kind.specification(retention_ms)
    with open_on_engine(engine, specification, durability=ss.Durability.PROCESS_CRASH) as store:
        _put_all(store, before)
        yield engine, store


@contextmanager
def _putting(
    backend: str, kind: _Kind, before: Puts, measured: Puts, retention_ms: int, path: Path
) -> Iterator[Timed]:
    with _opened(backend, kind, before, retention_ms, path) as (_, store):
        yield partial(_put_all, store, measured)


@contextmanager
def _counted(
    backend: str, kind: _Kind, before: Puts, measured: Puts, retention_ms: int, path: Path
) -> Iterator[Timed]:
    with _opened(backend, kind, before, retention_ms, path) as (engine, store):

        def timed() -> Outcome:
            _put_all(store, measured)
            kept = _kept(engine, kind, [*before, *measured], retention_ms)
            return Outcome(quantities={_KEPT: kept})

        yield timed


def _put_all(store: Any, puts: Puts) -> None:
    put = store.put
    for number, (key, time_ms) in enumerate(puts, 1):
        put(key, VALUE, time_ms)
        if number % COMMIT_ROWS == 0:
            store.commit({})
    store.commit({})


def _kept(engine: Engine, kind: _Kind, puts: Puts, retention_ms: int) -> float:
    """Return the rows of *engine* for each one needed, 1 at best."""
    horizon = puts[-1][1] - retention_ms
    if kind.stop is END:
        needed = len({key for key, _ in puts})  # the latest version of a key never expires
        superseded: dict[bytes, int] = {}
        for key, time_ms in reversed(puts):
            needed += superseded.get(key, -1) > horizon
            superseded[key] = time_ms
    else:
        needed = sum(time_ms > horizon for _, time_ms in puts)
    return sum(1 for _ in engine.scan(DATA, kind.stop)) / needed
