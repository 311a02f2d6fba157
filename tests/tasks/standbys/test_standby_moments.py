"""What a standby is before the writer has begun, when it is promoted, and when it is closed."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from copied_counts import commit_of_a_dead_job, number_in, put, seal_and_compact, trim

import statestores as ss
from statestores.changelog import FileChangelog
from statestores.errors import (
    InvalidStateStoreError,
    StorageError,
    StoreClosedError,
    StoreLockedError,
)
from statestores.tasks import LagInfo, Standby, open_standby
from statestores.tasks.copying.directory_source import DirectorySource


@pytest.mark.spec("STB-1", "TSK-7")
def test_before_the_writer_has_begun_there_is_nothing_to_take(
    root: ss.StateRoot, tmp_path: Path
) -> None:
    """A standby may be there first; it is behind nothing, and goes on once there is something."""
    with open_standby(root, "counts", 1, tmp_path / "copy", backend="sqlite") as copy:
        assert copy.partition == 1
        assert copy.poll() == 0
        assert copy.lag == LagInfo(0, 0)
        assert number_in(copy) is None
        with ss.open_logged_store(root, "counts", 1, backend="memory") as counts:
            put(counts, 1)
        assert copy.poll() == 2
        assert number_in(copy) == 1


@pytest.mark.spec("STB-6", "TSK-7")
def test_a_promoted_standby_tells_how_far_the_store_is(root: ss.StateRoot, tmp_path: Path) -> None:
    """Its lag was that of the copy; and with the store it is closed, too."""
    with ss.open_logged_store(root, "counts", 0, backend="memory") as counts:
        put(counts, 1)
    with open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as copy:
        assert copy.lag == LagInfo(0, 2)
        with copy.promote() as promoted:
            assert not copy.is_open
            put(promoted, 2)
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
        put(counts, 1)
    taken: list[ss.LoggedStore[Any]] = []
    with open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as copy:
        copy.poll()
        _asked(copy, lambda: taken.append(copy.promote()))
        if ask == "lag":
            assert copy.lag == LagInfo(2, 2)
        else:
            assert number_in(copy) == 1
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


@pytest.mark.spec("STB-5", "STB-2", "TSK-7")
@pytest.mark.parametrize("how", ["poll", "promote"])
def test_a_copy_that_could_not_be_begun_anew_is_begun_by_the_next_poll(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Its files could not be removed: meanwhile it has nothing, and is not closed for ever."""
    with open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as copy:
        with ss.open_logged_store(root, "counts", 0, backend="memory") as counts:
            put(counts, 1)
            copy.poll()
            put(counts, 2)
            trim(counts)

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
            assert number_in(copy) == 2
        else:
            with copy.promote() as promoted:
                assert promoted.store.get("number") == 2


@pytest.mark.spec("STB-4", "STB-5")
@pytest.mark.parametrize("leave_behind", [trim, seal_and_compact])
def test_a_copy_that_was_left_behind_begins_anew_before_it_is_the_store(
    root: ss.StateRoot, tmp_path: Path, leave_behind: Callable[[ss.LoggedStore[Any]], object]
) -> None:
    """A reader saw what a compaction had left of a commit, in the facade of a promoted copy."""
    with open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as copy:
        with ss.open_logged_store(root, "counts", 0, backend="memory") as counts:
            put(counts, 1)
            copy.poll()
            outdated: Any = copy.read_only(include_stale=True)
            put(counts, 2)
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
            put(counts, 1)
            put(counts, 2)
            seal_and_compact(counts)
            copy.poll()
            facade: Any = copy.read_only(include_stale=True)
            put(counts, 3)
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
        put(counts, 1)
        copy.poll()
        facade: Any = copy.read_only(include_stale=True)
        trim(counts, snapshot=snapshot)
        put(counts, 2)

        assert copy.poll() == 2
        assert facade.get("number") == 2


@pytest.mark.spec("STB-4")
def test_a_copy_is_not_behind_what_was_only_sealed(root: ss.StateRoot, tmp_path: Path) -> None:
    """Nothing was compacted: it takes what it lacks as the store, and facades of it go on."""
    with open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as copy:
        with ss.open_logged_store(root, "counts", 0, backend="memory") as counts:
            put(counts, 1)
            copy.poll()
            facade: Any = copy.read_only(include_stale=True)
            put(counts, 2)
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
            put(counts, 1)
        commit_of_a_dead_job(root, 2)
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
