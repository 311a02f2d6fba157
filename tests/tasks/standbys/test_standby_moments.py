"""What a standby is before the writer has begun, while it is loaded, promoted and closed."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import statestores as ss
from statestores import failpoints
from statestores.arrow.snapshots.directory import list_snapshots
from statestores.changelog import FileChangelog, change_schema, compact
from statestores.errors import (
    InvalidStateStoreError,
    OffsetOutOfRangeError,
    SnapshotCorruptedError,
    StorageError,
    StoreClosedError,
    StoreLockedError,
    StoreMismatchError,
)
from statestores.staging.staged_write import publish, stage
from statestores.staging.unfinished_write import finish_staged_writes
from statestores.tasks import LagInfo, Standby, open_standby
from statestores.tasks.copying import changelog_gap
from statestores.tasks.copying.directory_source import DirectorySource
from statestores.upkeep import FileSnapshot

INPUT = ss.TopicPartition("numbers", 0)


class _Died(BaseException):
    """The process ends here, as far as anybody can tell."""


def _die() -> None:
    raise _Died


def _put(counts: ss.LoggedStore[Any], number: int) -> None:
    counts.store.put("number", number)
    counts.store.put(f"{number}", number)
    counts.commit({INPUT: number})


def _trim(counts: ss.LoggedStore[Any], *, snapshot: bool = True) -> None:
    """Delete the changelog's beginning, all of it, which a snapshot covers."""
    if snapshot:
        counts.snapshot()
    assert isinstance(counts.changelog, FileChangelog)
    counts.changelog.seal()
    counts.changelog.delete_before(counts.changelog.end_offset)


def _compact(counts: ss.LoggedStore[Any]) -> None:
    assert isinstance(counts.changelog, FileChangelog)
    counts.changelog.seal()
    compact(counts.changelog)


def _number(copy: Standby) -> int | None:
    facade: Any = copy.read_only(include_stale=True)
    found: int | None = facade.get("number")
    return found


@pytest.mark.spec("STB-1", "TSK-7")
def test_before_the_writer_has_begun_there_is_nothing_to_take(
    root: ss.StateRoot, tmp_path: Path
) -> None:
    """A standby may be there first; it is behind nothing, and goes on once there is something."""
    with open_standby(root, "counts", 1, tmp_path / "copy", backend="sqlite") as copy:
        assert copy.partition == 1
        assert copy.poll() == 0
        assert copy.lag == LagInfo(0, 0)
        assert _number(copy) is None
        with ss.open_logged_store(root, "counts", 1, backend="memory") as counts:
            _put(counts, 1)
        assert copy.poll() == 2
        assert _number(copy) == 1


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
        _put(counts, 1)
    row = {"key": b"number", "value": ss.int64.encode(2)}
    change = pa.RecordBatch.from_pylist([row], change_schema(specification.kind))
    staged = stage(root.path, specification, 3, "w", "t", [change], partition=0)
    failpoints.arm("publish.committed", _die)
    with pytest.raises(_Died):
        publish(root, "counts", "w", [staged])
    failpoints.disarm()
    written = FileSnapshot(directory=place, number=0, specification=specification)()

    assert written is not None
    assert written.offset == 2
    [segment] = place.changelog.glob("*.log")
    before = segment.read_bytes()
    with open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as copy:
        assert copy.poll() == 2
        assert _number(copy) == 1
        assert finish_staged_writes(root, "counts")
        assert copy.poll() == 1
        assert _number(copy) == 2
    segment.write_bytes(before)  # this one has lost its end
    with (
        open_standby(root, "counts", 0, tmp_path / "new", backend="sqlite") as copy,
        pytest.raises(StoreMismatchError, match="stands at offset 2, and the changelog ends"),
    ):
        copy.poll()


