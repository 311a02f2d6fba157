"""Which snapshot a standby takes, and what it is while it has not taken it."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from copied_counts import commit_of_a_dead_job, number_in, put, trim

import statestores as ss
from statestores import failpoints
from statestores.arrow.snapshots.directory import list_snapshots
from statestores.changelog import FileChangelog
from statestores.errors import (
    InvalidStateStoreError,
    OffsetOutOfRangeError,
    SnapshotCorruptedError,
    StorageError,
    StoreCorruptedError,
    StoreMismatchError,
)
from statestores.staging.unfinished_write import finish_staged_writes
from statestores.staging.write_intent import INTENT_FILE, staging_directory
from statestores.tasks import Standby, open_standby
from statestores.tasks.copying import changelog_gap
from statestores.upkeep import FileSnapshot


@pytest.mark.spec("STB-2")
def test_a_snapshot_may_have_what_its_changelog_is_still_to_get(
    root: ss.StateRoot, tmp_path: Path
) -> None:
    """A job had died behind its commit, and somebody wrote a snapshot of what readers saw.

    A standby that was begun then took it, found that the changelog "has lost its end", and did not
    follow any more. It takes what the changelog has, and the rest when a writer has finished it.
    """
    specification, place = root.store("counts").specification, root.partition("counts", 0)
    with ss.open_logged_store(root, "counts", 0, backend="memory") as counts:
        put(counts, 1)
    commit_of_a_dead_job(root, 2)
    written = FileSnapshot(directory=place, number=0, specification=specification)()

    assert written is not None
    assert written.offset == 2
    [segment] = place.changelog.glob("*.log")
    before = segment.read_bytes()
    with open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as copy:
        assert copy.poll() == 2
        assert number_in(copy) == 1
        assert finish_staged_writes(root, "counts")
        assert copy.poll() == 1
        assert number_in(copy) == 2
    segment.write_bytes(before)  # this one has lost its end
    with open_standby(root, "counts", 0, tmp_path / "new", backend="sqlite") as copy:
        with pytest.raises(StoreCorruptedError, match="a staged write has left it at 3"):
            copy.poll()
        (staging_directory(root.home("counts")) / INTENT_FILE).unlink()
        with pytest.raises(StoreMismatchError, match="stands at offset 2, and the changelog ends"):
            copy.poll()


@pytest.mark.spec("STB-2")
def test_a_snapshot_of_commits_that_came_meanwhile_is_not_taken(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the changelog is pinned before snapshots are looked for, and both grow.

    What was newer than the pinned end was taken, and did not fit to it. An older one is, or none.
    """
    with ss.open_logged_store(root, "counts", 0, backend="memory") as counts:
        put(counts, 1)

        def meanwhile(directory: Path) -> dict[int, Path]:
            monkeypatch.undo()
            put(counts, 2)
            counts.snapshot()
            return list_snapshots(directory)

        with open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as copy:
            monkeypatch.setattr(changelog_gap, "list_snapshots", meanwhile)
            assert copy.poll() == 2
            assert number_in(copy) == 1
            copy.poll()
            assert number_in(copy) == 2


@pytest.mark.spec("STB-2", "STB-5")
def test_a_copy_that_lacks_its_snapshot_cannot_be_read(root: ss.StateRoot, tmp_path: Path) -> None:
    """What it has is no commit of the store: nothing, or a part of the snapshot.

    Once it has a commit it can be read as soon as it is opened.
    """
    with ss.open_logged_store(root, "counts", 0, backend="memory") as counts:
        put(counts, 1)
        trim(counts)
    place = tmp_path / "copy"
    with open_standby(root, "counts", 0, place, backend="sqlite") as copy:
        with pytest.raises(InvalidStateStoreError, match="is loading; try again"):
            copy.read_only(include_stale=True)

        def fail() -> None:
            raise OSError(5, "Input/output error")

        failpoints.arm("restore.loaded", fail)
        try:
            with pytest.raises(OSError, match="Input/output"):
                copy.poll()
        finally:
            failpoints.disarm()
    snapshots = root.partition("counts", 0).snapshots
    snapshots.rename(tmp_path / "snapshots")
    with (
        open_standby(root, "counts", 0, place, backend="sqlite") as copy,
        pytest.raises(InvalidStateStoreError, match="is loading; try again"),
    ):
        copy.read_only(include_stale=True)
    (tmp_path / "snapshots").rename(snapshots)
    with open_standby(root, "counts", 0, place, backend="sqlite") as copy:
        copy.poll()
        assert number_in(copy) == 1
    with open_standby(root, "counts", 0, place, backend="sqlite") as copy:
        assert number_in(copy) == 1


