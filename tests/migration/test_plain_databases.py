"""Databases that programs have made without a library, imported as key-value stores."""

import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from forked_programs import run

import statestores as ss
from statestores.errors import (
    InvalidArgumentError,
    SerializationError,
    StorageError,
    StoreCorruptedError,
    StoreNotFoundError,
)
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


@pytest.mark.spec("MIG-18")
@pytest.mark.parametrize("keys", [("a", "a"), ("a", b"a"), (0.0, -0.0)])
def test_a_key_in_two_rows_is_refused(tmp_path: Path, keys: tuple[object, object]) -> None:
    """A table without a unique key was imported as "2 rows", and the store had the last one alone.

    Which one that is, is SQLite's to choose: the import had lost a row and said nothing. Keys that
    only the column's own order takes for the same are two.
    """
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("create table users (key text collate nocase, value text)")
        database.execute("create table twice (key, value text)")
        database.executemany("insert into users values (?, ?)", [("a", "1"), ("A", "2")])
        database.executemany("insert into twice values (?, ?)", [(key, "1") for key in keys])
        database.commit()
    serdes: dict[str, ss.Serde[Any]] = {"key_serde": ss.utf8, "value_serde": ss.utf8}
    if isinstance(keys[0], float):
        serdes["key_serde"] = ss.float64

    with (
        SQLiteTable(path, "twice", **serdes) as source,
        pytest.raises(InvalidArgumentError, match=r"in 2 rows.*import a view"),
    ):
        imported(source, tmp_path / "root")
    assert "twice" not in ss.StateRoot.create(tmp_path / "root").stores
    with SQLiteTable(path, "users", key_serde=ss.utf8, value_serde=ss.utf8) as source:
        assert imported(source, tmp_path / "root") == {b"a": b"1", b"A": b"2"}


@pytest.mark.spec("MIG-18")
def test_an_import_that_failed_leaves_no_store_of_the_wrong_serde(tmp_path: Path) -> None:
    """The store was noted before its rows were read.

    Who had said a serde that did not take a value, and then said the right one, was told that the
    store differed from its specification, and to "open it as it is": it was empty, and nothing
    removes a store.
    """
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("create table users (key text, value real)")
        database.executemany("insert into users values (?, ?)", [("a", 1.5), ("b", float("inf"))])
        database.commit()
    serdes: list[ss.Serde[Any]] = [ss.json, ss.float64]
    for value, number in zip(serdes, (4, 2), strict=True):
        with SQLiteTable(path, "users", key_serde=ss.utf8, value_serde=value) as source:
            plan = plan_peer_import(source, "users", value=value, partitions=number)
            if value is ss.json:
                with pytest.raises(SerializationError, match="json"):
                    import_peer_state(source, tmp_path / "root", [plan])
            else:
                import_peer_state(source, tmp_path / "root", [plan])

    found: list[tuple[object, object]] = [*rows_of(tmp_path / "root", "users", 2)]
    assert dict(found) == {b"a": 1.5, b"b": float("inf")}


@pytest.mark.spec("MIG-20")
@pytest.mark.parametrize(
    ("serdes", "refused"),
    [
        (
            {"value": ss.int64},
            r"the value of the key b'bob' cannot .* got 3; .* value serde",
        ),
        ({"key": ss.utf8, "value": ss.utf8}, r"the key b'\\xff' cannot .* key serde"),
    ],
)
def test_bytes_that_the_serde_does_not_read_are_refused(
    tmp_path: Path, serdes: dict[str, Any], refused: str
) -> None:
    """A column of bytes was imported under any serde.

    The import said that all rows had come, and the first scan that a value is damaged. Now the
    import reads what it writes, names the row, and leaves no store of the wrong serde.
    """
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("create table users (key blob, value blob)")
        rows = [(b"anna", b"12345678"), (b"bob", b"xyz"), (b"\xff", b"87654321")]
        database.executemany("insert into users values (?, ?)", rows)
        database.commit()
    with SQLiteTable(path, "users") as source:
        with pytest.raises(SerializationError, match=refused):
            import_peer_state(
                source, tmp_path / "root", [plan_peer_import(source, "users", **serdes)]
            )
        assert imported(source, tmp_path / "root") == dict(rows)


