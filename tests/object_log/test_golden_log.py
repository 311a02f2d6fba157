"""A log that an earlier release has left in an object store keeps opening, byte for byte."""

import base64
import json
from pathlib import Path

import pytest

from statestores.changelog import ChangelogOptions, Compression, FrameKind
from statestores.errors import ChangelogCorruptedError, UnsupportedFormatError
from statestores.object_log import ObjectChangelog, ObjectLog
from statestores.object_log import changelog as changelog_module
from statestores.object_log import log as log_module
from statestores.object_log.documents import pack_document
from statestores.spi import Changes, Position, TopicPartition
from statestores.storage import Found, ObjectStorage, open_storage
from statestores.tasks import open_task

_GOLDEN = Path(__file__).parent / "golden" / "log.json"
_INPUT = TopicPartition("clicks", 3)
_NAMES = [
    "store/checkpoint",
    "store/own/0/00000000000000000000/00000000000000000003",
    "store/own/0/00000000000000000000/00000000000000000004",
    "store/own/0/00000000000000000002/00000000000000000000",
    "store/root/00000000000000000002",
    "store/segments/id3-0/0",
]


def _write(log: ObjectLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a log whose every byte is known: a fold, a clear, and a second owner."""
    numbers = iter(range(100))
    for module in (changelog_module, log_module):
        monkeypatch.setattr(module, "unique_id", lambda: f"id{next(numbers)}")
    log.create()
    clock = iter(range(1_356_998_400_000, 1_356_998_400_100))
    options = ChangelogOptions(compression=Compression.NONE)

    def take(partition: int) -> ObjectChangelog:
        return ObjectChangelog.take_over(
            log.reader(partition), options, clock_ms=lambda: next(clock)
        )

    owner = take(0)
    owner.append(Changes([b"a", b"b"], [b"41", None]), position=Position({_INPUT: 1000}))
    owner.append(Changes([b"a"], [b"42"]))
    owner.append_clear(position=Position({_INPUT: 1001}))
    take(1)
    log.fold()
    owner.append(Changes([b"c"], [b"43"]), position=Position({_INPUT: 1002}))
    take(0).append(Changes([], []), position=Position({_INPUT: 1003}))


def _objects(storage: ObjectStorage) -> dict[str, bytes]:
    found = {}
    for each in storage.list("store/"):
        content = storage.read(each.name)
        assert isinstance(content, Found)
        found[each.name] = content.data
    return found


def _check(log: ObjectLog) -> None:
    with log.reader(0) as reader:
        frames = list(reader.read())
        assert [(f.base_offset, f.last_offset) for f in frames] == [
            (0, 1),
            (2, 2),
            (3, 3),
            (4, 4),
            (5, 5),
        ]
        assert frames[0].changes == Changes([b"a", b"b"], [b"41", None])
        assert frames[2].kind is FrameKind.CLEAR
        assert frames[3].changes == Changes([b"c"], [b"43"])
        assert reader.position == {_INPUT: 1003}


@pytest.mark.spec("OBJ-2", "OBJ-3", "OBJ-19", "LOG-31")
def test_the_golden_log(url: str, log: ObjectLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read, and what is written today is the same."""
    golden = {
        name: base64.b64decode(data) for name, data in json.loads(_GOLDEN.read_text()).items()
    }
    assert sorted(golden) == _NAMES
    storage = open_storage(f"{url}/golden")
    for name, data in golden.items():
        storage.create(name, data)
    old = ObjectLog(storage=storage, store="store", store_kind="key-value", partitions=2)
    _check(old)
    assert old.compact().changes_after == 1
    _check_compacted(old)
    for each in list(log.storage.list("store/")):
        log.storage.delete(each.name)
    _write(log, monkeypatch)

    assert _objects(log.storage) == golden


def _check_compacted(log: ObjectLog) -> None:
    with log.reader(0) as reader:
        rows = [(f.offsets[0], f.changes.keys) for f in reader.read() if f.batch.num_rows]
        assert rows == [(4, [b"c"])]
        assert reader.position == {_INPUT: 1003}


@pytest.mark.spec("TSK-18", "TSK-19", "OBJ-2")
def test_the_golden_task(url: str, tmp_path: Path) -> None:
    """A task of an earlier release, which has died between its first store and the second."""
    storage = open_storage(url)
    for name, data in json.loads((_GOLDEN.parent / "task.json").read_text()).items():
        storage.create(name, base64.b64decode(data))
    assert len(list(storage.list("@tasks/0_0/records/counts/"))) == 1
    assert len(list(storage.list("@tasks/0_0/written/"))) == 2
    with open_task(
        url, "0_0", ["counts", "rates"], local_directory=tmp_path, backend="memory"
    ) as task:
        assert task.position == {TopicPartition("words", 0): 2}
        assert task.store("counts").get("number") == 2
        assert task.store("rates").get("number").value == 2
    assert list(storage.list("@tasks/0_0/records/")) == []


@pytest.mark.spec("OBJ-3")
def test_documents_of_later_releases(log: ObjectLog, subtests: pytest.Subtests) -> None:
    """They are refused by name, and so is what contradicts itself."""
    name = "store/root/" + "0" * 20
    for kind in ("take", "write", "void", "else"):
        with subtests.test(kind):
            content = {"format": 2} if kind != "else" else {}
            log.storage.delete(name)
            log.storage.create(name, pack_document(kind, content))
            with pytest.raises(UnsupportedFormatError, match="upgrade statestores"):
                log.reader(0)
            if kind != "else":
                log.storage.delete(name)
                log.storage.create(name, pack_document(kind, {"id": ""}))
                with pytest.raises(ChangelogCorruptedError, match="malformed"):
                    log.reader(0)
