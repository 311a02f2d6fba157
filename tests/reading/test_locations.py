"""What lies at a path: a state root, a store, a partition, a changelog or a snapshot."""

from pathlib import Path

import pytest

import statestores as ss
from statestores.errors import StoreNotFoundError
from statestores.logged_store import open_logged_store
from statestores.reading.locations import (
    ChangelogDirectory,
    Partition,
    Root,
    SnapshotDirectory,
    locate,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a state root of one store with a snapshot."""
    state = ss.StateRoot.create(tmp_path / "state")
    state.add_store(ss.KeyValue("counts"), partitions=1)
    with open_logged_store(state, "counts", 0, backend="sqlite") as counts:
        counts.store.put(b"a", b"1")
        counts.commit()
        counts.snapshot()
    return state.path


def test_locate_tells_partitions_of_a_root_from_others(root: Path, tmp_path: Path) -> None:
    """What the state root says is known, and what the engine says is not asked."""
    bare = tmp_path / "bare"
    ss.open_store(bare, ss.KeyValue("bare"), backend="sqlite").close()
    inside, alone = locate(root / "counts" / "0"), locate(bare)

    assert isinstance(inside, Partition)
    assert isinstance(alone, Partition)
    assert (inside.number, alone.number) == (0, None)
    assert inside.specification == ss.KeyValue("counts")
    assert alone.specification is None


def test_locate_finds_each_thing_by_its_path(root: Path) -> None:
    """A changelog knows the partition that it is one of."""
    (path,) = (root / "counts/0/snapshots").iterdir()
    whole, store = locate(root), locate(root / "counts")
    log, snapshot = locate(root / "counts/0/changelog"), locate(path)

    assert isinstance(whole, Root)
    assert isinstance(store, Root)
    assert (whole.store, store.store) == (None, "counts")
    assert isinstance(log, ChangelogDirectory)
    assert isinstance(snapshot, SnapshotDirectory)
    assert log.partition is not None
    assert log.partition.path == root / "counts/0"


def test_what_is_none_of_these_is_refused(root: Path, tmp_path: Path) -> None:
    """A directory of somebody else's, and one that is not there."""
    with pytest.raises(StoreNotFoundError, match="is no state root"):
        locate(tmp_path)
    with pytest.raises(StoreNotFoundError, match="there is nothing at"):
        locate(root / "counts/7")