@pytest.mark.spec("MIG-18")
def test_rows_that_are_written_meanwhile_are_all_there_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That no key is there twice was asked of one connection, and the rows were read by the next.

    A program that wrote in between had one of two rows of a key lost, and nothing was said.
    """
    path = tmp_path / "app.db"
    check = SQLiteTable._refuse_repeated  # between it and the rows lies the story

    with closing(sqlite3.connect(path)) as program:
        program.execute("pragma journal_mode=wal")
        program.execute("create table users (key blob, value blob)")
        program.execute("insert into users values (x'61', x'31')")
        program.commit()

        def check_and_write(source: SQLiteTable, *given: Any) -> None:
            check(source, *given)
            program.execute("insert into users values (x'61', x'32'), (x'62', x'33')")
            program.commit()

        monkeypatch.setattr(SQLiteTable, "_refuse_repeated", check_and_write)
        with SQLiteTable(path, "users") as source:
            assert imported(source, tmp_path / "root") == {b"a": b"1"}


@pytest.mark.spec("MIG-18")
def test_a_database_whose_program_died_in_a_transaction_is_refused_with_what_helps(
    tmp_path: Path,
) -> None:
    """It said "attempt to write a readonly database", of a database that nobody asked to write."""
    path = tmp_path / "app.db"
    dies = """
import os, signal, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("pragma cache_size=1")
database.execute("create table users (key text, value blob)")
database.execute("insert into users values ('anna', x'31')")
database.execute("begin")
database.execute("update users set value = x'32'")
for number in range(50):
    database.execute("insert into users values (?, zeroblob(9000))", (str(number),))
os.kill(os.getpid(), signal.SIGKILL)
"""
    died = subprocess.run([sys.executable, "-c", dies, str(path)], check=False)
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}

    assert died.returncode == -signal.SIGKILL
    with pytest.raises(StorageError, match=r"open it once with its program, .*app\.db-journal"):
        SQLiteTable(path, "users", key_serde=ss.utf8)
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before
    with closing(sqlite3.connect(path)) as program:
        assert program.execute("select count(*) from users").fetchone() == (1,)
    with SQLiteTable(path, "users", key_serde=ss.utf8) as source:
        assert imported(source, tmp_path / "root") == {b"anna": b"1"}


READ_ONLY = """
import os, shutil, sqlite3, sys
from pathlib import Path
from statestores.errors import StorageError
from statestores.migration import SQLiteTable

made, place = map(Path, sys.argv[1:3])
place.mkdir()
database = sqlite3.connect(made)
database.execute("pragma journal_mode=wal")
database.execute("create table users (key blob, value blob)")
database.commit()
for end in sys.argv[3:]:
    shutil.copyfile(f"{made}{end}", place / f"app.db{end}")
    (place / f"app.db{end}").chmod(0o444)
place.chmod(0o555)
if not os.getuid():
    os.setuid(65534)
try:
    with SQLiteTable(place / "app.db", "users"):
        pass
except StorageError as error:
    print(error)
"""


@pytest.mark.spec("MIG-16")
@pytest.mark.parametrize("ends", [[""], ["", "-wal"]])
def test_a_write_ahead_log_where_nothing_may_be_made_is_told_with_what_helps(
    tmp_path: Path, ends: list[str]
) -> None:
    """In a directory that is only read, SQLite said "attempt to write a readonly database".

    And the advice was that of a program that has died in a transaction, with a journal that there
    is none of. It is the write-ahead log beside which SQLite makes files even to read.
    """
    with tempfile.TemporaryDirectory() as directory:  # where others may look, unlike `tmp_path`
        Path(directory).chmod(0o755)
        place = Path(directory) / "read-only"
        told = run(READ_ONLY, tmp_path / "app.db", place, *ends)

    assert "take a copy of it, and of 'app.db-wal' if that is there, to where it may" in told.stdout
    assert "journal" not in told.stdout
    assert told.returncode == 0, told.stderr


@pytest.mark.spec("MIG-18")
def test_a_text_that_is_not_utf_8_is_refused_with_what_helps(tmp_path: Path) -> None:
    """The error ended with Python's text. What it advises gives the bytes as they are."""
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("create table users (key text, value text)")
        database.execute("insert into users values ('a', cast(x'ff41' as text))")
        database.execute("create view bytes as select key, cast(value as blob) as value from users")
        database.commit()
    with (
        SQLiteTable(path, "users", key_serde=ss.utf8, value_serde=ss.utf8) as source,
        pytest.raises(StorageError, match="import a view that casts that column to blob"),
    ):
        imported(source, tmp_path / "root")
    with SQLiteTable(path, "bytes", key_serde=ss.utf8) as source:
        assert imported(source, tmp_path / "root") == {b"a": b"\xffA"}


@pytest.mark.spec("MIG-18")
def test_columns_that_are_generated_are_columns(tmp_path: Path) -> None:
    """The import said that the table had no such column, and listed the others."""
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute(
            "create table users (key text, value text as (key || '!'), kept text as (key) stored)"
        )
        database.execute("insert into users (key) values ('a')")
        database.commit()
    for column, value in (("value", b"a!"), ("kept", b"a")):
        with SQLiteTable(
            path, "users", value=column, key_serde=ss.utf8, value_serde=ss.utf8
        ) as source:
            assert imported(source, tmp_path / column) == {b"a": value}
