"""The objects of one snapshot: what is read of them, how often, and what is kept."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import google_crc32c
import pyarrow as pa
import pytest

from statestores.arrow.snapshots import object_files
from statestores.arrow.snapshots.manifest import MANIFEST_NAME, BatchPlace, FileEntry
from statestores.arrow.snapshots.object_files import ObjectFiles, _together
from statestores.errors import SnapshotCorruptedError
from statestores.storage import ObjectStorage, open_storage

DATA = {"one": bytes(range(100)), "two": bytes(range(100, 160)), "three": bytes(range(60, 100))}


class Counting:
    """An object store that notes what is read of it."""

    def __init__(self, storage: ObjectStorage) -> None:
        self.storage = storage
        self.read_names: list[str] = []
        self.ranges: list[tuple[int, int]] = []

    def read(self, name: str) -> Any:
        """Read the object, and note its name."""
        self.read_names.append(name.rpartition("/")[2])
        return self.storage.read(name)

    def read_range(self, name: str, start: int, length: int) -> bytes | None:
        """Read the part, and note where it is."""
        self.ranges.append((start, length))
        return self.storage.read_range(name, start, length)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.storage, name)


def _entry(name: str) -> FileEntry:
    data = DATA[name]
    return FileEntry(name=name, bytes=len(data), crc32c=google_crc32c.value(data), batches=())


def _places(*places: tuple[int, int]) -> list[tuple[int, BatchPlace]]:
    return [(n, BatchPlace(at=at, bytes=size, crc32c=0)) for n, (at, size) in enumerate(places)]


def _found(messages: Iterator[tuple[int, pa.Buffer]]) -> list[tuple[int, bytes]]:
    return [(number, message.to_pybytes()) for number, message in messages]


def _parts(places: Sequence[tuple[int, BatchPlace]]) -> list[list[int]]:
    return [[number for number, _ in part] for part in _together(places)]


@pytest.fixture
def storage(url: str) -> Counting:
    """Put each of `DATA` below ``s``."""
    counting: Any = Counting(open_storage(url))
    for name, data in DATA.items():
        counting.create(f"s/{name}", data)
    made: Counting = counting
    return made


@pytest.fixture
def files(storage: Any) -> ObjectFiles:
    return ObjectFiles(storage, "s", {name: len(data) for name, data in DATA.items()})


@pytest.mark.spec("OBJ-41")
def test_what_was_checked_is_not_read_again(files: ObjectFiles, storage: Counting) -> None:
    """Nor a part of it; a part of what was not is a request of its own."""
    one = _entry("one")
    assert _found(files.messages(one, _places((10, 5)))) == [(0, DATA["one"][10:15])]
    files.check_sum(one)
    with files.open(one) as file:
        assert file.read() == DATA["one"]
    assert _found(files.messages(one, _places((20, 5), (40, 3)))) == [
        (0, DATA["one"][20:25]),
        (1, DATA["one"][40:43]),
    ]

    assert (storage.read_names, storage.ranges) == (["one"], [(10, 5)])
    assert files.place == f"{storage.storage.url}/s"


@pytest.mark.spec("OBJ-41")
def test_only_so_much_is_kept_in_memory(
    files: ObjectFiles, storage: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the byte; the rest is on disk, and of where there is no room it is read again."""
    on_disk: list[int] = []

    def no_room(data: bytes) -> Any:
        on_disk.append(len(data))
        raise OSError(28, "no room")

    monkeypatch.setattr(object_files, "_on_disk", no_room)
    monkeypatch.setattr(object_files, "KEPT_BYTES", 140)
    for name in ("one", "two", "three", "one", "three", "two"):
        files.check_sum(_entry(name))

    assert on_disk == [60, 60]
    assert storage.read_names == ["one", "two", "three", "two"]


@pytest.mark.spec("OBJ-38", "SNP-5")
def test_objects_that_are_not_as_they_were_listed_are_refused(
    storage: Counting, files: ObjectFiles
) -> None:
    """By their sizes before they are read, and as they are read; and when they are gone."""
    one, cut = _entry("one"), replace(_entry("one"), bytes=99)
    for asked in (
        lambda: files.check_size(cut),
        lambda: files.check_sum(cut),
        lambda: list(files.messages(cut, _places((0, 5)))),
    ):
        with pytest.raises(SnapshotCorruptedError, match="has 100 bytes, and the manifest 99"):
            asked()
    assert (storage.read_names, storage.ranges) == ([], [])
    storage.storage.delete("s/one")
    storage.storage.create("s/one", DATA["one"][:50])
    with pytest.raises(SnapshotCorruptedError, match="has 50 bytes, and the manifest 100"):
        files.check_sum(one)
    with pytest.raises(SnapshotCorruptedError, match="has 95 bytes, and the manifest 100"):
        list(files.messages(one, _places((45, 10))))
    storage.storage.delete("s/one")
    with pytest.raises(SnapshotCorruptedError, match="is missing"):
        files.check_sum(one)
    with pytest.raises(SnapshotCorruptedError, match="is missing"):
        list(files.messages(one, _places((45, 10))))
    with pytest.raises(SnapshotCorruptedError, match="is missing"):
        files.check_size(replace(one, name="other"))


def test_a_snapshot_is_there_as_long_as_its_manifest(storage: Counting, files: ObjectFiles) -> None:
    """It goes first, and is put last."""
    assert files.is_there() is False
    storage.storage.create(f"s/{MANIFEST_NAME}", b"{}")
    assert files.is_there() is True


@pytest.mark.spec("OBJ-37", "SNP-23")
def test_neighbours_are_read_at_once(
    files: ObjectFiles, storage: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to so many bytes; what does not follow is another request."""
    monkeypatch.setattr(object_files, "_MOST_AT_ONCE_BYTES", 30)
    assert _parts([]) == []
    assert _parts(_places((0, 10), (10, 10), (20, 10))) == [[0, 1, 2]]
    assert _parts(_places((5, 10), (15, 10), (25, 11))) == [[0, 1], [2]]
    assert _parts(_places((0, 10), (11, 10), (21, 1))) == [[0], [1, 2]]
    assert _parts(_places((0, 50), (50, 50))) == [[0], [1]]

    places = _places((5, 10), (15, 12), (27, 11), (40, 5))
    assert _found(files.messages(_entry("one"), places)) == [
        (number, DATA["one"][place.at : place.at + place.bytes]) for number, place in places
    ]
    assert storage.ranges == [(5, 22), (27, 11), (40, 5)]
