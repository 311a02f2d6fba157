"""An opening of a task in an object store beside others: what it looks at, and what it leaves."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from object_tasks import (
    INPUT,
    NAMES,
    half_a_commit,
    numbers_alike,
    opened_alike,
    put_alike,
    records,
    two_alike,
)

import statestores as ss
from statestores.errors import FencedError, StoreClosedError, StoreCorruptedError
from statestores.tasks import Standby, open_standby
from statestores.tasks.objects import commit_steps, opening, recovery
from statestores.tasks.objects.task_names import RecordName, TaskNames


@pytest.fixture
def root(url: str) -> ss.StateRoot:
    """A state root with two stores that belong together."""
    return two_alike(url)


def _take(root: ss.StateRoot, name: str, directory: Path) -> None:
    """Have another program open a store by itself, and close it."""
    with ss.open_logged_store(root, name, 0, directory=directory, backend="memory"):
        pass


@pytest.mark.spec("TSK-17", "TSK-18")
def test_nothing_is_carried_out_before_every_store_is_the_task_s(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One was taken while the others were: the task would be opened, and could not commit."""
    half_a_commit(root, tmp_path / "a")
    finish = recovery.finish_commits

    def taken_before(*given: Any) -> Any:
        _take(root, "counts", tmp_path / "alone")
        return finish(*given)

    with monkeypatch.context() as patched:
        patched.setattr(opening, "finish_commits", taken_before)
        with pytest.raises(FencedError, match="while the task was being opened"):
            opened_alike(root, tmp_path / "b")
    assert len(records(root)) == 1
    with opened_alike(root, tmp_path / "b") as task:
        assert numbers_alike(task) == [1, 1]


@pytest.mark.spec("TSK-18")
@pytest.mark.parametrize("is_taken", [True, False])
def test_what_contradicts_an_old_view_is_no_damage(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_taken: bool
) -> None:
    """Somebody has the stores by now: who was told of damage would put an old copy back."""
    with opened_alike(root, tmp_path / "a") as task:
        put_alike(task, 1)

    def contradicts(*given: object) -> None:
        if is_taken:
            _take(root, "rates", tmp_path / "alone")
        raise StoreCorruptedError("it was begun anew")

    monkeypatch.setattr(recovery, "_check_there", contradicts)
    with pytest.raises(FencedError if is_taken else StoreCorruptedError):
        opened_alike(root, tmp_path / "b")


@pytest.mark.spec("TSK-17", "TSK-18")
def test_an_opening_looks_once_whether_all_is_its_own(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look costs a request for each store, also where a record is carried out."""
    looks: list[object] = []

    def counted(*given: Any) -> Any:
        looks.append(given)
        return commit_steps.check_owned(*given)

    monkeypatch.setattr(recovery, "check_owned", counted)
    with opened_alike(root, tmp_path / "a"):
        assert len(looks) == 1
    half_a_commit(root, tmp_path / "a")
    looks.clear()
    with opened_alike(root, tmp_path / "b") as task:
        assert numbers_alike(task) == [1, 1]

    assert len(looks) == 1


@pytest.mark.spec("TSK-18")
def test_a_record_of_before_a_reshard_counts_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner never appended what it names: nobody reshards a store that has a record.

    It is removed, and nothing of it is read, whatever the entries of the new parts say.
    """
    forgotten: list[RecordName] = []
    monkeypatch.setattr(recovery, "has_counted", lambda *_: pytest.fail("it was judged"))
    monkeypatch.setattr(recovery, "forget_record", lambda names, record: record)
    monkeypatch.setattr(recovery, "run", lambda record, storage: forgotten.append(record))
    log = SimpleNamespace(
        log_id="log",
        partition=0,
        names=None,
        appending=lambda: SimpleNamespace(grant=9),
        view=SimpleNamespace(parts=[None], checkpoint=SimpleNamespace(begun=5)),
    )
    nothing: Any = SimpleNamespace(read=lambda _: pytest.fail("it was read"))
    logs: Any = {"counts": log}
    record = RecordName("counts", "log", 4, 0)
    names = TaskNames("0_0", "memory://tests")

    assert recovery._settle(names, nothing, nothing, logs, record)
    assert forgotten == [record]


@pytest.mark.spec("TSK-20", "STB-4", "STB-6")
def test_copies_of_a_task_that_is_opened_are_its_stores(root: ss.StateRoot, tmp_path: Path) -> None:
    """They follow no more: a thread would go on to poll what the task writes to."""
    with opened_alike(root, tmp_path / "a") as task:
        put_alike(task, 1)

    def copy_of(name: str) -> Standby:
        copy = open_standby(root, name, 0, tmp_path / "b" / name / "0", backend="memory")
        copy.poll()
        copy.follow(3_600.0)
        return copy

    copies = [copy_of(name) for name in NAMES]
    reads: list[Any] = [copy.read_only(include_stale=True) for copy in copies]
    with opened_alike(root, tmp_path / "b", standbys=copies) as task:
        assert [copy.is_following for copy in copies] == [False, False]
        assert [copy.is_open for copy in copies] == [False, False]
        put_alike(task, 2)
        assert [each.get("number") for each in reads] == [2, 2]
        current: list[Any] = [copy.read_only() for copy in copies]
        assert [each.get("number") for each in current] == [2, 2]
        assert [copy.lag.offset_lag for copy in copies] == [0, 0]


def _owner(root: ss.StateRoot, tmp_path: Path) -> ss.LoggedStore[Any]:
    return ss.open_logged_store(root, "counts", 0, directory=tmp_path / "own", backend="sqlite")


def _commit(counts: ss.LoggedStore[Any], *numbers: int) -> None:
    for number in numbers:
        counts.store.put("number", number)
        counts.store.put(f"{number}", number)
        counts.commit({INPUT: number})


@pytest.mark.spec("TSK-20", "STB-2", "STB-4")
@pytest.mark.parametrize("is_compacted", [True, False])
def test_what_comes_while_a_copy_is_promoted_is_taken_as_the_log_has_it(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_compacted: bool
) -> None:
    """What compaction has left of commits is none of them: facades of the copy do not show it.

    Where nothing was compacted that the copy lacks, they go on, and the restore says what came.
    """
    with _owner(root, tmp_path) as counts:
        _commit(counts, 1, 2)
        root.object_log("counts").compact()
    made_ready = Standby._made_ready

    def meanwhile(standby: Standby) -> Any:
        ready = made_ready(standby)
        with _owner(root, tmp_path) as counts:
            _commit(counts, 3)
        if is_compacted:
            root.object_log("counts").compact()
        return ready

    monkeypatch.setattr(Standby, "_made_ready", meanwhile)
    with open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as copy:
        copy.poll()
        before: Any = copy.read_only(include_stale=True)
        with copy.promote() as promoted:
            assert dict(promoted.store.range()) == {"number": 3, "1": 1, "2": 2, "3": 3}
            if is_compacted:
                with pytest.raises(StoreClosedError):
                    before.get("number")
            else:
                assert promoted.restored.changelog_rows == 2
                assert before.get("number") == 3
