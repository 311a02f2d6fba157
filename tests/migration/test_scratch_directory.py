"""Databases are opened in directories of their own, and none of these stays for good."""

import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from forked_programs import run

from statestores.errors import StorageError
from statestores.migration.scratch_directory import scratch_directory

KILLED = """
import os, signal, sys, tempfile
from pathlib import Path
from statestores.migration.rocksdb_files import RocksDBFiles

tempfile.tempdir = sys.argv[1]
database = RocksDBFiles(Path(sys.argv[2]))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.spec("MIG-16")
def test_what_a_killed_import_left_goes_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_database: Callable[..., None]
) -> None:
    """Each import that was killed left its links and copies among the temporary files, for good.

    Now whoever reads a database removes those of processes that are gone, and none of the others.
    """
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    write_database(tmp_path / "kv", {"default": {b"k": b"v"}})
    killed = run(KILLED, temporary, tmp_path / "kv")
    assert killed.returncode == -signal.SIGKILL
    [left] = temporary.iterdir()
    assert (left / "database" / "CURRENT").is_file()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with scratch_directory() as mine, scratch_directory() as another:
        there = sorted(temporary.iterdir())

        assert there == sorted([mine.parent, another.parent])
    assert list(temporary.iterdir()) == []


def test_what_is_not_of_an_import_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what had a lock is known to be an import's, and to be abandoned."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    strange = [tmp_path / "statestores-import-1", tmp_path / "statestores-import-2"]
    strange[0].mkdir()
    strange[1].touch()
    with scratch_directory():
        pass

    assert sorted(tmp_path.iterdir()) == strange


def test_a_directory_that_cannot_be_made_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where temporary files would be there is no directory."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(StorageError, match="cannot make a directory in"), scratch_directory():
        pass
