"""Databases that programs have made without a library, imported as key-value stores."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import statestores as ss
from statestores.errors import InvalidArgumentError, StoreCorruptedError, StoreNotFoundError
from statestores.migration import (
    LevelDBDatabase,
    PeerState,
    RocksDBDatabase,
    SQLiteTable,
    import_peer_state,
    plan_peer_import,
)

ROWS = {b"anna": b"1", b"bob": b"", b"carla\x00": b"\xff"}


def rows_of(root: Path, store: str, partitions: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the rows of all partitions."""
    for partition in range(partitions):
        with ss.open_logged_store(root, store, partition, backend="memory") as logged:
            yield from logged.store.range(None, None)


def imported(source: PeerState, root: Path) -> dict[bytes, bytes]:
    """Import the source's one store into two partitions, and return its rows."""
    [store] = source.stores()
    import_peer_state(source, root, [plan_peer_import(source, store.name, partitions=2)])
    return dict(rows_of(root, store.name, 2))


@pytest.mark.spec("MIG-18")
def test_a_rocksdb_database_is_a_store(tmp_path: Path) -> None:
    """Rows that are only in the log of writes belong to it as well."""
    rocksdict = pytest.importorskip("rocksdict")
    database = rocksdict.Rdict(str(tmp_path / "users"), rocksdict.Options(raw_mode=True))
    for key, value in ROWS.items():
        database[key] = value
    database.close()
    with RocksDBDatabase(tmp_path / "users") as source:
        assert imported(source, tmp_path / "root") == ROWS
    with (
        RocksDBDatabase(tmp_path / "users", family="orders") as source,
        pytest.raises(StoreNotFoundError, match="no column family 'orders'"),
    ):
        imported(source, tmp_path / "other")


@pytest.mark.spec("MIG-18")
def test_a_leveldb_database_is_a_store(tmp_path: Path) -> None:
    """Opening it would write to it, so a directory of links is opened; damage is found."""
    plyvel = pytest.importorskip("statestores_leveldb.binding").plyvel
    path = tmp_path / "users"
    with closing(plyvel.DB(str(path), create_if_missing=True)) as database:
        for key, value in ROWS.items():
            database.put(key, value)
        database.compact_range()
    with closing(plyvel.DB(str(path))):  # writes a new log, and drops the old one
        pass
    before = {each.name: each.read_bytes() for each in path.iterdir()}
    with LevelDBDatabase(path) as source:
        assert imported(source, tmp_path / "root") == ROWS

    assert {each.name: each.read_bytes() for each in path.iterdir()} == before
    [table] = path.glob("*.ldb")
    data = bytearray(table.read_bytes())
    data[3] ^= 0xFF
    table.write_bytes(data)
    with LevelDBDatabase(path) as source, pytest.raises(StoreCorruptedError, match="users"):
        imported(source, tmp_path / "other")


@pytest.mark.spec("MIG-18")
def test_two_columns_of_sqlite_are_a_store(tmp_path: Path) -> None:
    """Texts and numbers are written by serdes, and nothing is guessed for them."""
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute('create table "us""ers" (name text, visits integer, photo blob)')
        database.executemany(
            'insert into "us""ers" values (?, ?, ?)', [("anna", 3, b"x"), ("bob", 5, None)]
        )
        database.commit()
    with SQLiteTable(
        path,
        'us"ers',
        key="name",
        value="visits",
        key_serde=ss.utf8,
        value_serde=ss.int64,
        name="users",
    ) as source:
        assert imported(source, tmp_path / "root") == {
            b"anna": ss.int64.encode(3),
            b"bob": ss.int64.encode(5),
        }
    with (
        SQLiteTable(path, 'us"ers', key="name", value="photo", name="users") as source,
        pytest.raises(InvalidArgumentError, match="say which serde writes it"),
    ):
        imported(source, tmp_path / "other")
    with (
        SQLiteTable(
            path, 'us"ers', key="name", value="photo", key_serde=ss.utf8, name="users"
        ) as source,
        pytest.raises(InvalidArgumentError, match="nulls"),
    ):
        imported(source, tmp_path / "third")
    with pytest.raises(StoreNotFoundError, match="columns 'key' and 'value'"):
        SQLiteTable(path, 'us"ers')
    (tmp_path / "text").write_text("no database" * 100)
    with pytest.raises(StoreCorruptedError, match="no SQLite database"):
        SQLiteTable(tmp_path / "text", "users")
