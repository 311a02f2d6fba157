"""What is needed for a while lies in directories of its own, and none of these stays for good."""

import os
import signal
import tempfile
from pathlib import Path

import pytest
from forked_programs import run

from statestores.errors import StorageError
from statestores.files.directory_lock import LOCK_FILE
from statestores.files.scratch_directory import scratch_directory

BEGUN = """
import os, signal, sys, tempfile
from functools import partial
from pathlib import Path
import statestores as ss
from statestores.failpoints import arm
from statestores.state_root import StateRoot

tempfile.tempdir, home, KILLED = sys.argv[1], Path(sys.argv[2]), sys.argv[3] == "killed"

def die():
    if KILLED:
        os.kill(os.getpid(), signal.SIGKILL)

def filled(root):
    made = StateRoot.create(root)
    if "kept" not in made.stores:
        made.add_store(ss.KeyValue("kept"), partitions=1)
        with ss.open_logged_store(made, "kept", 0, directory=home / sys.argv[3]) as opened:
            opened.store.put(b"k", b"v")
            opened.commit()
    return made

def each(pieces):
    return [piece() for piece in pieces]
"""

UNFINISHED = {
    "a reshard in an object store": """
from statestores.resharding import reshard
filled("memory://a")
arm("reshard.routed", die)
reshard("memory://a", "kept", 2)
""",
    "a reshard into an object store": """
from statestores.resharding import reshard
filled("memory://a")
arm("reshard.routed", die)
reshard("memory://a", "kept", 2, to="memory://b")
""",
    "rows that pass through an object store": """
from statestores.resharding import reshard
filled("memory://a")
arm("objects.reshard.exchanged", die)
reshard("memory://a", "kept", 2, each=each)
""",
    "a snapshot in an object store": """
arm("objects.snapshot.put", die)
with ss.open_logged_store(filled("memory://a"), "kept", 0, directory=home / sys.argv[3]) as opened:
    opened.snapshot()
""",
    "a snapshot from files": """
from statestores.upkeep.snapshots import FileSnapshot
root = filled(home / "root")
arm("snapshot.data-written", die)
FileSnapshot(
    directory=root.partition("kept", 0), number=0, specification=root.store("kept").specification
)()
""",
    "copies that are served": """
from statestores.serving import FollowedRoot
with FollowedRoot(filled("memory://a")):
    die()
""",
    "rows that are sorted": """
from statestores.staging.sorted_rows import SortedStager
with SortedStager(home / "root", ss.KeyValue("kept"), 1, "w", "attempt"):
    die()
""",
    "a database that is read": """
import rocksdict
from statestores.migration.rocksdb_files import RocksDBFiles
rocksdict.Rdict(str(home / "kv"), rocksdict.Options(raw_mode=True)).close()
with RocksDBFiles(home / "kv"):
    die()
""",
}
"""What dies in the middle, or ends."""


@pytest.mark.spec("MIG-16", "LGS-16")
@pytest.mark.parametrize("unfinished", UNFINISHED)
def test_what_the_killed_left_goes_with_the_next(tmp_path: Path, unfinished: str) -> None:
    """Each process that was killed left its copies of a store among the temporary files, for good.

    Only imports of databases removed what their like had left. Now each that needs such files
    removes those of processes that are gone, whatever these did.
    """
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    program = BEGUN + UNFINISHED[unfinished]
    killed = run(program, temporary, tmp_path, "killed")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    left = list(temporary.iterdir())
    assert left
    assert all((each / LOCK_FILE).is_file() for each in left)
    again = run(program, temporary, tmp_path, "again")

    assert again.returncode == 0, again.stderr
    assert list(temporary.iterdir()) == []


@pytest.mark.spec("LGS-16")
def test_what_others_use_stays(tmp_path: Path) -> None:
    """Two of one process have directories of their own; in a child of theirs, neither goes."""
    with scratch_directory(tmp_path) as mine, scratch_directory(tmp_path) as another:
        there = sorted(tmp_path.iterdir())
        assert there == sorted([mine.parent, another.parent])
        child = os.fork()
        if not child:
            with scratch_directory(tmp_path):
                os._exit(0)
        os.waitpid(child, 0)
        with scratch_directory(tmp_path):
            pass  # removes what the child has left

        assert sorted(tmp_path.iterdir()) == there
    assert list(tmp_path.iterdir()) == []


def test_what_has_no_lock_stays(tmp_path: Path) -> None:
    """Only what had a lock is known to be ours, and to be abandoned."""
    strange = [tmp_path / "statestores-scratch-1", tmp_path / "statestores-scratch-2"]
    strange[0].mkdir()
    strange[1].touch()
    with scratch_directory(tmp_path):
        pass

    assert sorted(tmp_path.iterdir()) == strange


def test_a_directory_that_cannot_be_made_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where temporary files would be there is no directory, or nowhere takes one."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(StorageError, match="cannot make a directory in"), scratch_directory():
        pass
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", list)
    with pytest.raises(StorageError, match="by the environment's TMPDIR"), scratch_directory():
        pass
