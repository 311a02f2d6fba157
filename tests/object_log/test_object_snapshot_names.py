"""Which objects are snapshots, which of them count, and what is removed."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.arrow.progress import Meter
from statestores.arrow.snapshots import object_snapshots
from statestores.arrow.snapshots.checked_json import with_checksum
from statestores.arrow.snapshots.object_snapshots import ObjectSnapshots
from statestores.arrow.snapshots.snapshot import committed_content
from statestores.errors import (
    CommitInDoubtError,
    SnapshotCorruptedError,
    StorageError,
    StoreNotFoundError,
)
from statestores.failpoints import arm, disarm
from statestores.reading.partition_places import ObjectPartition, snapshots_of
from statestores.storage import Listed
from statestores.storage.obstore_driver import ObstoreStorage

WORDS = ss.TopicPartition("words", 0)
FAR_AHEAD_MS = 1 << 60


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    """Leave nothing armed for the next test."""
    yield
    disarm()


def _owner(root: ss.StateRoot, directory: Path) -> Any:
    return ss.open_logged_store(root, "counts", 0, directory=directory, backend="sqlite")


def _write(counts: Any, found: ObjectSnapshots, **options: Any) -> Any:
    with committed_content(counts._bytes_store, counts.changelog_partition, 1) as rows:
        return found.write(rows, meter=Meter(None), **options)


@pytest.fixture
def found(root: ss.StateRoot) -> ObjectSnapshots:
    return snapshots_of(ObjectPartition(root.object_log("counts"), 0))


@pytest.fixture
def filled(root: ss.StateRoot, tmp_path: Path) -> ss.StateRoot:
    """A root with snapshots at the offsets 0, 1 and 2, the last one in two files."""
    with _owner(root, tmp_path / "filled") as counts:
        for number in range(3):
            counts.store.put(f"k{number}", number)
            counts.commit({WORDS: number})
            found = snapshots_of(ObjectPartition(root.object_log("counts"), 0))
            _write(counts, found, rows_per_file=2)
    return root


def _names(found: ObjectSnapshots) -> list[str]:
    names = [each.name.removeprefix(found.prefix) for each in found.log.storage.list(found.prefix)]
    return [f"{int(name[:20])}/{name.partition('/')[2]}" for name in names]


def _directory(found: ObjectSnapshots, offset: int) -> str:
    (place,) = (str(each.place) for each in found.listed() if each.offset == offset)
    return place.removeprefix(f"{found.log.storage.url}/")


def _replace(found: ObjectSnapshots, name: str, data: bytes) -> None:
    found.log.storage.delete(name)
    found.log.storage.create(name, data)


ALL = [
    *("0/data-0000.arrow", "0/manifest.json", "1/data-0000.arrow", "1/manifest.json"),
    *("2/data-0000.arrow", "2/data-0001.arrow", "2/manifest.json"),
]


@pytest.mark.spec("OBJ-37")
def test_snapshots_are_below_the_log_and_the_partition(
    filled: ss.StateRoot, found: ObjectSnapshots
) -> None:
    """In this order, so that those of a log that is gone can be told; each object has a size."""
    listed = list(found.log.storage.list("counts/snapshots/"))

    assert found.prefix == f"counts/snapshots/{found.log_id}/0/"
    assert _names(found) == ALL
    assert sorted(found.sizes()) == sorted(each.size for each in listed)


@pytest.mark.spec("OBJ-38", "SNP-7")
@pytest.mark.parametrize(
    ("to_offset", "newest"), [(None, 2), (3, 2), (2, 2), (1, 1), (0, 0), (-1, None)]
)
def test_the_newest_one_up_to_an_offset_is_found(
    filled: ss.StateRoot, found: ObjectSnapshots, to_offset: int | None, newest: int | None
) -> None:
    """That at the offset as well."""
    choice = found.newest_valid(to_offset=to_offset)

    assert (choice.snapshot and choice.snapshot.offset) == newest
    assert choice.refused == {}


@pytest.mark.spec("OBJ-38", "SNP-5")
def test_a_snapshot_that_is_not_what_its_name_says_is_refused(
    filled: ss.StateRoot, found: ObjectSnapshots
) -> None:
    """A copy under another offset, one without a file, and one that is gone since."""
    storage = found.log.storage
    newest = _directory(found, 2)
    for each in list(storage.list(f"{newest}/")):
        data: Any = storage.read(each.name)
        name = each.name.rpartition("/")[2]
        storage.create(f"{found.prefix}{7:020d}-ab/{name}", data.data)
    copy = found.listed()[-1]
    assert copy.offset == 7
    with pytest.raises(SnapshotCorruptedError, match="is named for offset 7, and says 2"):
        copy.read()
    whole = found.listed()[-2]
    storage.delete(f"{newest}/data-0001.arrow")
    with pytest.raises(SnapshotCorruptedError, match="is missing"):
        found.listed()[-2].read()
    storage.delete(f"{newest}/manifest.json")
    with pytest.raises(StoreNotFoundError, match="any more"):
        whole.read()


@pytest.mark.spec("SNP-26")
def test_old_ones_are_removed_with_all_of_their_objects(
    filled: ss.StateRoot, found: ObjectSnapshots
) -> None:
    """Their manifests go first, so that nobody finds half of one."""
    seen: list[list[str]] = []
    arm("objects.snapshot.unpublished", lambda: seen.append(_names(found)))

    assert found.remove_old(3) == 0
    assert found.remove_old(1) == 2
    assert _names(found) == ALL[-3:]
    assert seen[0] == [each for each in ALL if each != "1/manifest.json"]


@pytest.mark.spec("SNP-26")
def test_damaged_ones_go_when_one_is_whole(filled: ss.StateRoot, found: ObjectSnapshots) -> None:
    """Where none is, all of them stay: somebody may still look at them."""
    for offset in (2, 0):
        _replace(found, f"{_directory(found, offset)}/manifest.json", b"damaged" * 100)
    assert found.remove_old(5) == 2
    assert [each.offset for each in found.listed()] == [1]
    _replace(found, f"{_directory(found, 1)}/data-0000.arrow", b"damaged")
    assert found.remove_old(1) == 0
    assert [each.offset for each in found.listed()] == [1]


@pytest.mark.spec("SNP-8", "SNP-26")
def test_one_of_a_later_release_stays_and_is_not_counted(
    filled: ss.StateRoot, found: ObjectSnapshots
) -> None:
    """Nobody here knows whether it is whole."""
    name = f"{_directory(found, 2)}/manifest.json"
    data: Any = found.log.storage.read(name)
    content = json.loads(data.data) | {"format_version": 99}
    del content["crc32c"]
    _replace(found, name, with_checksum(content))

    assert found.remove_old(1) == 1
    assert [each.offset for each in found.listed()] == [1, 2]


@pytest.mark.spec("OBJ-39")
def test_a_vacuum_removes_what_does_not_count_and_is_old(
    filled: ss.StateRoot, found: ObjectSnapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The void that it puts goes with the next one. An attempt is as old as its newest object."""
    directory = _directory(found, 2)
    found.log.storage.delete(f"{directory}/manifest.json")
    listing = ObstoreStorage.list

    def aged(self: ObstoreStorage, prefix: str) -> Iterator[Listed]:
        for number, each in enumerate(listing(self, prefix)):
            yield each._replace(modified_ms=100 + number)

    monkeypatch.setattr(ObstoreStorage, "list", aged)
    newest_ms = 100 + len(ALL) - 2
    assert found.vacuum(newest_ms) == 0
    seen: list[list[str]] = []
    arm("objects.snapshot.voided", lambda: seen.append(_names(found)))
    assert found.vacuum(newest_ms + 1) == 2
    assert seen == [ALL]
    assert _names(found) == [*ALL[:4], "2/manifest.json"]
    assert [each.offset for each in found.listed()] == [0, 1]
    assert found.vacuum(FAR_AHEAD_MS) == 1
    assert _names(found) == ALL[:4]
    assert len(seen) == 1


