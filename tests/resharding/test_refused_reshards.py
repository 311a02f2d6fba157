"""What is not resharded, or not unasked; and what a reshard says before and meanwhile."""

import importlib
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from dictionary import RETENTION_MS, SPECIFICATIONS, by_repr, shown
from in_memory import new_url
from stores_of_two import written_store

import statestores as ss
from statestores.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    MisplacedKeyError,
    StateStoreError,
    StorageError,
    StoreMismatchError,
    StoreReshardedError,
)
from statestores.failpoints import arm, disarm
from statestores.partitioning import partitioner_by_name
from statestores.processing import LocalTopics, Record, Topic, Topology, run
from statestores.resharding import plan_reshard, reshard
from statestores.resharding.fence import Fenced, fenced
from statestores.root_document import TOPOLOGY_NOTE
from statestores.staging.object_write import ObjectWrite
from statestores.staging.staged_write import publish, publishing, stage
from statestores.staging.write_intent import StreamBatch
from statestores.state_root import StateRoot
from statestores.tasks import open_task

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


@pytest.mark.spec("RSH-9")
def test_rows_that_live_in_a_partition_that_is_behind_are_not_lost_unasked(tmp_path: Path) -> None:
    """One partition is two retentions ahead: in one, the rows of the other would have expired."""
    root = tmp_path / "root"
    specification = SPECIFICATIONS["window"]
    StateRoot.create(root).add_store(specification, partitions=2)
    for place, key, time_ms in ((0, b"k5", 100), (1, b"k0", 100 + 2 * RETENTION_MS)):
        with ss.open_logged_store(root, "kept", place, backend="memory") as opened:
            opened.store.put(key, b"v", time_ms)
            opened.commit()
    before = shown(root, specification)

    with pytest.raises(StoreMismatchError, match="1 rows of 'kept' live in a partition"):
        reshard(root, "kept", 1)
    assert shown(root, specification) == before
    assert sorted(each.name for each in (root / "kept").iterdir()) == [
        ".begun",
        ".writes",
        "0",
        "1",
    ]
    done = reshard(root, "kept", 1, drop_expired=True)

    assert (done.expired, done.rows) == (1, (1,))
    assert shown(root, specification) == before[:1]


@pytest.mark.spec("RSH-14")
@pytest.mark.parametrize("kind", ["key-value", "versioned"])
@pytest.mark.parametrize("placed", [[0, 2], [2]])
def test_keys_that_their_writer_places_by_a_rule_of_its_own_stay_where_they_are(
    tmp_path: Path, kind: str, placed: list[int]
) -> None:
    """Each task had a row under one name: the new partition had it twice, and could not be opened.

    Of versions it would have been one history of several tasks. And a key in one partition, the
    wrong one, was moved to where its task did not look.
    """
    root = tmp_path / "root"
    StateRoot.create(root).add_store(SPECIFICATIONS[kind], partitions=3)
    assert partitioner_by_name("murmur2").partition(b"last", 3) == 0
    for number in placed:
        with ss.open_logged_store(root, "kept", number, backend="memory") as opened:
            opened.store.put(b"last", b"v", *([100] if kind == "versioned" else []))
            opened.commit()
    before = shown(root, SPECIFICATIONS[kind])

    with pytest.raises(MisplacedKeyError, match=r"b'last' is in partition 2 .*looks for it in 0"):
        reshard(root, "kept", 2)
    assert StateRoot.open(root).store("kept").partitions == 3
    assert shown(root, SPECIFICATIONS[kind]) == before


@pytest.mark.spec("RSH-11", "RSH-14")
@pytest.mark.parametrize("fails", ["on the way", "at the end"])
def test_a_reshard_into_another_root_that_raises_leaves_nothing_there(
    tmp_path: Path, subtests: pytest.Subtests, fails: str
) -> None:
    """A key was in the wrong partition, and an empty state root was there afterwards.

    `verify` said that nothing was wrong with it: a migration that took this for the end of the
    reshard served a store without rows.
    """
    root = tmp_path / "root"
    StateRoot.create(root).add_store(ss.KeyValue("kept"), partitions=3)
    with ss.open_logged_store(root, "kept", 2 if fails == "on the way" else 0) as opened:
        opened.store.put(b"last", b"v")
        opened.commit()
    StateRoot.create(tmp_path / "root of others").add_store(ss.KeyValue("other"), partitions=1)
    (tmp_path / "empty" / "kept").mkdir(parents=True)

    def fail() -> None:
        raise OSError(28, "No space left on device")

    for place in ("new/and/more", "empty", "root of others"):
        with subtests.test(place):
            before = _everything(tmp_path)
            if fails == "at the end":
                arm("reshard.built", fail)
            try:
                with pytest.raises((MisplacedKeyError, OSError)):
                    reshard(root, "kept", 2, to=tmp_path / place)
            finally:
                disarm()

            assert _everything(tmp_path) == before
            if fails == "at the end":
                reshard(root, "kept", 2, to=tmp_path / place)
                assert shown(tmp_path / place, ss.KeyValue("kept")) == by_repr([(b"last", b"v")])


