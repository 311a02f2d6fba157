"""Files of one partition in the place of another's: every door says so.

A changelog named neither its store nor its partition. Whoever put back a copy, or moved a disk, and
took the wrong directory had a store that answered with another one's rows, from every reader and
after every restore; only `verify` compared enough to notice.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import google_crc32c
import pyarrow as pa
import pytest

import statestores as ss
from statestores.changelog import (
    ChangelogOptions,
    ChangelogReader,
    FileChangelog,
    change_schema,
    changelog_partition,
    compact,
)
from statestores.changelog.rows import RECORD_ROWS
from statestores.changelog.segments.segment_directory import list_segments, read_head
from statestores.changelog.segments.segment_head import head_bytes
from statestores.errors import ChangelogCorruptedError
from statestores.logged_store import open_logged_store
from statestores.partition_reader import PartitionReader
from statestores.processing.local.partition_log import PartitionLog
from statestores.spi import Changes, TopicPartition
from statestores.staging.committed_write import open_log
from statestores.tasks.copying.directory_source import DirectorySource
from statestores.verification import verify

RECORD = pa.record_batch([[b"k"], [b"v"], [1], [None]], schema=RECORD_ROWS)
SMALL = ChangelogOptions(segment_bytes=1)
PLACES = [("counts", 0), ("counts", 1), ("others", 0)]


@pytest.fixture
def root(tmp_path: Path) -> ss.StateRoot:
    """A state root with two stores that differ by nothing but name and rows."""
    state = ss.StateRoot.create(tmp_path / "state")
    state.add_store(ss.KeyValue("counts"), partitions=2)
    state.add_store(ss.KeyValue("others"), partitions=1)
    for name, number in PLACES:
        with open_logged_store(state, name, number, changelog_options=SMALL) as store:
            for each in range(3):
                store.store.put(b"%d" % each, f"{name} {number}".encode())
                store.commit({})
    return state


def nothing() -> None:
    """Be told of an append."""


def swap(one: Path, two: Path) -> None:
    """Have *one* and *two* change places."""
    aside = one.with_name("aside")
    one.rename(aside)
    two.rename(one)
    aside.rename(two)


def without_engine(root: ss.StateRoot, name: str, number: int) -> None:
    """Remove the engine of a partition, as whoever is going to restore it does."""
    path = root.partition(name, number).path
    shutil.rmtree(path / "engine")
    (path / "engine.json").unlink()


def restored(root: ss.StateRoot) -> object:
    """Restore the first partition."""
    without_engine(root, "counts", 0)
    with open_logged_store(root, "counts", 0) as store:
        return list(store.store.range())


def read(root: ss.StateRoot) -> object:
    """Read the first partition without its engine, as Spark and exports do."""
    reader = PartitionReader(root.partition("counts", 0), root.store("counts").specification)
    return list(reader.rows())


def changes(root: ss.StateRoot) -> object:
    """Read what was changed in the first partition."""
    reader = PartitionReader(root.partition("counts", 0), root.store("counts").specification)
    return list(reader.changes(from_offset=0))


def copied(root: ss.StateRoot) -> object:
    """Ask how far a standby of the first partition is behind, which reads its changelog."""
    source = DirectorySource(root.partition("counts", 0), root.store("counts").specification, 0)
    return source.lag(0)


def appended(root: ss.StateRoot) -> object:
    """Open the first changelog to append to it, as a write by Spark does."""
    with open_log(root.partition("counts", 0), root.store("counts").specification) as log:
        return log.end_offset


DOORS = [restored, read, changes, copied, appended]
Door = Callable[[ss.StateRoot], object]


def findings(root: ss.StateRoot) -> list[str]:
    """Return what `verify` calls damaged."""
    return [each.detail for each in verify(root.path) if each.is_failure]


@pytest.mark.spec("LAY-33")
@pytest.mark.parametrize("other", PLACES[1:], ids=["partition", "store"])
@pytest.mark.parametrize("door", DOORS)
def test_another_ones_changelog_is_refused(
    root: ss.StateRoot, other: tuple[str, int], door: Door
) -> None:
    """Its segments say whose they are."""
    swap(root.partition("counts", 0).changelog, root.partition(*other).changelog)

    with pytest.raises(ChangelogCorruptedError, match=f"has the changes of '{other[0]}-changelog'"):
        door(root)
    assert any("files were swapped" in each for each in findings(root))


@pytest.mark.spec("LAY-33")
@pytest.mark.parametrize("door", [restored, read, changes, appended])
def test_another_ones_segment_in_the_middle_is_refused(root: ss.StateRoot, door: Door) -> None:
    """It begins and ends where the right one does: nothing but its name tells."""
    first, second = (root.partition("counts", number).changelog for number in (0, 1))
    segment = list_segments(first).segments[1].path.name
    swap(first / segment, second / segment)

    try:
        read_there = door(root)
    except ChangelogCorruptedError as error:
        assert "files were swapped" in str(error)  # noqa: PT017  # a writer looks at every head
    else:
        pytest.fail(f"read {read_there!r}")


@pytest.mark.spec("LAY-33")
def test_a_changelog_that_names_nobody_is_taken(root: ss.StateRoot) -> None:
    """An earlier release wrote it. What is appended from now on has the name."""
    directory = root.partition("counts", 0).changelog
    shutil.rmtree(directory)
    without_engine(root, "counts", 0)
    with FileChangelog.create(directory, "key-value") as log:
        log.append(Changes([b"k"], [b"old"]))
    assert read_head(list_segments(directory).segments[0].path).partition is None

    store: Any
    with open_logged_store(root, "counts", 0, changelog_options=SMALL) as store:
        assert store.store.get(b"k") == b"old"
        store.store.put(b"k", b"new")
        store.commit({})

    named = read_head(list_segments(directory).segments[-1].path).partition
    assert named == changelog_partition("counts", 0)


@pytest.mark.spec("LAY-33")
def test_a_compacted_segment_and_one_after_it_keep_the_name(root: ss.StateRoot) -> None:
    """Also if whoever compacts the log does not know whose it is."""
    directory = root.partition("counts", 0).changelog
    with FileChangelog.open(directory, "key-value", SMALL) as log:
        log.seal()
        compact(log)

    heads = [read_head(each.path) for each in list_segments(directory).segments]
    assert [each.compacted_to is not None for each in heads] == [True, False]
    assert {each.partition for each in heads} == {changelog_partition("counts", 0)}


@pytest.mark.spec("LAY-33")
def test_who_does_not_say_whose_changelog_it_wants_reads_any(root: ss.StateRoot) -> None:
    """A copy may lie anywhere, and be looked into there."""
    with ChangelogReader.open(root.partition("others", 0).changelog) as log:
        assert log.end_offset == 3


@pytest.mark.spec("LAY-33")
def test_another_topics_records_are_refused(tmp_path: Path) -> None:
    """The local runner's topics are logs as well, and were read as each other's."""
    for topic in ("clicks", "views"):
        with PartitionLog(
            tmp_path / topic, ss.Durability.PROCESS_CRASH, nothing, None, TopicPartition(topic, 0)
        ) as log:
            log.append(RECORD)
    swap(tmp_path / "clicks", tmp_path / "views")

    clicks = TopicPartition("clicks", 0)
    with PartitionLog(
        tmp_path / "clicks", ss.Durability.PROCESS_CRASH, nothing, None, clicks
    ) as log:
        with pytest.raises(
            ChangelogCorruptedError, match="has the changes of 'views', partition 0"
        ):
            list(log.read())
        with pytest.raises(ChangelogCorruptedError, match="files were swapped"):
            log.append(RECORD)


@pytest.mark.spec("LAY-33")
@pytest.mark.parametrize("name", ["[]", '["t"]', '["t",-1]', '["t",true]', '["",0]', "x", "[1,0]"])
def test_a_name_that_is_none_is_damage(tmp_path: Path, name: str) -> None:
    """Its checksum is right, so nobody of ours has written it."""
    with FileChangelog.create(tmp_path, "key-value", partition=TopicPartition("t" * 9, 1)) as log:
        log.append(Changes([b"k"], [b"v"]))
    path = list_segments(tmp_path).segments[0].path
    data = path.read_bytes()
    length = head_bytes(data)
    written = b'["ttttttttt",1]'
    assert data.count(written) == 1
    checked = data[12:length].replace(written, name.encode().ljust(len(written)))
    checksum = google_crc32c.value(checked).to_bytes(4, "big")
    path.write_bytes(data[:8] + checksum + checked + data[length:])

    told = "whose changes they are cannot be read" if name == "x" else "its changes are those of"
    with pytest.raises(ChangelogCorruptedError, match=told):
        ChangelogReader.open(tmp_path)


@pytest.mark.spec("LAY-33")
def test_a_name_is_in_the_head_as_the_chapter_says(tmp_path: Path) -> None:
    """Other programs read it, and earlier releases pass over it."""
    with FileChangelog.create(tmp_path, "key-value", partition=TopicPartition("é", 3)):
        path = list_segments(tmp_path).segments[0].path

    data = path.read_bytes()
    schema = pa.ipc.read_schema(pa.py_buffer(data[56 : head_bytes(data)]))
    assert schema.metadata == {b"statestores.partition": b'["\\u00e9",3]'}
    assert schema.equals(change_schema("key-value"))