@pytest.mark.spec("OBJ-37", "OBJ-41")
def test_files_pass_through_one_place_one_at_a_time(
    root: ss.StateRoot, found: ObjectSnapshots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a snapshot larger than the disk can be written; it counts with its manifest."""
    local = tmp_path / "scratch"
    local.mkdir()

    @contextmanager
    def scratch() -> Iterator[Path]:
        yield local

    monkeypatch.setattr(object_snapshots, "scratch_directory", scratch)
    left: list[list[Path]] = []
    counted: list[tuple[str, int]] = []
    with _owner(root, tmp_path / "a") as counts:
        for number in range(3):
            counts.store.put(f"k{number}", number)
        counts.commit({WORDS: 1})
        arm("objects.snapshot.put", lambda: left.append(list(local.iterdir())))
        _write(counts, found, rows_per_file=1)
        disarm()
        found.remove_old(0)
        for each in list(found.log.storage.list(found.prefix)):
            found.log.storage.delete(each.name)
        for name in ("objects.snapshot.complete", "objects.snapshot.published"):
            arm(name, lambda name=name: counted.append((name, len(found.listed()))))  # type: ignore[misc]
            _write(counts, found)
            disarm()
            for each in list(found.log.storage.list(found.prefix)):
                found.log.storage.delete(each.name)

    assert left == [[], [], []]
    assert counted == [("objects.snapshot.complete", 0), ("objects.snapshot.published", 1)]


@pytest.mark.spec("OBJ-37")
def test_what_hinders_a_snapshot_is_told(
    root: ss.StateRoot, found: ObjectSnapshots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk by its directory, and an object store that does not answer by the object."""
    with _owner(root, tmp_path / "a") as counts:
        counts.store.put("a", 1)
        counts.commit({WORDS: 1})
        with monkeypatch.context() as patched:
            patched.setattr(object_snapshots, "write_files", _no_room)
            with pytest.raises(StorageError, match=r"cannot write a snapshot into '/.*no room"):
                _write(counts, found)

        def no_answer(*_: object) -> bool:
            raise CommitInDoubtError("who knows")

        monkeypatch.setattr(object_snapshots, "run", no_answer)
        with pytest.raises(StorageError, match=r"cannot write the snapshot's .*data-0000\.arrow"):
            _write(counts, found)


def _no_room(*_: object) -> Iterator[Any]:
    raise OSError(28, "no room")
