"""The floors of single calls, of rows that expire and of exports leave what ours leaves."""

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

for driver in ("statestores_leveldb", "rocksdict", "sqlalchemy", "pyarrow"):
    pytest.importorskip(driver, reason=f"the driver {driver} is not installed")

# Behind the skip, since they import the drivers.
import pyarrow as pa  # noqa: E402

import statestores as ss  # noqa: E402
from statestores.registry import load_backend  # noqa: E402
from statestores.semantics import open_on_engine  # noqa: E402
from statestores.semantics.retained.name_groups import is_group, unpack_names  # noqa: E402
from statestores.semantics.rows.layout import DATA, END, HISTORY  # noqa: E402
from statestores_benchmarks.contenders.raw import (  # noqa: E402
    COUNTER_FLOORS,
    OURS_LEVELDB,
    OURS_ROCKSDB,
    PUT_FLOORS,
)
from statestores_benchmarks.data import VALUE  # noqa: E402
from statestores_benchmarks.drivers import (  # noqa: E402
    OPENED,
    RAW,
    open_key_values,
    raw_batch,
    raw_rocksdb,
)
from statestores_benchmarks.floors.expiring import FLOORS  # noqa: E402
from statestores_benchmarks.floors.exporting import export_rows  # noqa: E402
from statestores_benchmarks.floors.version_streams import stream_commits  # noqa: E402
from statestores_conformance.many_cases import for_each  # noqa: E402

OURS = {"rocksdb": OURS_ROCKSDB, "leveldb": OURS_LEVELDB}
COMMITTING = {"puts": PUT_FLOORS, "counts": COUNTER_FLOORS}
SEED = 20_261_129
LIFETIME_MS = 40
WINDOW_MS = 10
PUTS = 30
"""Enough in a commit to be named in a group, and all of one window."""

Rows = dict[bytes, Any]


def raw_rows(backend: str, path: Path) -> Rows:
    """Return everything that the raw driver has in *path*."""
    with RAW[backend](path) as database:
        return dict(database.items() if backend == "rocksdb" else database)


def store_rows(backend: str, path: Path) -> Rows:
    """Return the rows of both namespaces of a store in *path*."""
    engine = load_backend(backend).open(path)
    try:
        return dict(engine.scan(DATA, END))
    finally:
        engine.close()


def parted(rows: Rows) -> tuple[Rows, list[bytes]]:
    """Return the rows that users see, and what is named in the index."""
    named = [
        name
        for key, row in rows.items()
        if key.startswith(HISTORY) and is_group(key)
        for name in unpack_names(key, row)
    ]
    return {key: row for key, row in rows.items() if key.startswith(DATA)}, sorted(named)


@for_each("backend", sorted(RAW))
@for_each("name", sorted(COMMITTING))
def test_what_is_put_and_committed_is_there(name: str, backend: str, tmp_path: Path) -> None:
    """What waits is found, what was written as well, and a row that comes twice counts once."""
    chance = random.Random(SEED)
    seen: list[list[bytes | None]] = []
    place = tmp_path / f"{name}-{backend}"
    place.mkdir()
    for contender in (COMMITTING[name][backend], OURS[backend]):
        chance.seed(SEED)
        seen.append([])
        with contender.open(place) as door:
            for number in range(400):
                key = b"key-%d\x00" % chance.randrange(90)
                seen[-1].append(door.get(key))
                door.put(key, b"%d" % number)
                if number % 50 == 49:
                    door.commit()
            door.commit()
            seen[-1] += [door.get(b"key-%d\x00" % number) for number in range(100)]

    assert seen[0] == seen[1]
    assert None in seen[0]
    assert len(set(seen[0])) > 90
    assert raw_rows(backend, place / "raw") == store_rows(backend, place / "ours")


