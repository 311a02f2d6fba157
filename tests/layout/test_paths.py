"""Paths that are none of this machine, and directories that are something else already.

``StateRoot.create("s3://bucket/root")`` succeeded and made a folder named ``s3:`` in the working
directory: the state was on the machine's own disk and gone with it. ``open_store(<state root>)``
succeeded as well, and wrote an engine beside ``statestores.json``. Both are refused by name. Where
state roots are opened, the URLs of object stores are what they say by now (spec/23).
"""

from collections.abc import Callable
from pathlib import Path

import pytest

import statestores as ss
from statestores.arrow import (
    list_snapshots,
    newest_valid_snapshot,
    read_snapshot,
    write_snapshot,
)
from statestores.changelog import ChangelogReader, FileChangelog
from statestores.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    StorageError,
    StoreMismatchError,
)
from statestores.tasks import LocalDirectory
from statestores_conformance.many_cases import for_each

OTHER_URLS = ["file:///tmp/root", "hdfs://host/root", Path("webhdfs://host/root")]
URLS = ["s3://bucket/root", Path("gs://bucket/root"), *OTHER_URLS]

TAKES_OBJECT_STORES = {"StateRoot.create", "StateRoot.open", "open_logged_store"}

TAKERS: dict[str, Callable[[str], object]] = {
    "StateRoot.create": ss.StateRoot.create,
    "StateRoot.open": ss.StateRoot.open,
    "open_store": lambda path: ss.open_store(path, ss.KeyValue("counts")),
    "open_existing": ss.open_existing,
    "open_logged_store": lambda path: ss.open_logged_store(path, "counts", 0),
    "LocalDirectory": LocalDirectory,
    "FileChangelog.create": lambda path: FileChangelog.create(path, "key-value"),
    "FileChangelog.open": lambda path: FileChangelog.open(path, "key-value"),
    "ChangelogReader.open": lambda path: ChangelogReader.open(path, "key-value"),
    "list_snapshots": list_snapshots,
    "newest_valid_snapshot": newest_valid_snapshot,
    "read_snapshot": read_snapshot,
}


