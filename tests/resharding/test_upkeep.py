"""Snapshots made from files, compactions and vacuums: what they write, and what they may remove."""

import random
import shutil
from pathlib import Path

import pytest
from dictionary import SPECIFICATIONS, Written, by_repr

import statestores as ss
from statestores.arrow import list_snapshots, read_snapshot
from statestores.arrow.snapshots.choice import ListedSnapshot, listed_in
from statestores.changelog import ChangelogReader
from statestores.errors import InvalidArgumentError, StoreLockedError
from statestores.reading.partition_reader import PartitionReader
from statestores.state_root import PartitionDirectory, StateRoot
from statestores.upkeep import Compaction, FileSnapshot, Vacuum, vacuum
from statestores.verification import verify

LITTLE_MEMORY = 20_000
"""So little that what is folded is spilled."""

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


def _written(root: Path, kind: str) -> Written:
    StateRoot.create(root).add_store(SPECIFICATIONS[kind], partitions=1)
    written = Written(root, SPECIFICATIONS[kind], "sqlite")
    _put(written, 120)
    return written


def _put(written: Written, count: int) -> None:
    """Put *count* changes, and leave no snapshots but those that a test writes."""
    before = list_snapshots(_at(written.root).snapshots)
    written.put(random.Random(count), count)
    for offset, path in list_snapshots(_at(written.root).snapshots).items():
        if offset not in before:
            shutil.rmtree(path)


def _at(root: Path | str) -> PartitionDirectory:
    return StateRoot.open(root).partition("kept", 0)


def _snapshot(written: Written, *, memory_bytes: int = LITTLE_MEMORY) -> FileSnapshot:
    return FileSnapshot(
        directory=_at(written.root),
        number=0,
        specification=written.specification,
        memory_bytes=memory_bytes,
    )


def test_a_vacuum_leaves_to_another_what_that_one_removes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user vacuumed beside a stream with ``snapshotInterval``, which removes old snapshots too.

    The slower one failed with "cannot remove ... No such file or directory; check the path", and
    with it the job or the micro-batch. It goes on now, and does not count what it has not removed.
    """
    written = _written(tmp_path / "root", "key-value")
    for _ in range(3):
        _put(written, 5)
        _snapshot(written)()
    place = _at(written.root)
    newest = max(list_snapshots(place.snapshots))
    others: list[int] = []

    def overtaken(directory: Path) -> list[ListedSnapshot]:
        found = listed_in(directory)
        monkeypatch.setattr(vacuum, "listed_in", listed_in)
        others.append(vacuum.remove_old_snapshots(place, 1)[1])
        return found

    monkeypatch.setattr(vacuum, "listed_in", overtaken)

    kept, removed = vacuum.remove_old_snapshots(place, 1)

    assert (others, removed) == ([2], 0)
    assert [each.path for each in kept] == list(list_snapshots(place.snapshots).values())
    assert list(list_snapshots(place.snapshots)) == [newest]


@pytest.mark.spec("SNP-25", "SNP-16")
@pytest.mark.parametrize("kind", SPECIFICATIONS)
def test_a_snapshot_from_files_is_the_one_that_the_owner_would_write(
    tmp_path: Path, kind: str
) -> None:
    """Beside the owner, who has the lock; with its position; and it restores without the log."""
    root = tmp_path / "root"
    written = _written(root, kind)
    with ss.open_logged_store(root, "kept", backend="sqlite") as opened:
        info = _snapshot(written)()
        assert info is not None
        own = opened.snapshot()

    assert own is not None
    assert (own.written, own.offset, own.rows) == (False, info.offset, info.rows)
    snapshot = read_snapshot(info.path)
    snapshot.verify()
    reader = PartitionReader(_at(root), written.specification)
    assert dict(snapshot.manifest.position) == dict(reader.position)
    again = _snapshot(written)()
    assert again is not None
    assert (again.written, again.path) == (False, info.path)


@pytest.mark.spec("SNP-25")
def test_a_damaged_snapshot_is_written_again_and_an_empty_partition_has_none(
    tmp_path: Path,
) -> None:
    """As an owner's."""
    root = tmp_path / "root"
    state = StateRoot.create(root)
    state.add_store(ss.KeyValue("kept"), partitions=1)
    write = FileSnapshot(
        directory=state.partition("kept", 0), number=0, specification=ss.KeyValue("kept")
    )
    assert write() is None
    with ss.open_logged_store(root, "kept", backend="memory") as opened:
        opened.store.put(b"k", b"v")
        opened.commit()
    first = write()
    assert first is not None
    data = first.path / "data-0000.arrow"
    data.write_bytes(bytes(data.stat().st_size))
    second = write()

    assert second is not None
    assert second.written
    read_snapshot(second.path).verify()
    with pytest.raises(InvalidArgumentError, match="memory_bytes must be from 1"):
        FileSnapshot(
            directory=state.partition("kept", 0),
            number=0,
            specification=ss.KeyValue("kept"),
            memory_bytes=0,
        )()