@pytest.mark.spec("STB-5")
def test_where_nothing_has_the_beginning_that_is_said(root: ss.StateRoot, tmp_path: Path) -> None:
    """Of a copy that has nothing yet: it needs a snapshot of the active store."""
    with (
        ss.open_logged_store(root, "counts", 0, backend="memory") as counts,
        open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as copy,
    ):
        put(counts, 1)
        trim(counts, snapshot=False)
        with pytest.raises(
            OffsetOutOfRangeError, match=r"stands before the first change, .* write"
        ):
            copy.poll()
        counts.snapshot()
        copy.poll()

        assert number_in(copy) == 1


def _meanwhile(
    monkeypatch: pytest.MonkeyPatch, copy: Standby, act: Callable[[], object], times: int
) -> list[int]:
    """Have a writer *act* whenever the copy has decided what to read, but a number of *times*."""
    take = copy._take
    tries: list[int] = []

    def taken(*given: Any) -> int:
        tries.append(len(tries))
        if len(tries) <= times:
            act()
        return take(*given)

    monkeypatch.setattr(copy, "_take", taken)
    return tries


@pytest.mark.spec("STB-1", "STB-5")
@pytest.mark.parametrize("times", [1, 100], ids=["once", "for ever"])
def test_a_snapshot_that_is_replaced_while_it_is_loaded_is_no_damage(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """The writer keeps the newest snapshot: the standby takes that one, but not for ever."""
    with (
        ss.open_logged_store(root, "counts", 0, backend="memory") as counts,
        open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as copy,
    ):
        put(counts, 1)
        trim(counts)
        snapshots = root.partition("counts", 0).snapshots

        def replace() -> None:
            [older] = snapshots.iterdir()
            put(counts, 2)
            counts.snapshot()
            shutil.rmtree(older)

        tries = _meanwhile(monkeypatch, copy, replace, times)
        if times == 1:
            assert copy.poll() == 3
            assert number_in(copy) == 2
            assert len(tries) == 2
        else:
            with pytest.raises((SnapshotCorruptedError, StorageError)):
                copy.poll()
            assert 1 < len(tries) < 100


@pytest.mark.spec("STB-2", "STB-5")
def test_a_snapshot_that_is_damaged_is_told_at_once(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is there, so nobody has replaced it: reading it again would say the same."""
    with (
        ss.open_logged_store(root, "counts", 0, backend="memory") as counts,
        open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as copy,
    ):
        put(counts, 1)
        trim(counts)
        [snapshot] = root.partition("counts", 0).snapshots.iterdir()
        [data] = snapshot.glob("*.arrow")

        def damage() -> None:
            data.write_bytes(data.read_bytes()[:-9] + b"damage to")

        tries = _meanwhile(monkeypatch, copy, damage, 1)
        with pytest.raises(SnapshotCorruptedError):
            copy.poll()

        assert len(tries) == 1


@pytest.mark.spec("STB-1")
@pytest.mark.parametrize("snapshots", [0, 2])
def test_a_gap_of_one_change_is_a_gap(root: ss.StateRoot, tmp_path: Path, snapshots: int) -> None:
    """The changelog begins after the first change, or one after what the only whole snapshot has.

    Mutants that were off by one went on from there, and the copy lacked the change for ever.
    """
    place = root.partition("counts", 0).snapshots
    with ss.open_logged_store(root, "counts", 0, backend="memory") as counts:
        assert isinstance(counts.changelog, FileChangelog)
        for number in range(snapshots or 1):
            counts.store.put(f"{number}", number)
            counts.commit()
            if snapshots:
                counts.snapshot()
        counts.changelog.seal()
        counts.store.put("last", 9)
        counts.commit()
        assert counts.changelog.delete_before(counts.changelog.end_offset - 1) == (snapshots or 1)
        if snapshots:
            [data] = list_snapshots(place)[1].glob("*.arrow")
            data.write_bytes(data.read_bytes()[:-9] + b"damage to")
        with (
            open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as copy,
            pytest.raises(OffsetOutOfRangeError, match="and no valid snapshot in"),
        ):
            copy.poll()