@pytest.mark.spec("STB-2")
def test_a_snapshot_of_commits_that_came_meanwhile_is_not_taken(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the changelog is pinned before snapshots are looked for, and both grow.

    What was newer than the pinned end was taken, and did not fit to it. An older one is, or none.
    """
    with ss.open_logged_store(root, "counts", 0, backend="memory") as counts:
        _put(counts, 1)

        def meanwhile(directory: Path) -> dict[int, Path]:
            monkeypatch.undo()
            _put(counts, 2)
            counts.snapshot()
            return list_snapshots(directory)

        with open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as copy:
            monkeypatch.setattr(changelog_gap, "list_snapshots", meanwhile)
            assert copy.poll() == 2
            assert _number(copy) == 1
            copy.poll()
            assert _number(copy) == 2


@pytest.mark.spec("STB-6", "TSK-7")
def test_a_promoted_standby_tells_how_far_the_store_is(root: ss.StateRoot, tmp_path: Path) -> None:
    """Its lag was that of the copy; and with the store it is closed, too."""
    with ss.open_logged_store(root, "counts", 0, backend="memory") as counts:
        _put(counts, 1)
    with open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as copy:
        assert copy.lag == LagInfo(0, 2)
        with copy.promote() as promoted:
            assert not copy.is_open
            _put(promoted, 2)
            assert copy.lag == LagInfo(4, 4)
            with pytest.raises(StoreClosedError, match="closed or promoted"):
                copy.promote()
            with pytest.raises(StoreClosedError, match="closed or promoted"):
                copy.follow()
        for call in (lambda: copy.lag, copy.read_only):
            with pytest.raises(StoreClosedError):
                call()


class _Asked(Standby):
    """A standby to which something happens once, while another thread asks it something."""

    meanwhile: Callable[[], object] | None = None

    @property
    def _promoted(self) -> ss.LoggedStore[Any] | None:
        found: ss.LoggedStore[Any] | None = self.__dict__.get("promoted")
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return found

    @_promoted.setter
    def _promoted(self, promoted: ss.LoggedStore[Any] | None) -> None:
        self.__dict__["promoted"] = promoted


def _asked(standby: Standby, meanwhile: Callable[[], object]) -> Standby:
    standby.__dict__.pop("_promoted")
    asked: Any = standby
    asked.__class__ = _Asked
    asked.meanwhile = meanwhile
    return standby


@pytest.mark.spec("STB-6")
@pytest.mark.parametrize("ask", ["lag", "read"])
def test_a_promotion_between_two_looks_is_not_noticed(
    root: ss.StateRoot, tmp_path: Path, ask: str
) -> None:
    """Whoever asks has seen the copy, and nobody who promoted it: the copy answers still."""
    with ss.open_logged_store(root, "counts", 0, backend="memory") as counts:
        _put(counts, 1)
    taken: list[ss.LoggedStore[Any]] = []
    with open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as copy:
        copy.poll()
        _asked(copy, lambda: taken.append(copy.promote()))
        if ask == "lag":
            assert copy.lag == LagInfo(2, 2)
        else:
            assert _number(copy) == 1
        [promoted] = taken
        promoted.close()


@pytest.mark.spec("STB-5")
def test_a_standby_that_is_closed_while_it_is_asked_says_so(
    root: ss.StateRoot, tmp_path: Path
) -> None:
    """It would look like one that has nothing, and an assignor would send its task elsewhere."""
    copy = open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite")
    _asked(copy, copy.close)

    with pytest.raises(StoreClosedError, match="standby of partition 0 of 'counts' is closed"):
        _ = copy.lag


def test_a_closed_standby_says_so(root: ss.StateRoot, tmp_path: Path) -> None:
    """Whatever it is asked for, and in words that name it."""
    copy = open_standby(root, "counts", 2, tmp_path / "copy", backend="memory")
    copy.close()

    for call in (
        lambda: copy.lag,
        copy.poll,
        copy.promote,
        copy.follow,
        lambda: copy.read_only(include_stale=True),
    ):
        with pytest.raises(StoreClosedError, match="standby of partition 2 of 'counts' is closed"):
            call()


@pytest.mark.spec("STB-2", "STB-5")
def test_a_copy_that_lacks_its_snapshot_cannot_be_read(root: ss.StateRoot, tmp_path: Path) -> None:
    """What it has is no commit of the store: nothing, or a part of the snapshot.

    Once it has a commit it can be read as soon as it is opened.
    """
    with ss.open_logged_store(root, "counts", 0, backend="memory") as counts:
        _put(counts, 1)
        _trim(counts)
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
        assert _number(copy) == 1
    with open_standby(root, "counts", 0, place, backend="sqlite") as copy:
        assert _number(copy) == 1


@pytest.mark.spec("STB-5")
def test_where_nothing_has_the_beginning_that_is_said(root: ss.StateRoot, tmp_path: Path) -> None:
    """Of a copy that has nothing yet: it needs a snapshot of the active store."""
    with (
        ss.open_logged_store(root, "counts", 0, backend="memory") as counts,
        open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as copy,
    ):
        _put(counts, 1)
        _trim(counts, snapshot=False)
        with pytest.raises(
            OffsetOutOfRangeError, match=r"stands before the first change, .* write"
        ):
            copy.poll()
        counts.snapshot()
        copy.poll()

        assert _number(copy) == 1


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
        _put(counts, 1)
        _trim(counts)
        snapshots = root.partition("counts", 0).snapshots

        def replace() -> None:
            [older] = snapshots.iterdir()
            _put(counts, 2)
            counts.snapshot()
            shutil.rmtree(older)

        tries = _meanwhile(monkeypatch, copy, replace, times)
        if times == 1:
            assert copy.poll() == 3
            assert _number(copy) == 2
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
        _put(counts, 1)
        _trim(counts)
        [snapshot] = root.partition("counts", 0).snapshots.iterdir()
        [data] = snapshot.glob("*.arrow")

        def damage() -> None:
            data.write_bytes(data.read_bytes()[:-9] + b"damage to")

        tries = _meanwhile(monkeypatch, copy, damage, 1)
        with pytest.raises(SnapshotCorruptedError):
            copy.poll()

        assert len(tries) == 1


@pytest.mark.spec("STB-5", "STB-2", "TSK-7")
@pytest.mark.parametrize("how", ["poll", "promote"])
def test_a_copy_that_could_not_be_begun_anew_is_begun_by_the_next_poll(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Its files could not be removed: meanwhile it has nothing, and is not closed for ever."""
    with open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as copy:
        with ss.open_logged_store(root, "counts", 0, backend="memory") as counts:
            _put(counts, 1)
            copy.poll()
            _put(counts, 2)
            _trim(counts)

        def refuse(path: Path) -> None:
            raise PermissionError(13, "Permission denied", str(path))

        with monkeypatch.context() as patched:
            patched.setattr(shutil, "rmtree", refuse)
            with pytest.raises(StorageError, match=r"outdated copy in .*: Permission denied"):
                copy.poll()
        assert copy.is_open
        assert copy.lag == LagInfo(0, 4)
        with pytest.raises(InvalidStateStoreError, match="is loading"):
            copy.read_only(include_stale=True)
        if how == "poll":
            copy.poll()
            assert _number(copy) == 2
        else:
            with copy.promote() as promoted:
                assert promoted.store.get("number") == 2


@pytest.mark.spec("STB-4", "STB-5")
@pytest.mark.parametrize("leave_behind", [_trim, _compact])
def test_a_copy_that_was_left_behind_begins_anew_before_it_is_the_store(
    root: ss.StateRoot, tmp_path: Path, leave_behind: Callable[[ss.LoggedStore[Any]], object]
) -> None:
    """A reader saw what a compaction had left of a commit, in the facade of a promoted copy."""
    with open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as copy:
        with ss.open_logged_store(root, "counts", 0, backend="memory") as counts:
            _put(counts, 1)
            copy.poll()
            outdated: Any = copy.read_only(include_stale=True)
            _put(counts, 2)
            leave_behind(counts)
        with copy.promote() as promoted:
            assert promoted.store.get("number") == 2
            with pytest.raises(StoreClosedError):
                outdated.get("number")


@pytest.mark.spec("STB-4")
def test_a_copy_that_has_all_that_was_compacted_stays_what_it_is(
    root: ss.StateRoot, tmp_path: Path
) -> None:
    """It is at the end of it, and lacks nothing: facades of it go on."""
    with open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as copy:
        with ss.open_logged_store(root, "counts", 0, backend="memory") as counts:
            _put(counts, 1)
            _put(counts, 2)
            _compact(counts)
            copy.poll()
            facade: Any = copy.read_only(include_stale=True)
            _put(counts, 3)
        with copy.promote() as promoted:
            assert promoted.restored.changelog_rows == 2
            assert facade.get("number") == 3


@pytest.mark.spec("STB-2", "STB-5")
@pytest.mark.parametrize("snapshot", [True, False])
def test_a_copy_that_has_all_that_was_deleted_goes_on(
    root: ss.StateRoot, tmp_path: Path, *, snapshot: bool
) -> None:
    """The changelog begins with what it takes next: it needs no snapshot, and facades stay."""
    with (
        ss.open_logged_store(root, "counts", 0, backend="memory") as counts,
        open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as copy,
    ):
        _put(counts, 1)
        copy.poll()
        facade: Any = copy.read_only(include_stale=True)
        _trim(counts, snapshot=snapshot)
        _put(counts, 2)

        assert copy.poll() == 2
        assert facade.get("number") == 2


@pytest.mark.spec("STB-4")
def test_a_copy_is_not_behind_what_was_only_sealed(root: ss.StateRoot, tmp_path: Path) -> None:
    """Nothing was compacted: it takes what it lacks as the store, and facades of it go on."""
    with open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as copy:
        with ss.open_logged_store(root, "counts", 0, backend="memory") as counts:
            _put(counts, 1)
            copy.poll()
            facade: Any = copy.read_only(include_stale=True)
            _put(counts, 2)
            assert isinstance(counts.changelog, FileChangelog)
            counts.changelog.seal()
        with copy.promote() as promoted:
            assert promoted.restored.changelog_rows == 2
            assert facade.get("number") == 2


@pytest.mark.spec("STB-4")
def test_a_copy_that_becomes_the_store_has_what_a_job_has_committed(
    root: ss.StateRoot, tmp_path: Path
) -> None:
    """Also where the job has died behind its commit: the changelog is still to get it."""
    with open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as copy:
        with ss.open_logged_store(root, "counts", 0, backend="memory") as counts:
            _put(counts, 1)
        specification = root.store("counts").specification
        row = {"key": b"number", "value": ss.int64.encode(2)}
        change = pa.RecordBatch.from_pylist([row], change_schema(specification.kind))
        staged = stage(root.path, specification, 3, "w", "t", [change], partition=0)
        failpoints.arm("publish.committed", _die)
        with pytest.raises(_Died):
            publish(root, "counts", "w", [staged])
        failpoints.disarm()
        with copy.promote() as promoted:
            assert promoted.store.get("number") == 2


@pytest.mark.spec("STB-1")
def test_a_copy_that_cannot_be_opened_stays_locked_for_nobody(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The changelog cannot be read for a moment; whoever keeps the error may try again."""

    def fail(*_: object) -> bool:
        raise StorageError("not now")

    with monkeypatch.context() as patched:
        patched.setattr(DirectorySource, "is_unloaded", fail)
        with pytest.raises(StorageError, match="not now") as caught:
            open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite")
    with open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as copy:
        assert copy.poll() == 0

    assert caught.value.__traceback__ is not None


@pytest.mark.spec("STB-4")
@pytest.mark.parametrize("follows", [True, False])
def test_a_promotion_that_is_refused_leaves_it_as_it_was(
    root: ss.StateRoot, tmp_path: Path, *, follows: bool
) -> None:
    """It follows as often as before, if it did; and nobody begins to, who did not."""
    with (
        ss.open_logged_store(root, "counts", 0, backend="memory"),
        open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as copy,
    ):
        if follows:
            copy.follow(3_600.0)
        with pytest.raises(StoreLockedError):
            copy.promote()
        assert copy.is_open
        assert copy.is_following is follows
        if follows:
            assert copy._follower.interval_s == 3_600.0
        copy.stop()
        copy.stop()
        following = [copy.is_following]
        copy.follow(3_600.0)
        following.append(copy.is_following)
    following.append(copy.is_following)

    assert following == [False, True, False]


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