@for_each("kind", sorted(FLOORS))
@for_each("backend", sorted(RAW))
def test_what_expires_is_gone(kind: str, backend: str, tmp_path: Path) -> None:
    """The same rows live and have gone after each commit, and their names with them."""
    floor, ours = (tmp_path / f"{each}-{kind}-{backend}" for each in ("floor", "ours"))
    floor.mkdir()
    counts: list[int] = []
    for number in range(1, 12):
        with RAW[backend](floor / str(number)) as database:
            put, commit = FLOORS[kind](partial(raw_batch, backend, database), LIFETIME_MS)
            put_times(kind, put, commit, number)
        engine = load_backend(backend).open(ours / str(number))
        with open_on_engine(engine, specification(kind)) as store:
            put_times(kind, partial(put_value, store), partial(store.commit, {}), number)
        found, named = parted(raw_rows(backend, floor / str(number)))
        expected, named_by_ours = parted(store_rows(backend, ours / str(number)))
        counts.append(len(expected))

        assert found == expected, number
        assert named == named_by_ours == (sorted(expected) if kind == "windows" else []), number
    assert counts[0] < max(counts)
    assert counts[-1] < 11 * PUTS


def specification(kind: str) -> Any:
    """Return the specification of a store that expires what *kind* puts."""
    if kind == "ttl":
        return ss.TimestampedKeyValue("bench", ttl_ms=LIFETIME_MS)
    return ss.Window("bench", window_size_ms=WINDOW_MS, retention_ms=LIFETIME_MS)


def put_times(
    kind: str, put: Callable[[bytes, int], object], commit: Callable[[], object], commits: int
) -> None:
    """Put some rows at a time, and commit them; some keys come again while they live."""
    for number in range(commits):
        for place in range(PUTS):
            time_ms = number * 10 + place // 3
            key = b"key-%d\x00" % (place if place % 5 == 0 else number * PUTS + place)
            put(key, time_ms - time_ms % WINDOW_MS if kind == "windows" else time_ms)
        commit()


def put_value(store: Any, key: bytes, time_ms: int) -> None:
    """Put what the floors put."""
    store.put(key, VALUE, time_ms)


@for_each("backend", sorted(RAW))
def test_versions_as_they_come_are_rows_as_ours(backend: str, tmp_path: Path) -> None:
    """Several of a key in one commit, late ones, and one of the time of the latest."""
    chance = random.Random(SEED)
    floor, ours = (tmp_path / f"{each}-{backend}" for each in ("floor", "ours"))
    keys = [b"\x00key-%d\x00\x00" % number for number in range(12)]
    commits = [
        [
            (chance.choice(keys), b"%d-%d" % (number, place), 10 * chance.randrange(1 + 3 * number))
            for place in range(25)
        ]
        for number in range(40)
    ]
    last_ms = max(time_ms for rows in commits for _, _, time_ms in rows)
    commits += [[(key, value, last_ms) for key in keys] for value in (b"last", b"once more")]
    with OPENED["versioned"](backend, floor) as store:
        commit = stream_commits(backend, store)
        for rows in commits:
            commit(rows)
    with OPENED["versioned"](backend, ours) as store:
        for rows in commits:
            for row in rows:
                store.put(*row)
            store.commit({})
    expected = store_rows(backend, ours)

    assert len([key for key in expected if key.startswith(HISTORY)]) > 300
    assert store_rows(backend, floor) == expected


def test_what_is_exported_is_what_a_store_has(tmp_path: Path) -> None:
    """Of several parts, in order, without the namespace of their keys."""
    rows = [(b"key-%06d\x00" % number, b"%d" % number) for number in range(70_000)]
    with open_key_values("rocksdb", tmp_path / "store") as store:
        for key, value in rows:
            store.put(key, value)
        store.commit({})
    with raw_rocksdb(tmp_path / "store") as database:
        count = export_rows(database, tmp_path / "rows.arrow")
    exported = pa.ipc.open_file(tmp_path / "rows.arrow").read_all()

    assert count == len(rows)
    assert exported.column("key").to_pylist() == [key for key, _ in rows]
    assert exported.column("value").to_pylist() == [value for _, value in rows]
