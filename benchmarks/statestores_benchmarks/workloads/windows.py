"""A windowed aggregate against Quix Streams' windowed store and the raw driver.

A sum a key and minute, read, added to and written for each event, as JSON. Quix Streams is measured
without and with the call that expires a key's windows, which its tumbling windows make for every
event; our store expires on its own in its commits, so the last case is what an application gets.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import orjson

import statestores as ss
from statestores_benchmarks.cases import Case, Figure, Group, Outcome, Scale, Target, Timed
from statestores_benchmarks.contenders import quix
from statestores_benchmarks.data import COMMIT_ROWS, SEED, zipf_keys
from statestores_benchmarks.drivers import raw_rocksdb

_WINDOW_MS = 60_000
_KEYS = 2_000
_RETENTION_WINDOWS = 10
_WINDOWS = 30
_RAW = "raw driver, get and put, orjson"
_OURS = "window store, serde json"
_QUIX = "Quix Streams' windowed store"
_QUIX_EXPIRING = "the same, expiring with each event"
_COMPARED_KEYS = 100

Events = list[tuple[bytes, int]]


def groups(scale: Scale) -> Iterator[Group]:
    """Yield one aggregate."""
    rows = scale.rows(100_000)
    events = _events(rows)
    yield Group(
        name="window-sum",
        title=(
            f"Add {rows:,} events of {_KEYS:,} keys, Zipf, to sums a minute, "
            f"{_WINDOWS} minutes, commit every 1,000"
        ),
        operations=rows,
        row="sum a key and minute",
        cases=[
            Case(_RAW, partial(_raw, events), contender="rocksdict"),
            Case(_OURS, partial(_ours, events), contender="statestores, RocksDB"),
            Case(
                _QUIX,
                partial(_quix, events, expiring=False),
                contender="Quix Streams",
                needs=quix.NEEDS,
            ),
            Case(_QUIX_EXPIRING, partial(_quix, events, expiring=True), needs=quix.NEEDS),
        ],
        targets=[
            Target(
                case=_OURS,
                base=_QUIX,
                figure=Figure.SPEED_UP,
                at_least=3,
                row="window aggregate against Quix Streams' windowed store",
            )
        ],
    )


def _events(rows: int) -> Events:
    """Return keys and times: in order except for some seconds."""
    chance = random.Random(SEED)
    step_ms = _WINDOWS * _WINDOW_MS / rows
    return [
        (key, max(0, int(number * step_ms) - chance.randint(0, 5_000)))
        for number, key in enumerate(zipf_keys(rows, keys=_KEYS))
    ]


def _last_sums(events: Events) -> list[tuple[bytes, int]]:
    """Return keys and starts of windows that nobody has expired."""
    start_ms = (_WINDOWS - 2) * _WINDOW_MS
    return [(key, start_ms) for key in sorted({key for key, _ in events})[:_COMPARED_KEYS]]


@contextmanager
def _raw(events: Events, path: Path) -> Iterator[Timed]:
    asked = _last_sums(events)
    with raw_rocksdb(path) as database:

        def timed() -> Outcome:
            get, put = database.get, database.put
            for key, timestamp_ms in events:
                row = key + b"%016d" % (timestamp_ms - timestamp_ms % _WINDOW_MS)
                found = get(row)
                put(row, orjson.dumps((orjson.loads(found) if found else 0) + 1))
            return Outcome(answer=lambda: [_loaded(get(key + b"%016d" % at)) for key, at in asked])

        yield timed


def _loaded(found: bytes | None) -> object:
    return None if found is None else orjson.loads(found)


@contextmanager
def _ours(events: Events, path: Path) -> Iterator[Timed]:
    asked = _last_sums(events)
    specification = ss.Window(
        "bench",
        window_size_ms=_WINDOW_MS,
        retention_ms=_RETENTION_WINDOWS * _WINDOW_MS,
        value=ss.json,
    )
    with ss.open_store(
        path / "ours",
        specification,
        backend="rocksdb",
        durability=ss.Durability.PROCESS_CRASH,
    ) as store:

        def timed() -> Outcome:
            fetch, put = store.fetch, store.put
            for start in range(0, len(events), COMMIT_ROWS):
                for key, timestamp_ms in events[start : start + COMMIT_ROWS]:
                    start_ms = timestamp_ms - timestamp_ms % _WINDOW_MS
                    put(key, (fetch(key, start_ms) or 0) + 1, start_ms)
                store.commit({})
            return Outcome(answer=lambda: [fetch(key, at) for key, at in asked])

        yield timed


@contextmanager
def _quix(events: Events, path: Path, *, expiring: bool) -> Iterator[Timed]:
    asked = _last_sums(events)
    with quix.windowed(path) as transactions:

        def timed() -> Outcome:
            for start in range(0, len(events), COMMIT_ROWS):
                transaction = transactions.current
                for key, timestamp_ms in events[start : start + COMMIT_ROWS]:
                    state = transaction.as_state(key)
                    start_ms = timestamp_ms - timestamp_ms % _WINDOW_MS
                    end_ms = start_ms + _WINDOW_MS
                    counted = state.get_window(start_ms, end_ms) or 0
                    state.update_window(start_ms, end_ms, counted + 1, timestamp_ms=timestamp_ms)
                    if expiring:
                        horizon_ms = timestamp_ms - _RETENTION_WINDOWS * _WINDOW_MS
                        list(state.expire_windows(horizon_ms))
                transactions.commit()
            now = transactions.current
            return Outcome(
                answer=lambda: [
                    now.as_state(key).get_window(at, at + _WINDOW_MS) for key, at in asked
                ]
            )

        yield timed
