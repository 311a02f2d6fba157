"""Who is at work beside a reshard in place on a state root in an object store."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from dictionary import shown
from in_memory import INPUT, names_in, new_url, owner, put

import statestores as ss
from statestores.errors import (
    CommitConflictError,
    FencedError,
    InvalidArgumentError,
    StoreLockedError,
    StoreReshardedError,
)
from statestores.failpoints import arm, disarm
from statestores.object_log.documents import Batch, Staged
from statestores.object_log.driver import run
from statestores.object_log.writes import commit_staged
from statestores.resharding import reshard
from statestores.staging.operator_record import (
    OperatorNames,
    OperatorRecord,
    StoreWrite,
)
from statestores.staging.operator_steps import choose_anchor, claim, commit, find_last
from statestores.state_root import StateRoot
from statestores.storage import open_storage
from statestores.tasks import open_task


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    disarm()


@pytest.mark.spec("RSH-18", "OBJ-46", "OBJ-47")
def test_who_comes_first_wins(root: StateRoot, url: str, tmp_path: Path) -> None:
    """Whoever writes or opens a partition while it is resharded; a void changes nothing."""
    put(root, tmp_path / "0", b"a")
    zombie = owner(StateRoot.open(url), 0, tmp_path / "0")
    with pytest.raises(StoreLockedError, match="has an owner"):
        reshard(root, "kept", 3, timeout_ms=0)
    root.object_log("kept").release(0)

    def write() -> None:
        put(StateRoot.open(url), tmp_path / "1", b"c")

    for failpoint, action, error in (
        ("reshard.routed", write, CommitConflictError),
        ("reshard.built", write, CommitConflictError),
        ("objects.reshard.announced", write, CommitConflictError),
        ("reshard.built", lambda: owner(StateRoot.open(url), 1, tmp_path / "2"), StoreLockedError),
    ):
        arm(failpoint, action, at=1)
        with pytest.raises(error):
            reshard(root, "kept", 3)
        disarm()
        assert names_in(root, "kept/generations/") == []
        assert StateRoot.open(url).store("kept").partitions == 2
    root.object_log("kept").release(1)
    # Another one comes first; then a vacuum that takes the next one for dead; then one in time.
    arm("objects.reshard.announced", lambda: reshard(url, "kept", 4), at=1)
    with pytest.raises(StoreReshardedError):
        reshard(root, "kept", 3)
    log = StateRoot.open(url).object_log("kept")
    assert log.partitions == 4
    arm("reshard.built", lambda: [log.vacuum(abandoned_after_ms=-60_000) for _ in "12"], at=1)
    with pytest.raises(CommitConflictError, match="for dead"):
        reshard(url, "kept", 3)
    arm("reshard.built", log.vacuum, at=1)
    assert reshard(url, "kept", 3).partitions == 3
    zombie.store.put(b"late", b"v")
    with pytest.raises(FencedError):
        zombie.commit()
    zombie.close()
    assert [row[0] for row in shown(url, ss.KeyValue("kept"))] == [b"a", b"c"]


@pytest.mark.spec("RSH-12", "RSH-18")
def test_tasks_and_topologies_are_refused_by_name(
    root: StateRoot, url: str, tmp_path: Path
) -> None:
    """Their parts of a commit would be for partitions that are no more."""
    root.add_store(ss.KeyValue("other"), partitions=2)
    assert root.storage is not None
    task = open_task(root, "0_0", ["other", "kept"], local_directory=tmp_path, backend="memory")

    def die() -> None:
        raise KeyboardInterrupt

    task.store("other").put(b"a", b"v")
    task.store("kept").put(b"a", b"v")
    arm("task.recorded", die, at=1)
    with pytest.raises(KeyboardInterrupt):
        task.commit({INPUT: 1})
    disarm()
    for store in ("other", "kept"):
        root.object_log(store).release(0)
    for to in (None, tmp_path / "to"):
        with pytest.raises(InvalidArgumentError, match=r"'0_0' has recorded .*open the task"):
            reshard(root, "kept", 3, to=to)
    again = tmp_path / "again"
    open_task(root, "0_0", ["other", "kept"], local_directory=again, backend="memory").close()
    reshard(root, "kept", 3)
    root.storage.create("@tasks/topology.json", b"{}")
    with pytest.raises(InvalidArgumentError, match="of a topology"):
        reshard(root, "kept", 2)
    assert StateRoot.open(url).store("kept").partitions == 3


@pytest.mark.spec("RSH-12")
def test_half_a_micro_batch_is_not_copied(root: StateRoot, url: str, tmp_path: Path) -> None:
    """A driver died when its anchor had a micro-batch, and the operator's other store had not.

    A reshard into another root did not ask, as that into a directory does: the copy lacked its half
    for ever, since the record stays behind. What has no part for the store keeps nobody out.
    """
    root.add_store(ss.KeyValue("other"), partitions=2)
    storage = root.storage
    assert storage is not None
    names = OperatorNames("counting", url)
    anchor, kept = root.object_log("other").names, root.object_log("kept").names
    staged = {
        1: (Staged(id="w", span=1, clears=False, size=9, checksum=1, position=ss.Position()),)
    }

    def ask(steps: Any) -> Any:
        return run(steps, storage)

    def committed(parts: Any) -> OperatorRecord:
        last = ask(find_last(names, anchor, range(2)))
        proposed = OperatorRecord(
            number=0,
            id="w",
            after=None if last.record is None else last.record.number,
            at_ms=0,
            stores={"kept": StoreWrite(ends={0: 0, 1: 0}, staged=parts)},
            told={},
        )
        record: OperatorRecord = ask(claim(names, proposed))
        ask(commit(names, anchor, record, last, "u"))
        return record

    ask(choose_anchor(names, "other"))
    ask(commit_staged(kept, "joined", {}, batch=Batch(names.membership, 0)))
    committed({})
    reshard(root, "kept", 3, to=tmp_path / "first")
    record = committed(staged)
    for to in (tmp_path / "second", "memory://reshards/half", None):
        with pytest.raises(
            InvalidArgumentError, match=r"'kept' does not have yet.*start its query"
        ):
            reshard(root, "kept", 3, to=to)
    assert not (tmp_path / "second" / "kept").exists()
    assert list(open_storage("memory://reshards/half").list("")) == []
    ask(commit_staged(kept, "w", {}, batch=record.batch(names)))  # it has been carried out
    reshard(root, "kept", 3, to=tmp_path / "second")


@pytest.mark.spec("RSH-18", "TSK-18", "TSK-21")
def test_a_record_that_comes_late_keeps_nobody_out(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """A store of a task was released, and resharded, while its record was on its way.

    The reshard found no record, and the record, when it came, was of a log that had ended. Where
    that store was the first, nobody could tell any more whether it counts, and the task was not to
    be opened; where it was another one, the commit was made, and half of it had no place to go.
    """
    for store in ("other", "kept"):
        with subtests.test(store):
            check_late_records(store, new_url(), tmp_path / store)


def check_late_records(store: str, url: str, tmp_path: Path) -> None:
    """Reshard *store* while a record is on its way: of a task that lives, and of one that dies."""
    root = StateRoot.create(url)
    root.add_store(ss.KeyValue("kept"), partitions=2)
    root.add_store(ss.KeyValue("other"), partitions=2)

    def opened(directory: str, state: StateRoot) -> Any:
        local = tmp_path / directory
        return open_task(state, "0_0", ["other", "kept"], local_directory=local, backend="memory")

    def put(task: Any) -> None:
        for name in ("other", "kept"):
            task.store(name).put(b"a", b"v")
        task.commit({INPUT: 1})

    def move(dies: bool, partitions: int) -> None:
        state = StateRoot.open(url)
        state.object_log(store).release(0)
        reshard(state, store, partitions)
        if dies:
            arm("task.recorded", die, at=1)

    def die() -> None:
        raise KeyboardInterrupt

    for dies, error, partitions in ((False, FencedError, 3), (True, KeyboardInterrupt, 2)):
        task = opened(f"{dies}", StateRoot.open(url))
        arm("task.recording", partial(move, dies, partitions), at=1)
        with pytest.raises(error):
            put(task)
        disarm()
        assert len(names_in(root, "@tasks/0_0/records/")) == dies
        if not dies:
            task.close()
        with opened(f"{dies} again", StateRoot.open(url)) as again:
            assert [again.store(name).get(b"a") for name in ("other", "kept")] == [None, None]
        assert names_in(root, "@tasks/0_0/records/") == []
    with opened("last", StateRoot.open(url)) as last:
        put(last)
    assert [row[0] for row in shown(url, ss.KeyValue("kept"))] == [b"a"]