def _everything(directory: Path) -> dict[str, bytes | None]:
    """Return the files and directories, but for the names of lock holders."""
    return {
        str(each): each.read_bytes() if each.is_file() and each.name != "OWNER.lock" else None
        for each in directory.rglob("*")
        if directory / "root" not in each.parents
    }


@pytest.mark.spec("RSH-10")
def test_a_batch_of_a_stream_that_comes_again_is_known_afterwards(tmp_path: Path) -> None:
    """A streaming write that was killed repeats its batch, whatever the partitions are now."""
    root, specification = tmp_path / "root", ss.KeyValue("kept")
    StateRoot.create(root).add_store(specification, partitions=2)
    state = StateRoot.open(root)
    staged = stage(root, specification, 2, "first", "one", [])
    publish(state, "kept", "first", [staged], batch=StreamBatch(stream="s", number=4))
    reshard(root, "kept", 3)
    state = StateRoot.open(root)
    staged = stage(root, specification, 3, "again", "one", [])
    publish(state, "kept", "again", [staged], batch=StreamBatch(stream="s", number=4))
    with publishing(state, "kept") as publisher:
        assert publisher.has(StreamBatch(stream="s", number=4))
        assert not publisher.has(StreamBatch(stream="s", number=5))


@pytest.mark.spec("RSH-11")
def test_another_root_gets_the_store_and_this_one_keeps_it(
    tmp_path: Path, random_source: random.Random
) -> None:
    """The new root is one that every release reads, and a second reshard into it is refused."""
    root, other = tmp_path / "root", tmp_path / "other"
    written = written_store(root, "session", random_source)
    reshard(root, "kept", 5, to=other)

    assert shown(other, written.specification) == shown(root, written.specification)
    assert StateRoot.open(root).store("kept").partitions == 2
    assert StateRoot.open(other).store("kept").partitions == 5
    assert '"format": 1' in (other / "statestores.json").read_text()
    with pytest.raises(StoreMismatchError, match="has a store 'kept' already"):
        reshard(root, "kept", 3, to=other)
    with pytest.raises(InvalidArgumentError, match="leave to"):
        reshard(root, "kept", 3, to=root)
    # It was made there, and then readers of old partitions took that root for the one they are in.
    with pytest.raises(InvalidArgumentError, match="inside the state root"):
        reshard(root, "kept", 3, to=root / "kept")
    assert not (root / "kept" / "statestores.json").exists()


@pytest.mark.spec("RSH-12")
def test_what_cannot_be_resharded_is_refused_by_name(tmp_path: Path) -> None:
    """Stores that nobody partitions, those of a topology, and numbers that are none."""
    root = tmp_path / "root"
    state = StateRoot.create(root)
    state.add_store(ss.KeyValue("queue"), partitions=2, placement="task")
    state.add_store(ss.KeyValue("kept"), partitions=2)
    with pytest.raises(InvalidArgumentError, match="nobody partitions the store 'queue'"):
        reshard(root, "queue", 3)
    for number in (0, 100_001):
        with pytest.raises(InvalidArgumentError, match="partitions must be from 1"):
            reshard(root, "kept", number)
    with pytest.raises(InvalidTypeError, match="partitions must be an int"):
        reshard(root, "kept", "3")  # type: ignore[arg-type]  # what is refused
    recorded = root / "@tasks" / "0_0" / "commit"
    recorded.mkdir(parents=True)
    with pytest.raises(InvalidArgumentError, match="has recorded a commit"):
        reshard(root, "kept", 3)
    recorded.rmdir()
    (root / TOPOLOGY_NOTE).write_text("{}")
    with pytest.raises(InvalidArgumentError, match="the state of a topology"):
        reshard(root, "kept", 3)


@pytest.mark.spec("RSH-12", "RSH-11")
def test_a_topology_keeps_its_partitions_and_its_stores_can_be_copied(tmp_path: Path) -> None:
    """In place they are refused; on a copy of another number the topology is not run."""
    words, lines = Topology("words"), Topic("words", partitions=2)
    words.stream(lines).group_by_key().count(ss.KeyValue("kept", value=ss.int64))
    topics, state, copy = tmp_path / "topics", tmp_path / "state", tmp_path / "copy"

    def go(state: Path) -> None:
        run(words, state=state, topics=topics, until="idle", backend="memory")

    with LocalTopics(topics) as feed:
        feed.topic(lines).append(Record(key, b"", 1) for key in (b"a", b"b"))
    go(state)
    with pytest.raises(InvalidArgumentError, match="the state of a topology"):
        reshard(state, "kept", 3)
    reshard(state, "kept", 3, to=copy)

    stored = ss.TimestampedKeyValue("kept")
    assert [row[0] for row in shown(copy, stored)] == [b"a", b"b"]
    assert shown(copy, stored) == shown(state, stored)
    with pytest.raises(StoreMismatchError, match="'kept' has 3 partitions, expected 2"):
        go(copy)
    go(state)


