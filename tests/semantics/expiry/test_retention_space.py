"""What is left of rows that have expired, in the engine and on the disk, after many retentions."""

import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

import statestores as ss
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.rows.layout import DATA, HISTORY
from statestores.semantics.timestamped.expiry import LEAST_FACTOR, MOST_FACTOR
from statestores.spi import Engine

_LIVE_ROWS = 1_500
_RETENTIONS = 8
_COMMIT_ROWS = 100
_REST_S = 0.5
"""An engine whose files have not changed for so long has nothing left to do."""
_KEY_BYTES = 16
_VALUE_BYTES = 400

_SMALL: dict[str, dict[str, int]] = {
    "rocksdb": {"write_buffer_bytes": 64 * 1024},
    "sqlite": {"wal_bytes": 64 * 1024},
    "leveldb": {"write_buffer_bytes": 64 * 1024},
}
"""So that buffers and logs are small beside the rows, as they are beside those of a large store."""

_DATA_FILES = {".sst", ".log", ".db", ".db-wal"}
"""The files of RocksDB and SQLite that hold rows, and not lists of files, options or messages."""

Put = Callable[[Any, bytes, bytes, int], object]
Make = Callable[[int], Any]

_KINDS: list[Any] = [
    pytest.param(
        lambda retention_ms: ss.TimestampedKeyValue("s", ttl_ms=retention_ms),
        lambda store, key, value, now_ms: store.put(key, value, now_ms),
        marks=pytest.mark.spec("TTL-8"),
        id="time to live",
    ),
    pytest.param(
        lambda retention_ms: ss.Window("s", window_size_ms=10, retention_ms=retention_ms),
        lambda store, key, value, now_ms: store.put(key, value, now_ms),
        marks=pytest.mark.spec("WIN-18"),
        id="windows",
    ),
    pytest.param(
        lambda retention_ms: ss.Session("s", retention_ms=retention_ms),
        lambda store, key, value, now_ms: store.put(key, now_ms, now_ms, value),
        marks=pytest.mark.spec("SES-18"),
        id="sessions",
    ),
]


def _bytes(directory: Path) -> int:
    """Return what the files with rows take."""
    taken = 0
    for file in directory.rglob("*"):
        if file.suffix in _DATA_FILES:
            with suppress(FileNotFoundError):  # the engine removes files meanwhile
                taken += file.stat().st_size
    return taken


def _bytes_at_rest(directory: Path) -> int:
    """Return what they take when the engine has nothing left to do in the background."""
    taken, since = _bytes(directory), time.monotonic()
    while time.monotonic() - since < _REST_S:
        time.sleep(_REST_S / 10)
        if taken != (taken := _bytes(directory)):
            since = time.monotonic()
    return taken


def _live(engine: Engine, directory: Path, make: Make, put: Put) -> tuple[int, int]:
    """Put a row each millisecond for some retentions.

    Return the most rows that the engine had, and the bytes that it has when it is at rest.
    """
    dice = Random(7)
    most = 0
    with open_on_engine(engine, make(_LIVE_ROWS), durability=ss.Durability.PROCESS_CRASH) as store:
        for now_ms in range(_RETENTIONS * _LIVE_ROWS):
            put(store, dice.randbytes(_KEY_BYTES), dice.randbytes(_VALUE_BYTES), now_ms)
            if now_ms % _COMMIT_ROWS == _COMMIT_ROWS - 1:
                store.commit({})
                if now_ms % (_COMMIT_ROWS * 8) == _COMMIT_ROWS - 1:  # and not after the last one
                    most = max(most, sum(1 for _ in engine.scan(DATA, HISTORY)))
        return most, _bytes_at_rest(directory)


@pytest.mark.parametrize("backend", ["memory", "rocksdb", "sqlite", "leveldb"])
@pytest.mark.parametrize(("make", "put"), _KINDS)
def test_space_stays_close_to_what_lives(
    tmp_path: Path, backend: str, make: Make, put: Put
) -> None:
    """With keys that come once, when each row that is written lets another one expire.

    A time to live left half as many rows again, and with SQLite a disk 2.5 times as full as the
    keys and values that lived, the log for another half of them. LevelDB's second level has 10 MB
    whatever lives, so its files are no measure at this size.
    """
    engine = load_backend(backend).open(tmp_path / "store", _SMALL.get(backend))
    rows, taken = _live(engine, tmp_path / "store", make, put)

    assert rows <= 1.3 * _LIVE_ROWS
    assert taken <= 2 * _LIVE_ROWS * (_KEY_BYTES + _VALUE_BYTES)


@pytest.mark.spec("TTL-8")
def test_a_sweep_looks_at_little_where_nothing_expires(tmp_path: Path) -> None:
    """Where keys are put again before their time is over, it costs a third."""
    with closing(load_backend("memory").open(tmp_path)) as engine:
        store = open_on_engine(
            engine,
            ss.TimestampedKeyValue("s", ttl_ms=1_000),
            durability=ss.Durability.PROCESS_CRASH,
            read_cache_bytes=0,  # else it knows
        )
        for now_ms in range(60_000):
            store.put(b"%d" % (now_ms % 900), b"v", now_ms)
            if now_ms % 50 == 49:
                store.commit({})

        assert store._sweep.rate.factor == LEAST_FACTOR
        for now_ms in range(60_000, 70_000):
            store.put(b"%d" % now_ms, b"v", now_ms)
            if now_ms % 50 == 49:
                store.commit({})

        assert store._sweep.rate.factor == MOST_FACTOR
