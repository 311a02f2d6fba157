"""The raw drivers and our stores over them, with bytes, as a program would call them itself."""

import sqlite3
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import orjson

import statestores as ss
from statestores.semantics.rows.layout import DATA
from statestores_benchmarks.contenders.door import Contender, Door, closing_at_end, nothing
from statestores_benchmarks.drivers import RAW, open_key_values, raw_batch
from statestores_benchmarks.floors.batches import by_key

BytesDoor = Door[bytes, bytes]

_LMDB_BYTES = 8 * 1024**3
"""LMDB wants to know in advance how large the file may become; it takes no memory."""


@contextmanager
def _direct(backend: str, path: Path) -> Iterator[BytesDoor]:
    with RAW[backend](path / "raw") as database:
        yield Door(database.get, database.put, nothing)


@contextmanager
def _floor(backend: str, path: Path) -> Iterator[BytesDoor]:
    """Give the driver as the contract asks: keys in a namespace, and checksums that are looked at.

    RocksDB looks at them when it takes a block into its cache. LevelDB takes none that lie in its
    files as they are, uncompressed, so it has to look each time that it reads one.
    """
    with RAW[backend](path / "raw") as database:
        read, write = database.get, database.put
        if backend == "leveldb":

            def get(key: bytes) -> bytes | None:
                return cast("bytes | None", read(DATA + key, verify_checksums=True))
        else:

            def get(key: bytes) -> bytes | None:
                return cast("bytes | None", read(DATA + key))

        yield Door(get, lambda key, row: write(DATA + key, row), nothing)


@contextmanager
def _committing(backend: str, path: Path, *, remembers: bool) -> Iterator[BytesDoor]:
    """Give the driver as the contract asks of puts: read before the commit, which writes them all.

    They wait in a dictionary, since one commit may bring a row twice, and are written in the order
    of their keys. What was written is found without the driver, if it *remembers*.
    """
    with RAW[backend](path / "raw") as database:
        pending: dict[bytes, bytes] = {}
        written: dict[bytes, bytes] = {}
        read = database.get

        def get(key: bytes) -> bytes | None:
            found = pending.get(key)
            if found is None:
                found = written.get(key)
            return cast("bytes | None", read(DATA + key)) if found is None else found

        def commit() -> None:
            keys, rows = by_key(pending)
            batch, write = raw_batch(backend, database)
            deque(map(batch.put, map(DATA.__add__, keys), rows), maxlen=0)
            write()
            if remembers:
                written.update(pending)
            pending.clear()

        yield Door(get, pending.__setitem__, commit)


@contextmanager
def _ours(backend: str, path: Path) -> Iterator[BytesDoor]:
    with open_key_values(backend, path / "ours") as store:
        yield Door(store.get, store.put, partial(store.commit, {}))


@contextmanager
def _sqlite(path: Path) -> Iterator[BytesDoor]:
    """Give SQLite with a log of writes, which it leaves to the operating system."""
    with closing_at_end(sqlite3.connect(path / "raw.db", isolation_level=None)) as database:
        execute = database.execute
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = OFF")
        execute("CREATE TABLE IF NOT EXISTS pairs (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")
        execute("BEGIN")

        def get(key: bytes) -> bytes | None:
            found = execute("SELECT value FROM pairs WHERE key = ?", (key,)).fetchone()
            return None if found is None else cast("bytes", found[0])

        def put(key: bytes, value: bytes) -> None:
            execute("INSERT OR REPLACE INTO pairs VALUES (?, ?)", (key, value))

        def commit() -> None:
            execute("COMMIT")
            execute("BEGIN")

        yield Door(get, put, commit)
        execute("COMMIT")


@contextmanager
def _lmdb(path: Path) -> Iterator[BytesDoor]:
    """Give LMDB with a write transaction that is held open from one commit to the next."""
    import lmdb  # noqa: PLC0415  # it may be absent

    directory = path / "lmdb"
    directory.mkdir(exist_ok=True)
    with closing_at_end(lmdb.open(str(directory), map_size=_LMDB_BYTES, sync=False)) as database:
        transaction = database.begin(write=True)

        def get(key: bytes) -> bytes | None:
            return cast("bytes | None", transaction.get(key))

        def put(key: bytes, value: bytes) -> None:
            transaction.put(key, value)

        def commit() -> None:
            nonlocal transaction
            transaction.commit()
            transaction = database.begin(write=True)

        yield Door(get, put, commit)
        transaction.commit()


RAW_ROCKSDB = Contender(
    name="rocksdict", what="direct `put` and `get`", open=partial(_direct, "rocksdb")
)
RAW_LEVELDB = Contender(
    name="plyvel", what="direct `put` and `get`", open=partial(_direct, "leveldb")
)


def _floors(
    what: str, opened: Callable[[str, Path], AbstractContextManager[BytesDoor]]
) -> dict[str, Contender[bytes, bytes]]:
    return {
        backend: Contender(name="the floor", what=what, open=partial(opened, backend))
        for backend in RAW
    }


FLOORS = _floors("the driver, as the contract asks", _floor)
"""What any store over the driver must do of a read, by backend."""

PUT_FLOORS = _floors("sorted batches of the driver", partial(_committing, remembers=False))
"""The same of puts and their commits."""

COUNTER_FLOORS = _floors(
    "sorted batches of the driver, and a dictionary of what they wrote",
    partial(_committing, remembers=True),
)
"""The same of a get and a put for each row."""

OURS_ROCKSDB = Contender(
    name="statestores, RocksDB", what="`put`, `get`, `commit`", open=partial(_ours, "rocksdb")
)
OURS_LEVELDB = Contender(
    name="statestores, LevelDB", what="`put`, `get`, `commit`", open=partial(_ours, "leveldb")
)
OURS_SQLITE = Contender(
    name="statestores, SQLite", what="`put`, `get`, `commit`", open=partial(_ours, "sqlite")
)
SQLITE = Contender(name="sqlite3", what="a statement a call in a transaction", open=_sqlite)
LMDB = Contender(name="lmdb", what="a write transaction", open=_lmdb, needs=("lmdb",))

BYTES = (RAW_ROCKSDB, OURS_ROCKSDB, RAW_LEVELDB, OURS_LEVELDB, SQLITE, OURS_SQLITE, LMDB)
"""The base, and all contenders that have bytes and no framework around them."""


@contextmanager
def _orjson_rows(path: Path) -> Iterator[Door[bytes, Any]]:
    """Give rocksdict with orjson around it: what a program without a framework would write."""
    with _direct("rocksdb", path) as rows:
        get_row, put_row = rows.get, rows.put

        def get(key: bytes) -> Any:
            found = get_row(key)
            return None if found is None else orjson.loads(found)

        def put(key: bytes, value: object) -> None:
            put_row(key, orjson.dumps(value))

        yield Door(get, put, nothing)


@contextmanager
def _ours_typed(backend: str, path: Path) -> Iterator[Door[bytes, Any]]:
    with ss.open_store(
        path / "ours",
        ss.KeyValue("bench", value=ss.json),
        backend=backend,
        durability=ss.Durability.PROCESS_CRASH,
    ) as store:
        yield Door(store.get, store.put, partial(store.commit, {}))


RAW_JSON = Contender(name="rocksdict", what="direct `put` and `get`, orjson", open=_orjson_rows)
OURS_JSON = Contender(
    name="statestores, RocksDB",
    what="`put`, `get`, `commit`, the serde `json`",
    open=partial(_ours_typed, "rocksdb"),
)
