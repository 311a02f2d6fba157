"""The mark of a SQLite file that needs its log: where it cannot be set, or not be removed."""

import errno
import gc
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from statestores.errors import StoreCorruptedError
from statestores.spi import Durability
from statestores_sqlite import SQLiteEngine, clean_close

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

CRASH = Durability.PROCESS_CRASH


class _NoRoom:
    """A connection that has no room to remove the mark."""

    def __init__(self, driver: sqlite3.Connection) -> None:
        self._driver = driver

    def execute(self, statement: str) -> sqlite3.Cursor:
        if statement.startswith("DROP VIEW"):
            raise sqlite3.OperationalError("database or disk is full")
        return self._driver.execute(statement)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)


def _mark_of(engine: SQLiteEngine) -> Any:
    return engine._database._needed_log  # type: ignore[attr-defined]  # of a file


def _has_mark(file: Path) -> bool:
    """Return whether *file* has a mark, with what is in its log."""
    connection = sqlite3.connect(file)
    try:
        return bool(
            connection.execute("SELECT name FROM sqlite_schema WHERE type = 'view'").fetchall()
        )
    finally:
        connection.close()


@pytest.mark.spec("ENG-18", "ENG-48")
@pytest.mark.parametrize("how", ["closed", "collected"])
def test_a_mark_that_could_not_be_removed_denies_nothing(tmp_path: Path, how: str) -> None:
    """There was no room for that; SQLite removes the log all the same, and an empty one is put."""
    engine = SQLiteEngine.open(tmp_path)
    engine.apply({b"k": b"v"}, CRASH)
    mark = _mark_of(engine)
    mark._driver = _NoRoom(mark._driver)
    if how == "closed":
        engine.close()
    else:
        del engine, mark
        gc.collect()

    assert (tmp_path / "engine.db-wal").exists()
    with SQLiteEngine.open(tmp_path) as again:
        assert again.get(b"k") == b"v"


def test_a_closed_engine_leaves_no_log(tmp_path: Path) -> None:
    """Whether it had a mark or not: what is beside the file says that something is in it."""
    for batch in ({}, {b"k": b"v"}):
        with SQLiteEngine.open(tmp_path) as engine:
            if batch:
                engine.apply(dict(batch), CRASH)

        assert not (tmp_path / "engine.db-wal").exists()
        assert not _has_mark(tmp_path / "engine.db")


@pytest.mark.spec("ENG-43", "ENG-48")
def test_a_child_leaves_the_mark_of_its_parent(tmp_path: Path) -> None:
    """A fork has a copy of the connection: what it wrote through that would be in the file."""
    with SQLiteEngine.open(tmp_path) as engine:
        engine.apply({b"k": b"v"}, CRASH)
        mark = _mark_of(engine)
        mark._process += 1  # as in a child

        assert mark.unmark() is True
        assert _has_mark(tmp_path / "engine.db")

        mark._process -= 1

        assert mark.unmark() is True
        assert not _has_mark(tmp_path / "engine.db")
        assert mark.unmark() is True  # there is none any more


@pytest.mark.spec("ENG-48")
def test_a_mark_that_a_reader_keeps_in_the_log_is_set_again(tmp_path: Path) -> None:
    """As long as somebody reads what was there before, SQLite moves nothing that came later.

    A mutant took the first try for enough: of a copy of the file alone two batches were gone.
    """
    with SQLiteEngine.open(tmp_path / "engine") as engine:
        engine.apply({b"first": b"v"}, CRASH)
    with SQLiteEngine.open(tmp_path / "engine") as engine:
        snapshot = engine.snapshot()
        assert snapshot.get(b"first") == b"v"
        engine.apply({b"second": b"v"}, CRASH)
        snapshot.close()
        engine.apply({b"third": b"v"}, CRASH)
        copy = tmp_path / "copy"
        copy.mkdir()
        shutil.copy(tmp_path / "engine" / "engine.db", copy)
        with pytest.raises(StoreCorruptedError, match="db-wal"):
            SQLiteEngine.open(copy)


def test_what_an_interrupt_left_open_does_not_keep_the_mark(tmp_path: Path) -> None:
    """A batch that was cut short is in no commit; the mark is removed behind it."""
    with SQLiteEngine.open(tmp_path) as engine:
        engine.apply({b"k": b"v"}, CRASH)
        mark = _mark_of(engine)
        mark._driver.execute("BEGIN IMMEDIATE").close()

        assert mark.unmark() is True
        assert not _has_mark(tmp_path / "engine.db")


def test_a_directory_that_cannot_be_opened_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The seal stays where it is, and the error is the system's: not one about a variable."""

    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with SQLiteEngine.open(tmp_path) as engine:
        engine.apply({b"k": b"v"}, CRASH)
    seal = tmp_path / clean_close.SEAL
    assert seal.exists()
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
            clean_close.break_seal(tmp_path / "engine.db")

    assert seal.exists()
