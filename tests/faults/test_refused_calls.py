"""What the operating system refuses, at doors where it once came out raw, or did harm.

Each was found by `test_failing_calls.py`, or by looking for more of the same. That net has them all
in a soak run; here each has its story.
"""

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count, product
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.arrow import list_snapshots, remove_stale_temporaries, write_snapshot
from statestores.changelog import ChangelogReader, FileChangelog, compact
from statestores.errors import MissingDriverError, StateStoreError, StorageError, StoreLockedError
from statestores.files.directory_lock import DirectoryLock
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.staging.unfinished_write import finish_staged_writes
from statestores.tasks.local_directory import LocalDirectory
from statestores_memory import MemoryEngine

_LOG = ss.TopicPartition("log", 0)


def refusing(
    function: Callable[..., Any], wanted: Callable[..., bool], number: int = errno.EIO
) -> Callable[..., Any]:
    """Return *function*, which the operating system refuses where *wanted* says so."""

    def refuse(*arguments: Any, **named: Any) -> Any:
        if wanted(*arguments):
            raise OSError(number, os.strerror(number), str(arguments[0]))
        return function(*arguments, **named)

    return refuse


def test_a_state_root_that_cannot_be_seen_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state root of which the disk could not say whether it was there lost its stores.

    `StateRoot.create` asked `os.path.lexists`, which takes every error for "no", and wrote an empty
    ``statestores.json`` over the one that named the stores. Now what cannot be told is an error.
    """
    root = ss.StateRoot.create(tmp_path / "root")
    root.add_store(ss.KeyValue("counts"), partitions=1)
    before = (root.path / "statestores.json").read_bytes()
    with monkeypatch.context() as patch:
        for name in ("stat", "lstat"):
            refused = refusing(getattr(os, name), lambda path: "statestores.json" in str(path))
            patch.setattr(os, name, refused)
        with pytest.raises(StorageError, match=r"cannot look for .*statestores\.json"):
            ss.StateRoot.create(root.path)

    assert (root.path / "statestores.json").read_bytes() == before


@pytest.mark.spec("SNP-2")
@pytest.mark.usefixtures("no_descriptor_leaks")
def test_a_temporary_snapshot_that_cannot_be_removed_is_not_locked_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a snapshot failed on a disk that had become read-only, a descriptor stayed open.

    It held the lock of the temporary directory, so that nobody could remove that while the process
    lived, and each attempt left one more. The lock is given up now, and the next clean-up removes
    what is there.
    """
    directory = tmp_path / "snapshots"
    directory.mkdir()
    store = open_on_engine(MemoryEngine.open(""), ss.KeyValue("counts"))
    store.put(b"k", b"v")
    store.commit({_LOG: 1})
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refusing(os.fsync, lambda _: True))
        patch.setattr(os, "rmdir", refusing(os.rmdir, lambda *_: True, errno.EROFS))
        with pytest.raises(StorageError):
            write_snapshot(store, directory)
    left = list(directory.iterdir())

    assert len(left) == 1
    assert remove_stale_temporaries(directory) == left
    assert list_snapshots(directory) == {}
    store.close()


@pytest.mark.usefixtures("no_descriptor_leaks")
def test_a_snapshot_whose_directory_cannot_be_locked_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system without locks refused ``flock``, and the descriptor was forgotten."""
    store = open_on_engine(MemoryEngine.open(""), ss.KeyValue("counts"))
    store.put(b"k", b"v")
    store.commit({_LOG: 1})
    monkeypatch.setattr(fcntl, "flock", refusing(fcntl.flock, lambda *_: True, errno.ENOLCK))
    with pytest.raises(StorageError):
        write_snapshot(store, tmp_path / "snapshots")
    store.close()


@pytest.mark.usefixtures("no_descriptor_leaks")
def test_an_owner_whose_name_cannot_be_read_is_one_nevertheless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock was held, its file could not be read, and the ``OSError`` came out raw."""
    lock = DirectoryLock.acquire(tmp_path)
    monkeypatch.setattr(os, "pread", refusing(os.pread, lambda *_: True))
    with pytest.raises(StoreLockedError, match="cannot be read"):
        DirectoryLock.acquire(tmp_path)
    lock.release()


