"""Opening the raw drivers as our engines do, so that ratios compare only what is ours."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rocksdict import Rdict
from rocksdict import WriteBatch as RocksBatch

import statestores as ss
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.key_value.store import EngineKeyValueStore
from statestores.semantics.versioned.store import EngineVersionedStore
from statestores.spi import StateStore
from statestores_leveldb import LevelDBOptions
from statestores_leveldb.binding import plyvel
from statestores_rocksdb import RocksDBOptions
from statestores_rocksdb.database import driver_options

RETENTION_MS = 1 << 60
"""Nothing expires unless a workload says so."""


@contextmanager
def raw_rocksdb(path: Path) -> Iterator[Any]:
    """Give an open ``Rdict`` with the options of our engine."""
    database = Rdict(str(path), driver_options(RocksDBOptions()))
    try:
        yield database
    finally:
        database.close()


@contextmanager
def raw_leveldb(path: Path) -> Iterator[Any]:
    """Give an open ``plyvel.DB`` with the options of our engine."""
    options = LevelDBOptions()
    database = plyvel.DB(
        str(path),
        create_if_missing=True,
        paranoid_checks=True,
        write_buffer_size=options.write_buffer_bytes,
        lru_cache_size=options.cache_bytes,
        block_size=options.block_bytes,
        bloom_filter_bits=options.bloom_bits,
        max_open_files=options.max_open_files,
        compression=options.compression.value,
    )
    try:
        yield database
    finally:
        database.close()


RAW: dict[str, Callable[[Path], Any]] = {"rocksdb": raw_rocksdb, "leveldb": raw_leveldb}
"""The raw drivers by backend."""


def raw_batch(backend: str, database: Any) -> tuple[Any, Callable[[], None]]:
    """Return a new batch of the raw driver, and how to write it."""
    if backend == "leveldb":
        batch = database.write_batch()
        return batch, batch.write
    batch = RocksBatch(raw_mode=True)
    return batch, lambda: database.write(batch)


def open_key_values(backend: str, path: Path) -> EngineKeyValueStore:
    """Open a key-value store that commits as the raw drivers do: to the operating system."""
    engine = load_backend(backend).open(path)
    return open_on_engine(engine, ss.KeyValue("bench"), durability=ss.Durability.PROCESS_CRASH)


def open_versions(
    backend: str, path: Path, retention_ms: int = RETENTION_MS
) -> EngineVersionedStore:
    """Open a versioned store likewise."""
    engine = load_backend(backend).open(path)
    specification = ss.Versioned("bench", history_retention_ms=retention_ms)
    return open_on_engine(engine, specification, durability=ss.Durability.PROCESS_CRASH)


def open_typed(backend: str, path: Path, *, is_stamped: bool) -> Any:
    """Open a store of int64 by keys of bytes likewise, with timestamps or without."""
    kind: Any = ss.TimestampedKeyValue if is_stamped else ss.KeyValue
    return ss.open_store(
        path,
        kind("bench", value=ss.int64),
        backend=backend,
        durability=ss.Durability.PROCESS_CRASH,
    )


def _opener(specification: Any) -> Callable[[str, Path], Any]:
    def open_store(backend: str, path: Path) -> Any:
        engine = load_backend(backend).open(path)
        return open_on_engine(engine, specification, durability=ss.Durability.PROCESS_CRASH)

    return open_store


OPENED: dict[str, Callable[[str, Path], Any]] = {
    "key-value": _opener(ss.KeyValue("bench")),
    "timestamped": _opener(ss.TimestampedKeyValue("bench")),
    "versioned": _opener(ss.Versioned("bench", history_retention_ms=RETENTION_MS)),
    "window": _opener(ss.Window("bench", window_size_ms=3_600_000, retention_ms=24 * 3_600_000)),
    "session": _opener(ss.Session("bench", retention_ms=24 * 3_600_000)),
}
"""Stores of each kind likewise; windows and sessions are kept for a day."""


def content(store: StateStore) -> list[Any]:
    """Return everything that is in *store*, for cases that must leave the same."""
    return [
        (list(changes.keys), list(changes.values), changes.times_ms and list(changes.times_ms))
        for changes in store.committed_changes()
    ]
