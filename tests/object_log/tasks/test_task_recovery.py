"""An opening of a task in an object store beside others: what it looks at, and what it leaves."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import statestores as ss
from statestores import failpoints
from statestores.errors import FencedError, StoreClosedError, StoreCorruptedError
from statestores.tasks import Standby, Task, open_standby, open_task
from statestores.tasks.objects import commit_steps, opening, recovery
from statestores.tasks.objects.task_names import RecordName, TaskNames

INPUT = ss.TopicPartition("words", 0)
NAMES = ("counts", "rates")


@pytest.fixture
def root(url: str) -> ss.StateRoot:
    """A state root with two stores that belong together."""
    state = ss.StateRoot.create(url)
    for name in NAMES:
        state.add_store(ss.KeyValue(name, key=ss.utf8, value=ss.int64), partitions=1)
    return state


@pytest.fixture(autouse=True)
def _nothing_stays_armed() -> Iterator[None]:
    yield
    failpoints.disarm()


def _opened(root: ss.StateRoot, directory: Path, **how: Any) -> Task:
    return open_task(root, "0_0", NAMES, local_directory=directory, backend="memory", **how)


def _put(task: Task, number: int) -> None:
    for name in NAMES:
        task.store(name).put("number", number)
    task.commit({INPUT: number})


def _numbers(task: Task) -> list[Any]:
    return [task.store(name).get("number") for name in NAMES]


def _records(root: ss.StateRoot) -> list[str]:
    assert root.storage is not None
    return [each.name for each in root.storage.list("@tasks/0_0/records/")]


def _half(root: ss.StateRoot, directory: Path) -> None:
    """Leave a commit of which ``counts`` has its part, and ``rates`` has not."""

    def die() -> None:
        raise OSError(5, "Input/output error")

    with _opened(root, directory) as task:
        failpoints.arm("objects.append.before", die, at=2)
        with pytest.raises(OSError, match="Input/output"):
            _put(task, 1)
        failpoints.disarm()
    assert len(_records(root)) == 1


def _take(root: ss.StateRoot, name: str, directory: Path) -> None:
    """Have another program open a store by itself, and close it."""
    with ss.open_logged_store(root, name, 0, directory=directory, backend="memory"):
        pass


@pytest.mark.spec("TSK-17", "TSK-18")
def test_nothing_is_carried_out_before_every_store_is_the_task_s(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One was taken while the others were: the task would be opened, and could not commit."""
    _half(root, tmp_path / "a")
    finish = recovery.finish_commits

    def taken_before(*given: Any) -> Any:
        _take(root, "counts", tmp_path / "alone")
        return finish(*given)

    with monkeypatch.context() as patched:
        patched.setattr(opening, "finish_commits", taken_before)
        with pytest.raises(FencedError, match="while the task was being opened"):
            _opened(root, tmp_path / "b")
    assert len(_records(root)) == 1
    with _opened(root, tmp_path / "b") as task:
        assert _numbers(task) == [1, 1]


@pytest.mark.spec("TSK-18")
@pytest.mark.parametrize("is_taken", [True, False])
def test_what_contradicts_an_old_view_is_no_damage(
    root: ss.StateRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_taken: bool
) -> None:
    """Somebody has the stores by now: who was told of damage would put an old copy back."""
    with _opened(root, tmp_path / "a") as task:
        _put(task, 1)

    def contradicts(*given: object) -> None:
        if is_taken:
            _take(root, "rates", tmp_path / "alone")
        raise StoreCorruptedError("it was begun anew")

    monkeypatch.setattr(recovery, "_check_there", contradicts)
    with pytest.raises(FencedError if is_taken else StoreCorruptedError):
        _opened(root, tmp_path / "b")


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
    with _opened(root, tmp_path / "a"):
        assert len(looks) == 1
    _half(root, tmp_path / "a")
    looks.clear()
    with _opened(root, tmp_path / "b") as task:
        assert _numbers(task) == [1, 1]

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
    with _opened(root, tmp_path / "a") as task:
        _put(task, 1)

    def copy_of(name: str) -> Standby:
        copy = open_standby(root, name, 0, tmp_path / "b" / name / "0", backend="memory")
        copy.poll()
        copy.follow(3_600.0)
        return copy

    copies = [copy_of(name) for name in NAMES]
    reads: list[Any] = [copy.read_only(include_stale=True) for copy in copies]
    with _opened(root, tmp_path / "b", standbys=copies) as task:
        assert [copy.is_following for copy in copies] == [False, False]
        assert [copy.is_open for copy in copies] == [False, False]
        _put(task, 2)
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
