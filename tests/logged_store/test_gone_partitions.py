"""A partition, or its changelog, that is gone is missed by every door, and is not an empty one.

A state root did not say which partitions had been written. Whoever removed the directory of one, or
left it out of a copy, had a store that lacked its rows and did not say so, not even to `verify`.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import statestores as ss
from statestores.begun_partitions import refuse_gone
from statestores.errors import StoreMismatchError
from statestores.logged_store import open_logged_store
from statestores.partition_reader import PartitionReader
from statestores.reading.locations import changelog_end
from statestores.resharding import reshard
from statestores.staging.committed_write import open_log
from statestores.tasks import open_task
from statestores.tasks.copying.directory_source import DirectorySource
from statestores.upkeep.compaction import Compaction
from statestores.upkeep.vacuum import Vacuum
from statestores.verification import verify


@pytest.fixture
def root(tmp_path: Path) -> ss.StateRoot:
    """A state root with a store of two partitions, both written."""
    state = ss.StateRoot.create(tmp_path / "state")
    state.add_store(ss.KeyValue("counts"), partitions=2)
    for number in (0, 1):
        with open_logged_store(state, "counts", number) as store:
            for each in range(3):
                store.store.put(b"%d" % each, b"%d" % number)
                store.commit({})
    return state


def reader_of(root: ss.StateRoot) -> PartitionReader:
    """Return a reader of the first partition without its engine, as Spark and exports use it."""
    return PartitionReader(root.partition("counts", 0), root.store("counts").specification)


def opened(root: ss.StateRoot) -> object:
    """Open the first partition, and restore it."""
    with open_logged_store(root, "counts", 0) as store:
        return list(store.store.range())


def read(root: ss.StateRoot) -> object:
    """Read the content."""
    return list(reader_of(root).rows())


def changes(root: ss.StateRoot) -> object:
    """Read what was changed."""
    return list(reader_of(root).changes(from_offset=0))


def copied(root: ss.StateRoot) -> object:
    """Ask how far a standby is behind, which reads the changelog."""
    source = DirectorySource(root.partition("counts", 0), root.store("counts").specification, 0)
    return source.lag(0)


def compacted(root: ss.StateRoot) -> object:
    """Compact the changelog; that of a partition that nobody has written is passed over."""
    return Compaction(root=str(root.path), store="counts", partition=0)()


def vacuumed(root: ss.StateRoot) -> object:
    """Remove old snapshots, which may be all that is left."""
    return Vacuum(root=str(root.path), store="counts", partition=0)()


def of_a_task(root: ss.StateRoot) -> object:
    """Open a task over the partition that has not committed anything of it."""
    with open_task(root, "0_0", ["counts"]) as task:
        return task


def ended(root: ss.StateRoot) -> object:
    """Ask where the changelog ends, as serving and checks of recorded commits do."""
    return changelog_end(root.partition("counts", 0), root.store("counts").specification)


def appended(root: ss.StateRoot) -> object:
    """Open the changelog to append to it, as a write by Spark does."""
    with open_log(root.partition("counts", 0), root.store("counts").specification) as log:
        return log.end_offset


@pytest.mark.spec("LAY-35")
@pytest.mark.parametrize(
    "door",
    [opened, read, changes, copied, compacted, vacuumed, of_a_task, ended, appended],
)
def test_a_partition_that_is_gone_is_not_an_empty_one(
    root: ss.StateRoot, door: Callable[[ss.StateRoot], object]
) -> None:
    """Somebody has removed its directory: readers found no rows, and an opening began anew."""
    place = root.partition("counts", 0).path
    shutil.rmtree(place)

    with pytest.raises(StoreMismatchError, match=r"is gone: .*\.begun/0' says that there was one"):
        door(root)
    assert not (place / "changelog").exists()  # so a copy can be put there
    assert any("is gone" in each.detail for each in verify(root.path) if each.is_failure)


@pytest.mark.spec("LAY-35", "LGS-8")
@pytest.mark.parametrize("is_noted", [True, False])
def test_a_changelog_that_is_gone_beside_its_engine_is_said_to_be(
    tmp_path: Path, is_noted: bool
) -> None:
    """Nothing told of the note, nor how to begin anew; and exports, as advised, were refused.

    Without a note, as an earlier release leaves it, the engine is read by `statestores export`.
    """
    state = ss.StateRoot.create(tmp_path / "state")
    state.add_store(ss.KeyValue("counts"), partitions=1)
    with open_logged_store(state, "counts", 0, backend="sqlite") as store:
        store.store.put(b"k", b"v")
        store.commit({})
    shutil.rmtree(state.partition("counts", 0).changelog)
    if not is_noted:
        shutil.rmtree(state.home("counts") / ".begun")
    words = (
        r"\.begun/0' says that there was one" if is_noted else "put it back, or export the store"
    )

    with pytest.raises(StoreMismatchError, match=rf"is gone.*{words}"):
        open_logged_store(state, "counts", 0)


@pytest.mark.spec("LAY-35")
def test_a_partition_that_nobody_has_begun_is_empty(root: ss.StateRoot) -> None:
    """And so is one whose note was removed, as the error says, for it to begin anew."""
    root.add_store(ss.KeyValue("fresh"), partitions=1)
    fresh = PartitionReader(root.partition("fresh", 0), root.store("fresh").specification)
    assert list(fresh.rows()) == []

    shutil.rmtree(root.partition("counts", 0).path)
    (root.home("counts") / ".begun" / "0").unlink()
    assert opened(root) == []


@pytest.mark.spec("LAY-35")
@pytest.mark.parametrize("in_another", [False, True])
def test_a_partition_that_a_reshard_has_made_is_missed_from_the_beginning(
    tmp_path: Path, in_another: bool
) -> None:
    """Nobody has opened it yet, and it has its rows."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(ss.KeyValue("counts"), partitions=1)
    with open_logged_store(root, "counts", 0) as store:
        store.commit({})
    to = tmp_path / "other" if in_another else None
    reshard(root, "counts", 3, to=to)
    now = ss.StateRoot.open(to or root.path)
    shutil.rmtree(now.partition("counts", 2).path)

    with pytest.raises(StoreMismatchError, match="is gone: "):
        open_logged_store(now, "counts", 2)
    assert (root.path / "counts" / ".begun").exists() == in_another


@pytest.mark.spec("LAY-35")
def test_a_changelog_that_is_begun_while_a_reader_looks_is_not_gone(root: ss.StateRoot) -> None:
    """A reader found none; then a writer began and noted it, and the reader finds the note."""
    partition = root.partition("counts", 0)

    refuse_gone(partition)
    shutil.rmtree(partition.changelog)

    with pytest.raises(StoreMismatchError, match="is gone"):
        refuse_gone(partition)


@pytest.mark.spec("LAY-35")
def test_a_store_of_an_earlier_release_is_noted_when_it_is_opened(root: ss.StateRoot) -> None:
    """It has no notes, which says nothing of its partitions."""
    shutil.rmtree(root.home("counts") / ".begun")
    opened(root)
    shutil.rmtree(root.partition("counts", 0).path)

    with pytest.raises(StoreMismatchError, match="is gone"):
        opened(root)
