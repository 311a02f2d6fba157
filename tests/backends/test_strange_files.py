"""What lies where an engine's files should be, and is something else."""

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import statestores as ss
from statestores import failpoints
from statestores.errors import (
    StateStoreError,
    StorageError,
    StoreCorruptedError,
    StoreLockedError,
)
from statestores.registry import load_backend

if TYPE_CHECKING:
    from collections.abc import Callable

COUNTS = ss.KeyValue("counts")
PERSISTENT = ("rocksdb", "leveldb", "sqlite")
A_FILE_OF = {"rocksdb": "CURRENT", "leveldb": "CURRENT", "sqlite": "engine.db"}


def _make(directory: Path, backend: str) -> None:
    with ss.open_store(directory, COUNTS, backend=backend) as store:
        store.put(b"k", b"v")
        store.commit({})


@pytest.mark.spec("LAY-29")
@pytest.mark.parametrize("backend", PERSISTENT)
def test_an_engine_that_nobody_names_is_not_begun_anew(tmp_path: Path, backend: str) -> None:
    """``engine.json`` was lost, and the store of LevelDB opened as an empty one of RocksDB.

    Now neither another backend nor the same one takes such files for its own: who puts the file
    back has everything back.
    """
    _make(tmp_path, backend)
    noted = (tmp_path / "engine.json").read_bytes()
    (tmp_path / "engine.json").unlink()

    for other in (*PERSISTENT, None):
        with pytest.raises(StoreCorruptedError, match=r"engine\.json.*is gone"):
            ss.open_store(tmp_path, COUNTS, backend=other)

    (tmp_path / "engine.json").write_bytes(noted)
    with ss.open_store(tmp_path, COUNTS) as store:
        assert store.get(b"k") == b"v"


@pytest.mark.spec("LAY-29")
def test_a_note_of_a_backend_without_files_is_damage(tmp_path: Path) -> None:
    """Edited to ``memory``, ``engine.json`` gave an empty store, and its commits were lost."""
    _make(tmp_path, "sqlite")
    (tmp_path / "engine.json").write_text('{"format": 1, "backend": "memory"}')

    for opening in (lambda: ss.open_store(tmp_path, COUNTS), lambda: ss.open_existing(tmp_path)):
        with pytest.raises(StoreCorruptedError, match="keeps nothing on disk"):
            opening()


class _DiedError(Exception):
    """In the place of a process that died."""


def _die() -> None:
    raise _DiedError


@pytest.mark.spec("LAY-29")
@pytest.mark.parametrize("backend", PERSISTENT)
def test_a_creation_that_died_is_finished_by_its_backend_alone(
    tmp_path: Path, backend: str
) -> None:
    """It left an engine and the note of its backend."""
    failpoints.arm("store.engine-created", _die)
    try:
        with pytest.raises(_DiedError):
            _make(tmp_path, backend)
    finally:
        failpoints.disarm()
    for other in set(PERSISTENT) - {backend}:
        with pytest.raises(StoreCorruptedError):
            ss.open_store(tmp_path, COUNTS, backend=other)

    _make(tmp_path, backend)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["engine", "engine.json"]


@pytest.mark.spec("LAY-29")
def test_a_refused_creation_leaves_no_note(tmp_path: Path) -> None:
    """Another backend may begin there."""
    with pytest.raises(StateStoreError):
        ss.open_store(tmp_path / "s", COUNTS, backend="sqlite", options={"no such option": 1})

    _make(tmp_path / "s", "leveldb")


@pytest.mark.spec("LAY-29")
def test_a_creation_that_was_refused_half_way_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RocksDB got no lock of its own when it had made files: nobody said whose, and none opened.

    A test in which calls fail found it once in some hundred runs.
    """

    def refuse(directory: Path, _: object) -> None:
        (directory / "LOG").touch()
        raise StoreLockedError("another program has the database open")

    with monkeypatch.context() as patched:
        patched.setattr("statestores_rocksdb.engine.open_database", refuse)
        with pytest.raises(StoreLockedError):
            _make(tmp_path, "rocksdb")

    _make(tmp_path, "rocksdb")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["engine", "engine.json"]


@pytest.mark.spec("ENG-14")
@pytest.mark.parametrize("backend", PERSISTENT)
def test_a_pipe_or_a_device_is_not_waited_for(tmp_path: Path, backend: str) -> None:
    """Opening SQLite's file never ended: it was a pipe into which nobody wrote."""
    engine, file = load_backend(backend), A_FILE_OF[backend]
    makers: list[Callable[[Path], None]] = [os.mkfifo, lambda path: path.symlink_to("/dev/zero")]
    for number, strange in enumerate(makers):
        directory = tmp_path / str(number)
        engine.open(directory).close()
        (directory / file).unlink()
        strange(directory / file)

        with pytest.raises(StorageError, match=f"{file}' is neither a file nor a directory"):
            engine.open(directory)