@pytest.mark.spec("SNP-26")
def test_a_vacuum_keeps_what_two_snapshots_need(tmp_path: Path) -> None:
    """Older snapshots and covered segments go; the content stays, and an older engine restores."""
    root = tmp_path / "root"
    written = _written(root, "versioned")
    with ss.open_logged_store(
        root, "kept", backend="sqlite", directory=tmp_path / "left"
    ) as opened:
        left_at = opened.committed_offset
    vacuum = Vacuum(root=str(root), store="kept", partition=0)
    offsets, dropped = [], []
    for _ in range(3):
        info = _snapshot(written)()
        assert info is not None
        offsets.append(info.offset)
        dropped.append(vacuum())
        _put(written, 20)
    with (
        ss.open_logged_store(root, "kept", backend="sqlite"),
        pytest.raises(StoreLockedError),
    ):
        vacuum()

    assert [each.snapshots for each in dropped] == [0, 0, 1]
    assert [each.dropped_before for each in dropped] == [None, 0, offsets[1] + 1]
    assert sorted(list_snapshots(_at(root).snapshots)) == offsets[1:]
    with ChangelogReader.open(_at(root).changelog, "versioned") as log:
        assert log.first_offset == offsets[1] + 1
    assert written.shown() == by_repr(written.model.shown())
    with ss.open_logged_store(
        root, "kept", backend="sqlite", directory=tmp_path / "left"
    ) as opened:
        assert left_at is not None
        assert left_at < offsets[1]
        assert opened.restored.snapshot_offset == offsets[2]
    assert [each for each in verify(root) if each.is_failure] == []
    again = vacuum()
    assert (again.snapshots, again.dropped_before) == (0, offsets[1] + 1)
    with pytest.raises(InvalidArgumentError, match="keep_snapshots must be from 1"):
        Vacuum(root=str(root), store="kept", partition=0, keep_snapshots=0)()


@pytest.mark.spec("SNP-26")
def test_a_vacuum_counts_whole_snapshots_only(tmp_path: Path) -> None:
    """With the newest one damaged, the one that restores stays, and no segment goes."""
    root = tmp_path / "root"
    written = _written(root, "key-value")
    first = _snapshot(written)()
    _put(written, 20)
    second = _snapshot(written)()
    assert first is not None
    assert second is not None
    data = second.path / "data-0000.arrow"
    data.write_bytes(bytes(data.stat().st_size))
    done = Vacuum(root=str(root), store="kept", partition=0)()

    assert (done.snapshots, done.dropped_before) == (0, None)
    assert written.shown() == by_repr(written.model.shown())


@pytest.mark.spec("LOG-18")
def test_a_compaction_is_of_one_partition_and_tells_what_it_dropped(tmp_path: Path) -> None:
    """Where there is no changelog there is nothing to tell."""
    root = tmp_path / "root"
    written = _written(root, "key-value")
    StateRoot.open(root).add_store(ss.KeyValue("empty"), partitions=1)
    done = Compaction(root=str(root), store="kept", partition=0)()
    nothing = Compaction(root=str(root), store="empty", partition=0)()

    assert done.report is not None
    assert done.report.changes_after < done.report.changes_before
    assert written.shown() == by_repr(written.model.shown())
    assert nothing.report is None
