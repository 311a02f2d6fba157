"""A disk that is really full, or really read-only: an error, and all that was committed.

The disk is a small file system in memory, which only root may mount; elsewhere these tests are
skipped by name. The tests of each format have the same by failing calls, everywhere.
"""

import os
import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from lives import INPUT

import statestores as ss
from statestores.arrow import list_snapshots, write_snapshot
from statestores.changelog import ChangelogReader, FileChangelog, change_schema
from statestores.errors import MissingDriverError, StateStoreError, StorageError
from statestores.files.durable_json import read_json, write_json
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.spi import KeyValueStore
from statestores.staging.staged_write import publish, stage
from statestores.staging.write_intent import read_intent
from statestores.tasks import open_task

_DISK_BYTES = 56 * 1024 * 1024
_VALUE_BYTES = 100_000
_RESERVE_BYTES = 28 * 1024 * 1024
"""Given back when the disk is full: engines need room to recover."""

_LOG = ss.TopicPartition("log", 0)


def _mount(*arguments: str) -> None:
    subprocess.run(["/bin/mount", *arguments], check=True, capture_output=True)


class Disk:
    """A small file system, with a reserve that can be given back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self, leave: int = 0) -> None:
        """Fill it up to *leave* bytes."""
        free = os.statvfs(self.path)
        with self._ballast.open("ab") as ballast:
            ballast.write(bytes(max(0, free.f_bavail * free.f_frsize - leave)))

    def reserve(self) -> None:
        """Take the reserve."""
        self._ballast.write_bytes(bytes(_RESERVE_BYTES))

    def free(self) -> None:
        """Give back what was taken."""
        self._ballast.unlink(missing_ok=True)

    def make_read_only(self) -> None:
        """Let nobody write any more."""
        _mount("-o", "remount,ro", str(self.path))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """Mount a small disk."""
    path = tmp_path / "disk"
    path.mkdir()
    if os.geteuid() != 0:
        pytest.skip("a disk of its own can only be mounted by root")
    try:
        _mount("-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "none", str(path))
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a disk cannot be mounted here: {error}")
    try:
        yield Disk(path)
    finally:
        subprocess.run(["/bin/umount", str(path)], check=True)


@pytest.fixture(params=["rocksdb", "leveldb", "sqlite"])
def backend(request: pytest.FixtureRequest) -> str:
    """Give each backend that writes files."""
    name: str = request.param
    try:
        load_backend(name)
    except MissingDriverError as error:
        pytest.skip(str(error))
    return name


def _open(backend: str, path: Path) -> KeyValueStore[bytes, bytes]:
    return open_on_engine(load_backend(backend).open(path), ss.KeyValue("full"))


def _number(store: KeyValueStore[bytes, bytes]) -> int:
    """Return how many commits the store holds; each has put one key and advanced the position."""
    committed = store.committed_offset(_LOG)
    count = 0 if committed is None else committed + 1

    assert [key for key, _ in store.range()] == [b"%05d" % number for number in range(count)]
    assert store.position.get(INPUT) == committed
    return count


def _commit_until_it_fails(store: KeyValueStore[bytes, bytes], start: int) -> int:
    """Commit incompressible values until the disk is full; return how many commits returned."""
    dice = random.Random(start)
    for number in range(start, start + 2 * _DISK_BYTES // _VALUE_BYTES):
        store.put(b"%05d" % number, dice.randbytes(_VALUE_BYTES))
        store.advance_position({INPUT: number})
        try:
            store.commit({_LOG: number})
        except StorageError:
            return number
    raise AssertionError("the disk is never full")


@pytest.mark.spec("ENG-16", "ENG-28", "COM-9", "COM-22", "COM-43")
def test_a_full_disk_costs_a_store_nothing_that_was_committed(backend: str, disk: Disk) -> None:
    """Every commit that returned is there; the one that failed is there whole, or not at all."""
    disk.reserve()
    with _open(backend, disk.path / "engine") as store:
        promised = _commit_until_it_fails(store, 0)
        disk.fill()
        with pytest.raises(StateStoreError):
            store.commit({_LOG: promised})
    disk.free()
    with _open(backend, disk.path / "engine") as store:
        found = _number(store)
        store.put(b"%05d" % found, b"v")
        store.advance_position({INPUT: found})
        store.commit({_LOG: found})

        assert found in (promised, promised + 1)
        assert _number(store) == found + 1


@pytest.mark.spec("ENG-28", "ENG-31", "COM-27")
def test_a_read_only_disk_is_an_error_that_changes_nothing(backend: str, disk: Disk) -> None:
    """Neither a new store nor an old one opens, and both errors are ours."""
    with _open(backend, disk.path / "engine") as store:
        store.put(b"k", b"v")
        store.commit({_LOG: 0})
    files = {path: path.stat() for path in disk.path.rglob("*")}
    disk.make_read_only()
    for name in ("engine", "new"):
        with pytest.raises(StateStoreError):
            _open(backend, disk.path / name)

    assert {path: path.stat().st_mtime_ns for path in disk.path.rglob("*")} == {
        path: stat.st_mtime_ns for path, stat in files.items()
    }


@pytest.mark.spec("LOG-14")
@pytest.mark.parametrize("room", [0, 50_000])
def test_a_changelog_on_a_full_disk_goes_on_when_there_is_room(disk: Disk, room: int) -> None:
    """What an append has written before it failed does not stay."""
    with FileChangelog.create(disk.path / "log", "key-value") as log:
        log.append(ss.Changes([b"k"], [b"1"]))
        disk.fill(room)
        for _ in range(2):
            with pytest.raises(StorageError):
                log.append(ss.Changes([b"k"], [random.Random(1).randbytes(1_000_000)]))
        disk.free()
        log.append(ss.Changes([b"k"], [b"2"]))
    with ChangelogReader.open(disk.path / "log") as reader:
        values = [value for frame in reader.read() for value in frame.changes.values]

    assert values == [b"1", b"2"]


@pytest.mark.spec("SNP-2")
@pytest.mark.parametrize("room", [0, 200_000])
def test_a_snapshot_on_a_full_disk_does_not_appear(disk: Disk, room: int) -> None:
    """Nor does anything stay of it; with room again it is written."""
    with _open("memory", disk.path) as store:
        for number in range(20):
            store.put(b"%05d" % number, random.Random(number).randbytes(_VALUE_BYTES))
        store.commit({_LOG: 1})
        disk.fill(room)
        with pytest.raises(StorageError):
            write_snapshot(store, disk.path / "snapshots")

        assert list_snapshots(disk.path / "snapshots") == {}
        assert [path for path in disk.path.rglob("*") if path.is_file()] == [disk.path / "ballast"]
        disk.free()
        assert write_snapshot(store, disk.path / "snapshots").rows == 20


def test_a_small_file_on_a_full_disk_stays_as_it_was(disk: Disk) -> None:
    """It is replaced by a whole one, or not."""
    file = disk.path / "small.json"
    write_json(file, {"number": 1})
    disk.fill()
    with pytest.raises(StorageError):
        write_json(file, {"number": 2, "filler": "x" * 100_000})

    assert read_json(file) == {"number": 1}
    disk.free()
    assert sorted(path.name for path in disk.path.iterdir()) == ["small.json"]


def test_a_staged_write_on_a_full_disk_has_not_happened(disk: Disk) -> None:
    """Neither the rows of a task nor the intent find room; later the same write succeeds."""
    root = ss.StateRoot.create(disk.path / "state")
    specification = ss.KeyValue("wide")
    root.add_store(specification, partitions=2)
    rows = [{"key": b"%d" % n, "value": random.Random(n).randbytes(20_000)} for n in range(20)]
    batch = pa.RecordBatch.from_pylist(rows, schema=change_schema(specification.kind))
    disk.fill(100_000)
    with pytest.raises(StorageError):
        stage(root.path, specification, 2, "one", "task-0", [batch])
    disk.free()
    staged = stage(root.path, specification, 2, "one", "task-1", [batch])
    disk.fill()
    with pytest.raises(StorageError):
        publish(root, "wide", "one", [staged])

    assert read_intent(root.path / "wide") is None
    disk.free()
    assert publish(root, "wide", "one", [staged]).rows == 20


@pytest.mark.spec("COM-27", "TSK-3")
@pytest.mark.parametrize("state", ["full", "read-only"])
def test_what_opens_on_a_disk_without_room_fails_in_our_words_and_opens_later(
    disk: Disk, state: str
) -> None:
    """A root, a logged store and a task: nothing comes out raw, and nothing stays in the way."""
    root = ss.StateRoot.create(disk.path / "state")
    for name in ("one", "two"):
        root.add_store(ss.KeyValue(name), partitions=1)
    disk.fill()
    if state == "read-only":
        disk.make_read_only()
    doors: list[Callable[[], object]] = [
        lambda: ss.StateRoot.create(disk.path / "other"),
        lambda: root.add_store(ss.KeyValue("three"), partitions=1),
        lambda: ss.open_logged_store(root, "one", 0, backend="sqlite"),
        lambda: open_task(root, "0_0", ["one", "two"], backend="sqlite"),
    ]
    for door in doors:
        with pytest.raises(StorageError):
            door()
    if state == "read-only":
        _mount("-o", "remount,rw", str(disk.path))
    disk.free()
    ss.StateRoot.create(disk.path / "other")
    with open_task(root, "0_0", ["one", "two"], backend="sqlite") as task:
        for logged in task.stores.values():
            logged.store.put(b"k", b"v")
        task.commit({INPUT: 1})
        assert task.snapshot() == {"one": 0, "two": 0}