@pytest.mark.spec("RSH-12", "TSK-3")
def test_a_task_that_dies_while_a_reshard_waits_for_it_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a commit is recorded is asked where nobody can record one any more.

    A reshard found no recorded commit, and waited for the task that had the store open. That
    recorded one and died; the reshard went on, half of the commit was lost, and the task could not
    be opened any more. A reshard into another root did not ask, and the copy had half of it.
    """
    root = tmp_path / "root"
    state = StateRoot.create(root)
    for name in ("kept", "other"):
        state.add_store(ss.KeyValue(name), partitions=1)
    task = open_task(root, "0_0", ["kept", "other"], backend="memory")

    def die() -> None:
        raise KeyboardInterrupt

    @contextmanager
    def dying(*waiting: Any) -> Iterator[Fenced]:
        for name in ("kept", "other"):
            task.store(name).put(b"k", b"v")
        arm("task.recorded", die)
        with pytest.raises(KeyboardInterrupt):
            task.commit({})
        task.close()
        with fenced(*waiting) as fence:
            yield fence

    module = importlib.import_module("statestores.resharding.reshard")
    monkeypatch.setattr(module, "fenced", dying)
    try:
        with pytest.raises(InvalidArgumentError, match="has recorded a commit"):
            reshard(root, "kept", 2)
    finally:
        disarm()
        task.close()
    monkeypatch.setattr(module, "fenced", fenced)
    with pytest.raises(InvalidArgumentError, match="has recorded a commit"):
        reshard(root, "kept", 2, to=tmp_path / "other")
    with open_task(root, "0_0", ["kept", "other"], backend="memory") as again:
        assert [again.store(name).get(b"k") for name in ("kept", "other")] == [b"v", b"v"]


@pytest.mark.spec("RSH-12")
def test_a_micro_batch_that_was_committed_and_not_carried_out_is_waited_for(tmp_path: Path) -> None:
    """Its rows are split by the old partitions, and other stores of the operator may have it.

    Then those were resharded: the query could not start any more, as its stores had several numbers
    of partitions, and the store that lacked the micro-batch waited for the query.
    """
    root, specification, other = tmp_path / "root", ss.KeyValue("kept"), ss.KeyValue("other")
    state = StateRoot.create(root)
    for each in (specification, other):
        state.add_store(each, partitions=2)
    record = root / "@stateful" / "count" / "batch.json"
    record.parent.mkdir(parents=True)
    record.write_text(
        '{"operator": "count", "query": "q", "number": 3, "stores": {"kept": {}, "other": {}}}'
    )
    with pytest.raises(InvalidArgumentError, match="start its query once"):
        reshard(root, "kept", 3)
    staged = stage(root, specification, 2, "first", "one", [])
    publish(state, "kept", "first", [staged], batch=StreamBatch(stream="count@q", number=3))
    with pytest.raises(InvalidArgumentError, match="'other' does not have yet"):
        reshard(root, "kept", 3)
    staged = stage(root, other, 2, "first", "one", [])
    publish(state, "other", "first", [staged], batch=StreamBatch(stream="count@q", number=3))
    reshard(root, "kept", 3)

    assert StateRoot.open(root).store("kept").partitions == 3


@pytest.mark.spec("RSH-10", "RSH-11", "RSH-12")
def test_a_store_in_an_object_store_is_resharded_into_a_directory(tmp_path: Path) -> None:
    """The object store keeps it as it was.

    Batches of streams were forgotten on the way: a stream that went on over the new root, after it
    was killed, wrote its last batch a second time.
    """
    root = StateRoot.create("memory://reshard")
    specification = ss.KeyValue("kept")
    root.add_store(specification, partitions=2)
    partitioner = partitioner_by_name("murmur2")
    rows = [(b"%d" % number, b"v") for number in range(50)]
    for place in range(2):
        with ss.open_logged_store(
            root, "kept", place, backend="memory", directory=tmp_path / str(place)
        ) as opened:
            opened.store.put_all(row for row in rows if partitioner.partition(row[0], 2) == place)
            opened.commit({ss.TopicPartition("input", place): 7})
    log, batch = root.object_log("kept"), StreamBatch(stream="s", number=4)
    assert ObjectWrite(log=log, specification=specification, staged=(), batch=batch).commit()
    done = reshard(root, "kept", 3, to=tmp_path / "root")

    with publishing(StateRoot.open(tmp_path / "root"), "kept") as publisher:
        assert publisher.has(batch)
        assert not publisher.has(StreamBatch(stream="s", number=5))
    assert shown(tmp_path / "root", specification) == by_repr(rows)
    assert done.position == {ss.TopicPartition("input", n): 7 for n in (0, 1)}
    assert StateRoot.open("memory://reshard").store("kept").partitions == 2


@pytest.mark.spec("RSH-13")
@pytest.mark.parametrize("where", ["reshard.routed", "snapshot.data-written", "reshard.built"])
def test_a_full_disk_leaves_the_store_as_it_was(
    tmp_path: Path, random_source: random.Random, where: str
) -> None:
    """And nothing besides it."""
    root = tmp_path / "root"
    written = written_store(root, "key-value", random_source, count=30)
    before = written.shown()

    def fail() -> None:
        raise OSError(28, "No space left on device")

    arm(where, fail, at=1)
    try:
        with pytest.raises((OSError, StorageError)):
            reshard(root, "kept", 3)
    finally:
        disarm()

    assert written.shown() == before
    assert sorted(each.name for each in (root / "kept").iterdir()) == [
        ".begun",
        ".writes",
        "0",
        "1",
    ]
    reshard(root, "kept", 3)

    assert written.shown() == before


@pytest.mark.spec("RSH-1")
def test_a_plan_says_how_much_there_is(tmp_path: Path, random_source: random.Random) -> None:
    """And changes nothing."""
    root = tmp_path / "root"
    written_store(root, "key-value", random_source, count=50)
    names = sorted(str(each) for each in root.rglob("*"))
    plan = plan_reshard(root, "kept", 3)

    assert (plan.before, plan.partitions) == (2, 3)
    assert plan.changes + plan.snapshot_rows > 0
    assert plan.bytes > 0
    assert sorted(str(each) for each in root.rglob("*")) == names


@pytest.mark.spec("RSH-26")
def test_a_plan_is_refused_what_the_reshard_would_be(
    tmp_path: Path, random_source: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--to` was not looked at, and what a dry run had said would be done was refused.

    Where the target lies in the directory of a store, that was after all partitions were written.
    """
    root, other, url = tmp_path / "root", tmp_path / "other", new_url()
    written_store(root, "key-value", random_source, count=20)
    for target in (other, url):
        reshard(root, "kept", 3, to=target)
    ss.open_store(tmp_path / "single", ss.KeyValue("single"), backend="sqlite").close()
    (tmp_path / "file").write_text("")
    (tmp_path / "read-only").mkdir()
    names = sorted(str(each) for each in tmp_path.rglob("*"))
    for to, error in (
        (other, StoreMismatchError),
        (url, StoreMismatchError),
        (tmp_path / "single", StoreMismatchError),
        (other / "kept" / "inner", StoreMismatchError),
        (root / "inner", InvalidArgumentError),
        (tmp_path / "file", StorageError),
    ):
        with pytest.raises(error) as planned:
            plan_reshard(root, "kept", 3, to=to)
        with pytest.raises(error) as done:
            reshard(root, "kept", 3, to=to)
        assert type(planned.value) is type(done.value), to
        if error is not StorageError:  # which names what could not be made
            assert str(planned.value) == str(done.value)
    # Whoever runs the tests may be allowed everything.
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != tmp_path / "read-only")
    with pytest.raises(StorageError, match="no directory in which this user may write"):
        plan_reshard(root, "kept", 3, to=tmp_path / "read-only" / "new")
    assert plan_reshard(root, "kept", 3, to=tmp_path / "new" / "root").partitions == 3

    assert sorted(str(each) for each in tmp_path.rglob("*")) == names


def test_progress_counts_each_row_twice(tmp_path: Path, random_source: random.Random) -> None:
    """Read, and written; and what it raises ends the reshard before it counts."""
    root = tmp_path / "root"
    written = written_store(root, "key-value", random_source, count=50)
    seen: list[int] = []
    reshard(root, "kept", 3, progress=lambda progress: seen.append(progress.rows))

    assert seen[-1] == 2 * len(written.model.shown())

    def stop(_progress: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reshard(root, "kept", 4, progress=stop)
    assert StateRoot.open(root).store("kept").partitions == 3


def test_the_error_is_in_the_tree() -> None:
    """Whoever catches a mismatch catches it."""
    assert issubclass(StoreReshardedError, StoreMismatchError)
    assert issubclass(StoreReshardedError, StateStoreError)
