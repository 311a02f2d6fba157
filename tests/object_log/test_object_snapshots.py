"""Snapshots in an object store: whole or nothing, found by all readers, and never needed."""

import errno
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import invoke

import statestores as ss
from statestores.arrow.keys.key_selection import KeySelection
from statestores.arrow.progress import Meter
from statestores.arrow.snapshots.object_snapshots import ObjectSnapshots
from statestores.arrow.snapshots.snapshot import committed_content
from statestores.cli.operating.object_examination import ObjectExamination
from statestores.errors import (
    CapabilityNotSupportedError,
    FencedError,
    InvalidArgumentError,
    StorageError,
)
from statestores.failpoints import arm, disarm
from statestores.reading.partition_places import ObjectPartition, place_of, snapshots_of
from statestores.reading.partition_reader import PartitionReader
from statestores.storage import ObjectStorage
from statestores.storage.obstore_driver import ObstoreStorage
from statestores.tasks import open_standby
from statestores.upkeep import FileSnapshot, ObjectVacuum
from statestores.verification import Status, check_object_root

WORDS = ss.TopicPartition("words", 0)
AT_ONCE = -60_000
"""Everything that does not count was abandoned."""


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    """Leave nothing armed for the next test."""
    yield
    disarm()


def owner_of(root: ss.StateRoot, directory: Path, store: str = "counts") -> Any:
    """Take partition 0 of *store*."""
    return ss.open_logged_store(root, store, 0, directory=directory, backend="sqlite")


def put(counts: Any, **rows: int | None) -> None:
    """Commit each of *rows*."""
    for key, value in rows.items():
        if value is None:
            counts.store.delete(key)
        else:
            counts.store.put(key, value)
        counts.commit({WORDS: counts.position.get(WORDS, -1) + 1})


def snapshots(root: ss.StateRoot, store: str = "counts") -> ObjectSnapshots:
    """Return those of partition 0."""
    return snapshots_of(ObjectPartition(root.object_log(store), 0))


def upkeep(root: ss.StateRoot, **options: Any) -> FileSnapshot:
    """Return what writes a snapshot of partition 0 from its changelog."""
    return FileSnapshot(
        directory=place_of(root, "counts", 0),
        number=0,
        specification=root.store("counts").specification,
        **options,
    )


def content(root: ss.StateRoot, **options: Any) -> dict[str, int]:
    """Return the rows of partition 0 as readers see them."""
    reader = PartitionReader(place_of(root, "counts", 0), root.store("counts").specification)
    return {
        row["key"]: row["value"] for batch in reader.rows(**options) for row in batch.to_pylist()
    }


def objects(root: ss.StateRoot) -> list[str]:
    """Return the names below the snapshots of partition 0, without what is an attempt's own."""
    found = snapshots(root)
    names = [each.name.removeprefix(found.prefix) for each in found.log.storage.list(found.prefix)]
    return [f"{int(name[:20])}/{name.partition('/')[2]}" for name in names]


@pytest.fixture
def filled(root: ss.StateRoot, tmp_path: Path) -> ss.StateRoot:
    """A root with snapshots at the offsets 2 and 4, and two changes after them."""
    with owner_of(root, tmp_path / "filled") as counts:
        put(counts, a=1, b=2, c=3)
        counts.snapshot()
        put(counts, b=None, d=4)
        counts.snapshot()
        put(counts, a=5, e=6)
    return root


FILLED = {"a": 5, "c": 3, "d": 4, "e": 6}


@pytest.mark.spec("OBJ-37", "OBJ-38", "SNP-10")
def test_a_restore_begins_with_the_newest_snapshot(filled: ss.StateRoot, tmp_path: Path) -> None:
    """An owner elsewhere, and a copy; before and after a compaction passes the snapshots."""
    for place in ("first", "compacted"):
        with owner_of(filled, tmp_path / place) as counts:
            assert dict(counts.store.range()) == FILLED
            assert (counts.restored.snapshot_offset, counts.restored.changelog_rows) == (4, 2)
            assert counts.position == {WORDS: 6}
        with open_standby(
            filled, "counts", 0, tmp_path / f"{place}-copy", backend="sqlite"
        ) as copy:
            assert copy.poll() == 5  # 3 rows of the snapshot and 2 changes
            store: Any = copy.read_only(include_stale=True)
            assert dict(store.range()) == FILLED
        filled.object_log("counts").compact()
    with owner_of(filled, tmp_path / "first") as counts:
        assert counts.restored.snapshot_offset is None  # it has everything