@pytest.mark.spec("LAY-27")
@for_each("taker", TAKERS)
def test_a_path_is_one_of_this_machine(
    taker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A URL, a NUL character, nothing, bytes and None are refused, and nothing is made."""
    monkeypatch.chdir(tmp_path)
    take: Callable[..., object] = TAKERS[taker]
    for url in OTHER_URLS if taker in TAKES_OBJECT_STORES else URLS:
        with pytest.raises(InvalidArgumentError, match="local or mounted"):
            take(url)
    with pytest.raises(InvalidArgumentError, match="NUL"):
        take("a\0b")
    # A variable that is not set: a store was made in the working directory.
    with pytest.raises(InvalidArgumentError, match="is empty"):
        take("")
    for wrong in (None, b"bytes", 7, ["list"]):
        with pytest.raises(InvalidTypeError, match="PathLike"):
            take(wrong)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.spec("LAY-27")
@for_each("taker", TAKERS)
def test_a_path_that_no_file_system_can_have_is_refused(
    taker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was the system's words, or advice for a disk that has failed: now it is what to do."""
    monkeypatch.chdir(tmp_path)
    for path in ("x" * 4_000, "/".join(["x" * 100] * 400)):
        with pytest.raises(InvalidArgumentError, match="give a shorter one"):
            TAKERS[taker](path)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.spec("ENG-49", "LAY-27")
@pytest.mark.parametrize("backend", ["rocksdb", "leveldb", "sqlite"])
def test_a_relative_path_is_that_of_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    """A program changed its working directory with a store open, as daemons and notebooks do.

    RocksDB then reported damage and said to restore; LevelDB took no more batches; SQLite could not
    read. Where the other directory had one of the same name, files of one engine went into it. What
    is made later, segments and snapshots too, is where the rest is.
    """
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    for place in (home, elsewhere):
        place.mkdir()
    monkeypatch.chdir(home)
    root = ss.StateRoot.create("root")
    root.add_store(ss.KeyValue("counts"), partitions=1)
    with ss.open_logged_store(root, ss.KeyValue("counts"), backend=backend) as store:
        monkeypatch.chdir(elsewhere)
        for number in range(3):
            store.store.put(b"%d" % number, b"v" * 100_000)
            store.commit({})
        write_snapshot(store.store, snapshots := Path("snapshots"))
        monkeypatch.chdir(home)
    root = ss.StateRoot.open("root")
    monkeypatch.chdir(elsewhere)
    with ss.open_logged_store(root, "counts") as store:
        assert [key for key, _ in store.store.range()] == [b"0", b"1", b"2"]
    with ss.open_logged_store(home / "root", "counts") as store:
        assert [key for key, _ in store.store.range()] == [b"0", b"1", b"2"]

    assert list(elsewhere.iterdir()) == [elsewhere / snapshots]
    assert list_snapshots(elsewhere / snapshots)


@pytest.mark.spec("LAY-27")
def test_a_relative_path_in_a_directory_that_is_gone_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows where it would be; the error was the system's, from the middle of `Path`."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(StorageError, match=r"working directory cannot be told.*absolute path"):
        ss.open_store("store", ss.KeyValue("counts"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.spec("LAY-27")
@pytest.mark.parametrize("below", [".", "below"])
def test_a_link_that_leads_nowhere_is_named(tmp_path: Path, below: str) -> None:
    """The error said "File exists", and to check the rights and the space on the disk."""
    link = tmp_path / "link"
    link.symlink_to("nowhere")
    with pytest.raises(StorageError, match=r"link' is a link to 'nowhere', .*; make that"):
        ss.StateRoot.create(link / below)

    assert list(tmp_path.iterdir()) == [link]


@pytest.mark.spec("LAY-27", "OBJ-20")
@pytest.mark.parametrize("url", ["s3://bucket/root", Path("gs://bucket/root"), "memory://m/root"])
def test_a_root_that_is_a_url_needs_a_directory(
    url: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says so before anybody is asked over the network, and makes no folder of that name."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgumentError, match="directory of this machine"):
        ss.open_logged_store(url, "counts", 0)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.spec("LAY-27")
def test_a_snapshot_goes_to_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It went into a folder named ``s3:``."""
    monkeypatch.chdir(tmp_path)
    with (
        ss.open_store("s", ss.KeyValue("counts"), backend="memory") as store,
        pytest.raises(InvalidArgumentError, match="local or mounted"),
    ):
        write_snapshot(store, "s3://bucket/snapshots")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.spec("LAY-27")
@pytest.mark.parametrize("backend", ["sqlite", "memory"])
def test_a_state_root_is_no_store(tmp_path: Path, backend: str) -> None:
    """Nor is a store's directory in it; the error says what opens a partition."""
    root = ss.StateRoot.create(tmp_path)
    root.add_store(ss.KeyValue("counts"), partitions=1)
    before = sorted(tmp_path.rglob("*"))
    for path in (tmp_path, tmp_path / "counts"):
        with pytest.raises(StoreMismatchError, match="open_logged_store"):
            ss.open_store(path, ss.KeyValue("counts"), backend=backend)

    assert sorted(tmp_path.rglob("*")) == before
    with ss.open_store(tmp_path / "counts" / "0", ss.KeyValue("counts"), backend=backend) as store:
        assert store.name == "counts"


@pytest.mark.spec("LAY-27")
def test_a_store_is_no_state_root(tmp_path: Path) -> None:
    """The other way round: a root was made in the directory of a single store."""
    ss.open_store(tmp_path, ss.KeyValue("counts"), backend="sqlite").close()

    with pytest.raises(StoreMismatchError, match="single store"):
        ss.StateRoot.create(tmp_path)