def test_what_cannot_be_looked_at_of_a_changelog_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Listing leftovers, measuring and looking at a segment raised ``OSError`` of their own."""
    directory = tmp_path / "log"
    with FileChangelog.create(directory, "key-value") as log:
        for number in range(2):
            log.append(ss.Changes([b"k"], [b"%d" % number]))
            log.seal()
        with monkeypatch.context() as patch:
            patch.setattr(os, "stat", refusing(os.stat, lambda path: str(path).endswith(".log")))
            with pytest.raises(StorageError, match="cannot look at"):
                compact(log)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fstat", refusing(os.fstat, lambda _: True))
            with pytest.raises(StorageError, match="cannot look at"):
                ChangelogReader.open(directory)
    listed = iter([False, False, True])
    monkeypatch.setattr(os, "listdir", refusing(os.listdir, lambda _: next(listed, True)))
    with pytest.raises(StorageError, match="cannot list"):
        FileChangelog.open(directory, "key-value")


@pytest.mark.spec("LOG-15", "LOG-20")
def test_a_segment_of_which_nobody_knows_whether_it_is_there_stops_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A roll failed, and so did the look whether the new segment was there.

    That came out raw, and appends to the old segment went on, which overlap with the new one. What
    cannot be told counts as there.
    """
    with FileChangelog.create(tmp_path, "key-value") as log:
        log.append(ss.Changes([b"k"], [b"1"]))
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", refusing(os.fsync, lambda _: True))
            for name in ("stat", "lstat"):
                patch.setattr(
                    os, name, refusing(getattr(os, name), lambda path: str(path).endswith(".log"))
                )
            with pytest.raises(StorageError, match="make durable"):
                log.seal()
        with pytest.raises(StorageError, match="no more appends"):
            log.append(ss.Changes([b"k"], [b"2"]))


def test_directories_that_cannot_be_looked_into_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Staged writes, local engines and their sizes: each asked the disk outside of any net."""
    root = ss.StateRoot.create(tmp_path / "root")
    root.add_store(ss.KeyValue("counts"), partitions=1)
    local = LocalDirectory(tmp_path / "local")
    (tmp_path / "local" / "counts" / "0" / "engine").mkdir(parents=True)
    (tmp_path / "local" / "strange").mkdir()
    (tmp_path / "local" / "strange" / "file").write_bytes(b"x")
    for looked_at, look in (
        (".writes", lambda: finish_staged_writes(root, "counts")),
        ("engine", local.engines),
        ("file", lambda: local.orphans(root)),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(
                os, "stat", refusing(os.stat, lambda path, end=looked_at: str(path).endswith(end))
            )
            with pytest.raises(StorageError, match="cannot look into"):
                look()


@pytest.mark.spec("ENG-31")
@pytest.mark.usefixtures("no_descriptor_leaks")
@pytest.mark.parametrize("backend", ["rocksdb", "leveldb", "sqlite"])
def test_an_engine_that_cannot_look_at_its_files_says_so_in_our_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    """Before a driver opens, a backend looks at its files; some looks raised ``OSError``.

    Every call of each function fails once, the first, the second, and so on; afterwards the engine
    opens.
    """
    try:
        engine_class = load_backend(backend)
    except MissingDriverError as error:
        pytest.skip(str(error))
    directory = tmp_path / "engine"
    engine_class.open(directory).close()
    for name, at in product(("stat", "listdir", "scandir", "open", "unlink", "rename"), range(8)):
        ours = count()

        def is_next(path: Any, *_: Any, at: int = at, ours: Iterator[int] = ours) -> bool:
            return str(path).startswith(str(directory)) and next(ours) == at

        with monkeypatch.context() as patch, suppress(StateStoreError):
            patch.setattr(os, name, refusing(getattr(os, name), is_next))
            engine_class.open(directory).close()
    engine_class.open(directory).close()


@pytest.mark.spec("ENG-28")
def test_what_the_driver_of_rocksdb_cannot_read_is_ours() -> None:
    """The driver looks for stored options itself: its ``OSError`` came out as it was."""
    failures = pytest.importorskip("statestores_rocksdb.failures")
    with pytest.raises(StorageError, match=r"cannot open .*Too many open files") as caught:
        failures.fail(OSError("Too many open files (os error 24)"), "open the database")

    assert isinstance(caught.value.__cause__, OSError)
