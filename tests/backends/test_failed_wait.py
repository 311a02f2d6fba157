"""How each driver says that the disk failed while it waited for what it had written (ENG-39).

The story: `fdatasync` failed once. RocksDB and LevelDB raised, a rollback was accepted, the owner
read the old values, and after reopening the writes and their offset were there: the log had them.
What holds now: that error, and no other, is a `CommitInDoubtError`.

The texts are those of the drivers, taken down with a disk that was made to fail below them.
"""

import sqlite3
from pathlib import Path

import pytest

from statestores.errors import CommitInDoubtError, StateStoreError
from statestores.spi import Durability
from statestores_conformance.many_cases import for_each

_WAIT = "IO error: While fdatasync: /s/engine/000004.log: Input/output error"
_FULL_WAIT = (
    "IO error: No space left on device: While fdatasync: /s/engine/000004.log: "
    "No space left on device"
)
_WRITE = "IO error: While appending to file: /s/engine/000004.log: Input/output error"
_FULL_WRITE = (
    "IO error: No space left on device: While appending to file: /s/engine/000004.log: "
    "No space left on device"
)


@pytest.mark.spec("ENG-39", "ENG-16")
@for_each(
    ("text", "in_doubt"),
    [(_WAIT, True), (_FULL_WAIT, True), (_WRITE, False), (_FULL_WRITE, False)],
)
def test_rocksdb_names_what_it_was_doing(text: str, *, in_doubt: bool) -> None:
    """A write that failed is not in the log as a whole; one that was waited for may be."""
    failures = pytest.importorskip("statestores_rocksdb.failures")
    with pytest.raises(StateStoreError) as raised:
        failures.fail(Exception(text), "apply a batch of 1 changes")

    assert isinstance(raised.value, CommitInDoubtError) is in_doubt


@pytest.mark.spec("ENG-39", "ENG-16")
@for_each(
    ("code", "in_doubt"),
    [
        (sqlite3.SQLITE_IOERR_FSYNC, True),
        (sqlite3.SQLITE_IOERR_DIR_FSYNC, True),
        (sqlite3.SQLITE_IOERR_WRITE, False),
        (sqlite3.SQLITE_FULL, False),
    ],
)
def test_sqlite_has_a_code_for_it(code: int, *, in_doubt: bool) -> None:
    """Its text is that of every failure of the disk."""
    failures = pytest.importorskip("statestores_sqlite.failures")
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code  # as the module sets it

    assert isinstance(failures.translated(error, "/s"), CommitInDoubtError) is in_doubt


@pytest.mark.spec("ENG-39")
def test_a_leveldb_log_tells_whether_it_ends_with_a_batch(tmp_path: Path) -> None:
    """One text stands for both, and the log ends with a batch that was waited for in vain."""
    leveldb = pytest.importorskip("statestores_leveldb")
    files = pytest.importorskip("statestores_leveldb.database_files")
    batch: dict[bytes, bytes | None] = {b"a": b"v" * 70_000, b"gone": None, b"b": b""}
    with leveldb.LevelDBEngine.open(tmp_path) as engine:
        engine.apply({b"before": b"1"}, Durability.POWER_LOSS)
        assert not files.is_last_batch(batch.items(), tmp_path)
        engine.apply(batch, Durability.POWER_LOSS)
        assert files.is_last_batch(batch.items(), tmp_path)
        assert not files.is_last_batch({b"before": b"1"}.items(), tmp_path)
        [log] = tmp_path.glob("*.log")
        whole = log.read_bytes()
        log.write_bytes(whole[:-1])  # as a short write leaves it
        assert not files.is_last_batch(batch.items(), tmp_path)
        log.write_bytes(whole)