@pytest.mark.spec("ENG-14")
def test_a_long_name_in_current_is_damage_of_leveldb(tmp_path: Path) -> None:
    """The operating system refuses names of that length; that was told as a failing disk."""
    engine = load_backend("leveldb")
    engine.open(tmp_path).close()
    for content in (b"x" * 5_000, b"MANIFEST-", b"../MANIFEST-000002\n", b"\xff\n"):
        (tmp_path / "CURRENT").write_bytes(content)

        with pytest.raises(StoreCorruptedError, match="names no manifest"):
            engine.open(tmp_path)


@pytest.mark.spec("ENG-14")
def test_a_file_that_is_put_back_is_not_denied(tmp_path: Path) -> None:
    """SQLite's file was lost, the opening refused, and the file put back: it was refused as well.

    The empty file that the refused opening had made was sealed when it was closed, and its seal
    did not fit the right one.
    """
    _make(tmp_path / "s", "sqlite")
    engine, kept = tmp_path / "s" / "engine", tmp_path / "kept"
    engine.rename(kept)
    engine.mkdir()
    with pytest.raises(StoreCorruptedError):
        ss.open_store(tmp_path / "s", COUNTS)

    shutil.copy(kept / "engine.db", engine / "engine.db")
    with ss.open_store(tmp_path / "s", COUNTS) as store:
        assert store.get(b"k") == b"v"


@pytest.mark.spec("LAY-29")
@pytest.mark.parametrize("when", ["json.written", "json.renamed", "store.engine-created"])
def test_of_two_that_create_a_store_one_is_refused(tmp_path: Path, when: str) -> None:
    """Who came second noted its own backend over the first one's, and each thought it was alone.

    Where the first one died then, its files were taken for another backend's. Now a creation keeps
    others out, whichever backend they are of, and nothing of its note changes.
    """
    refused: list[StoreLockedError] = []

    def create_another() -> None:
        failpoints.disarm()
        before = sorted(each.name for each in tmp_path.iterdir())
        with pytest.raises(StoreLockedError) as raised:
            ss.open_store(tmp_path, COUNTS, backend="leveldb")
        refused.append(raised.value)
        assert sorted(each.name for each in tmp_path.iterdir()) == before

    failpoints.arm(when, create_another)
    try:
        _make(tmp_path, "sqlite")
    finally:
        failpoints.disarm()

    assert len(refused) == 1
    with ss.open_store(tmp_path, COUNTS) as store:
        assert store.get(b"k") == b"v"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["engine", "engine.json"]


@pytest.mark.spec("LAY-29")
def test_who_comes_second_when_the_first_has_ended_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had looked for a store before there was one: two engines lay in one directory.

    ``engine.json`` named the second, and what the first had committed could not be seen.
    """

    def looked_too_early(name: str) -> object:
        monkeypatch.undo()
        _make(tmp_path, "sqlite")
        return load_backend(name)

    monkeypatch.setattr("statestores.opening.load_backend", looked_too_early)
    with pytest.raises(StoreLockedError, match="just made a store of the backend 'sqlite'"):
        ss.open_store(tmp_path, COUNTS, backend="leveldb")

    with ss.open_store(tmp_path, COUNTS) as store:
        assert store.get(b"k") == b"v"


@pytest.mark.spec("LAY-29")
def test_a_lock_of_a_creation_that_was_killed_is_in_nobodys_way(tmp_path: Path) -> None:
    """The file stays, and goes with the next creation."""
    (tmp_path / "engine.creating.lock").touch()
    _make(tmp_path, "sqlite")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["engine", "engine.json"]