@pytest.mark.spec("OBJ-25", "OBJ-38", "SNP-23")
def test_readers_begin_with_a_snapshot(filled: ss.StateRoot, tmp_path: Path) -> None:
    """Now, at an offset, of keys; and at that of a snapshot when the way to it is compacted."""
    for _ in range(2):
        assert content(filled) == FILLED
        assert content(filled, keys=KeySelection.of([b"a", b"b"])) == {"a": 5}
        assert content(filled, offset=2) == {"a": 1, "b": 2, "c": 3}
        assert content(filled, offset=4) == {"a": 1, "c": 3, "d": 4}
        filled.object_log("counts").compact()
    reader = PartitionReader(place_of(filled, "counts", 0), filled.store("counts").specification)
    pinned = PartitionReader(
        ObjectPartition(filled.object_log("counts"), 0, reader.seen, pinned=True),
        filled.store("counts").specification,
    )
    assert [each.offset for each in reader.snapshots()] == [4, 2]
    with owner_of(filled, tmp_path / "later") as counts:
        put(counts, z=1)
        counts.snapshot()
    assert content(filled)["z"] == 1
    assert sum(batch.num_rows for batch in pinned.rows()) == len(FILLED)


@pytest.mark.spec("OBJ-37", "SNP-23")
def test_a_range_of_keys_reads_parts_of_objects(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of files of several batches only those that can have them, each checked by its own sum."""
    with owner_of(root, tmp_path / "a") as counts:
        put(counts, **{f"k{number}": number for number in range(12)})
        with committed_content(counts._bytes_store, counts.changelog_partition, 2) as rows:
            written = snapshots(root).write(rows, meter=Meter(None), rows_per_file=8)
    assert written.rows == 12
    assert objects(root) == ["11/data-0000.arrow", "11/data-0001.arrow", "11/manifest.json"]
    asked: list[tuple[str, int]] = []
    ranged = ObstoreStorage.read_range

    def read_range(self: ObstoreStorage, name: str, start: int, length: int) -> bytes | None:
        asked.append((name.rpartition("/")[2], length))
        return ranged(self, name, start, length)

    monkeypatch.setattr(ObstoreStorage, "read_range", read_range)
    keys = KeySelection.of([b"k1", b"k10", b"k8"])
    assert content(root, keys=keys) == {"k1": 1, "k10": 10, "k8": 8}
    assert [name for name, _ in asked] == 2 * ["data-0000.arrow", "data-0001.arrow"]
    assert len(snapshots(root).listed()) == 1
    reader = PartitionReader(place_of(root, "counts", 0), root.store("counts").specification)
    shares = reader.shares(11, count=3)
    assert len(shares) == 3
    found = [content(root, keys=share) for share in shares]
    assert sum(map(len, found)) == 12
    assert all(found)


def _cut(storage: ObjectStorage, name: str) -> None:
    data: Any = storage.read(name)
    storage.delete(name)
    storage.create(name, data.data[:-1])


def _flip(storage: ObjectStorage, name: str) -> None:
    data: Any = storage.read(name)
    storage.delete(name)
    storage.create(name, data.data[:300] + bytes([data.data[300] ^ 1]) + data.data[301:])


@pytest.mark.spec("OBJ-38", "SNP-5", "SNP-7")
@pytest.mark.parametrize(
    ("harm", "file"),
    [
        (_cut, "data-0000.arrow"),
        (_flip, "data-0000.arrow"),
        (lambda storage, name: storage.delete(name), "data-0000.arrow"),
        (_flip, "manifest.json"),
    ],
    ids=["cut", "changed", "gone", "manifest"],
)
def test_a_damaged_snapshot_is_passed_over(
    filled: ss.StateRoot, tmp_path: Path, harm: Callable[[ObjectStorage, str], None], file: str
) -> None:
    """By an owner and by readers, for an older one; a check names it."""
    storage = filled.object_log("counts").storage
    newest = str(snapshots(filled).listed()[-1].place).removeprefix(f"{storage.url}/")
    harm(storage, f"{newest}/{file}")

    assert content(filled) == FILLED
    assert content(filled, offset=4) == {"a": 1, "c": 3, "d": 4}
    with owner_of(filled, tmp_path / "new") as counts:
        assert dict(counts.store.range()) == FILLED
        assert counts.restored.snapshot_offset == 2
    findings = check_object_root(filled, meter=Meter(None))
    (damaged,) = [each for each in findings if each.status is Status.DAMAGED]
    assert damaged.check == "snapshot"
    assert newest in str(damaged.path)
    assert snapshots(filled).present(4) is None
    found = [each.ailment.code for each in ObjectExamination(url=storage.url).symptoms()]
    assert "object-snapshot-damaged" in found
    assert invoke("snapshot", storage.url, "--keep", "2").exit_code == 0
    assert [each.offset for each in snapshots(filled).listed()] == [2, 6]
    found = [each.ailment.code for each in ObjectExamination(url=storage.url).symptoms()]
    assert found == ["misplaced-keys"]
    short = ObjectExamination(url=storage.url, with_rows=False, changes=-1).symptoms()
    assert [each.ailment.code for each in short] == ["long-restore", "long-restore"]


@pytest.mark.spec("OBJ-37", "OBJ-38")
def test_a_fenced_owner_writes_what_counted(root: ss.StateRoot, tmp_path: Path) -> None:
    """A snapshot is of an offset, and nothing of a commit that was fenced is in it."""
    with owner_of(root, tmp_path / "old") as old:
        put(old, a=1)
        with owner_of(root, tmp_path / "new") as new:
            put(new, a=2, b=2)
            with pytest.raises(FencedError):
                put(old, a=99)
            written = old.snapshot()
            assert (written.offset, written.rows, written.written) == (0, 1, True)
            with pytest.raises(CapabilityNotSupportedError, match="object store"):
                _ = written.path
            assert new.snapshot().offset == 2
            assert new.snapshot().written is False
            put(new, c=3)  # nobody has fenced it
    assert content(root, offset=0) == {"a": 1}
    with owner_of(root, tmp_path / "third") as counts:
        assert dict(counts.store.range()) == {"a": 2, "b": 2, "c": 3}


@pytest.mark.spec("OBJ-38", "SNP-25")
def test_upkeep_writes_what_the_owner_would(filled: ss.StateRoot, tmp_path: Path) -> None:
    """From the newest snapshot and the changes after it, in bounded memory, beside the owner."""
    with owner_of(filled, tmp_path / "owner") as counts:
        written = upkeep(filled, memory_bytes=1)()
        assert written is not None
        assert (written.offset, written.rows, written.written) == (6, 4, True)
        by_owner = counts.snapshot()
        assert (by_owner.place, by_owner.written) == (written.place, False)
        put(counts, z=1)
    again = upkeep(filled)()
    assert again is not None
    assert again.offset == 7
    findings = list(check_object_root(filled, meter=Meter(None)))
    assert [each.status for each in findings if each.check in {"snapshot", "content"}] == (
        8 * [Status.OK]
    )
    with pytest.raises(InvalidArgumentError, match="memory_bytes"):
        upkeep(filled, memory_bytes=0)()


@pytest.mark.spec("SNP-25")
def test_upkeep_goes_on_when_a_compaction_passes_it(
    filled: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end that it began with is none any more; the one of now is."""
    replay, log = PartitionReader.replay, filled.object_log("counts")
    with owner_of(filled, tmp_path / "owner") as counts:

        def after_a_compaction(self: PartitionReader, *arguments: Any, **options: Any) -> Any:
            monkeypatch.setattr(PartitionReader, "replay", replay)
            put(counts, a=7)
            log.compact()
            return replay(self, *arguments, **options)

        monkeypatch.setattr(PartitionReader, "replay", after_a_compaction)
        written = upkeep(filled)()

    assert written is not None
    assert written.offset == 7


@pytest.mark.spec("OBJ-39")
def test_a_writer_that_was_given_up_is_told(root: ss.StateRoot, tmp_path: Path) -> None:
    """A vacuum that takes it for dead comes first, and nothing half of it is ever seen."""
    vacuum = ObjectVacuum(log=root.object_log("counts"), abandoned_after_ms=AT_ONCE)
    with owner_of(root, tmp_path / "a") as counts:
        put(counts, a=1)
        arm("objects.snapshot.complete", vacuum)
        with pytest.raises(StorageError, match="does not count"):
            counts.snapshot()
        disarm()
        assert objects(root) == ["0/manifest.json"]
        assert snapshots(root).listed() == []
        assert content(root) == {"a": 1}
        assert counts.snapshot().written
        vacuum()
        assert objects(root) == ["0/data-0000.arrow", "0/manifest.json"]
        assert len(snapshots(root).listed()) == 1


@pytest.mark.spec("OBJ-39")
def test_a_snapshot_that_counts_meanwhile_stays(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A vacuum that has listed it without its manifest comes second."""
    listing = ObstoreStorage.list
    with owner_of(root, tmp_path / "a") as counts:
        put(counts, a=1)

        def vacuum() -> None:
            listed = [*snapshots(root).log.storage.list(snapshots(root).prefix)]
            monkeypatch.setattr(ObstoreStorage, "list", lambda self, prefix: iter(listed))

        arm("objects.snapshot.complete", vacuum)
        counts.snapshot()
        found = snapshots(root)
        assert found.vacuum(1 << 60) == 0
        monkeypatch.setattr(ObstoreStorage, "list", listing)

    assert len(snapshots(root).listed()) == 1
    assert content(root) == {"a": 1}


@pytest.mark.spec("OBJ-41")
def test_what_memory_does_not_hold_is_not_read_again(
    filled: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was checked waits on the local disk until it is loaded.

    A snapshot of more than 64 MiB was read twice, since as much was kept of what had been checked.
    """
    read, original = Counter[str](), ObstoreStorage.read

    def counted(self: ObstoreStorage, name: str, *known: Any) -> Any:
        read[name.rpartition("/")[2]] += 1
        return original(self, name, *known)

    monkeypatch.setattr("statestores.arrow.snapshots.object_files.KEPT_BYTES", 0)
    monkeypatch.setattr(ObstoreStorage, "read", counted)
    with owner_of(filled, tmp_path / "new") as counts:
        assert dict(counts.store.range()) == FILLED
        assert counts.restored.snapshot_offset == 4
    assert read["data-0000.arrow"] == 1


@pytest.mark.spec("OBJ-38", "OBJ-39")
def test_one_that_is_removed_while_it_is_loaded(filled: ss.StateRoot, tmp_path: Path) -> None:
    """An owner begins again with what is there; what has nothing to begin with reads the log."""
    storage = filled.object_log("counts").storage
    with owner_of(filled, tmp_path / "owner") as counts:
        put(counts, f=7)
    assert snapshots(filled).remove_old(1) == 1
    assert [each.offset for each in snapshots(filled).listed()] == [4]

    def remove() -> None:
        disarm()
        for each in storage.list(snapshots(filled).prefix):
            storage.delete(each.name)

    def no_room(data: bytes) -> None:
        raise OSError(errno.ENOSPC, "no room")

    monkey = pytest.MonkeyPatch()
    monkey.setattr("statestores.arrow.snapshots.object_files.KEPT_BYTES", 0)
    monkey.setattr("statestores.arrow.snapshots.object_files._on_disk", no_room)
    arm("restore.begun", remove)
    with owner_of(filled, tmp_path / "new") as counts:
        assert dict(counts.store.range()) == {**FILLED, "f": 7}
        assert counts.restored.snapshot_offset is None
    monkey.undo()


@pytest.mark.spec("OBJ-37")
def test_snapshots_of_another_log_are_nobody_s(filled: ss.StateRoot, tmp_path: Path) -> None:
    """A log that was removed and made anew has offsets of its own."""
    storage = filled.object_log("counts").storage
    for each in storage.list("counts/"):
        if "/snapshots/" not in each.name:
            storage.delete(each.name)
    filled.object_log("counts").create()
    with owner_of(filled, tmp_path / "new") as counts:
        put(counts, x=1, y=2, z=3)

        assert content(filled) == dict(counts.store.range()) == {"x": 1, "y": 2, "z": 3}
        assert list(counts.store.range("a", "b")) == []
        assert snapshots(filled).listed() == []
