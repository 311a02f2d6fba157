"""A store in other partitions: the same content, where readers and writers look for it."""

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from dictionary import RETENTION_MS, SPECIFICATIONS, Written, by_repr, positions, shown

import statestores as ss
from statestores.changelog import ChangelogReader
from statestores.errors import (
    CapabilityNotSupportedError,
    InvalidArgumentError,
    InvalidTypeError,
    MissingDriverError,
    OffsetOutOfRangeError,
    StateStoreError,
    StorageError,
    StoreLockedError,
    StoreMismatchError,
    StoreNotFoundError,
    StoreReshardedError,
)
from statestores.failpoints import FAILPOINTS, arm, disarm
from statestores.partitioning import partitioner_by_name
from statestores.reading.locations import Partition, locate
from statestores.reading.partition_reader import PartitionReader
from statestores.registry import load_backend
from statestores.resharding import plan_reshard, reshard
from statestores.root_document import TOPOLOGY_NOTE
from statestores.staging.staged_write import publish, publishing, stage
from statestores.staging.write_intent import StreamBatch
from statestores.state_root import StateRoot
from statestores.tasks import open_standby, open_task
from statestores.verification import verify

LITTLE_MEMORY = 20_000
"""So little that everything is spilled, in several runs and pieces."""

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


def _written(
    root: Path,
    kind: str,
    random_source: random.Random,
    *,
    backend: str = "sqlite",
    count: int = 150,
) -> Written:
    """Return a store of two partitions with random content."""
    specification = SPECIFICATIONS[kind]
    StateRoot.create(root).add_store(specification, partitions=2)
    written = Written(root, specification, backend)
    written.put(random_source, count)
    return written


@pytest.mark.spec("RSH-1", "RSH-2", "RSH-3", "RSH-5")
@pytest.mark.parametrize("kind", SPECIFICATIONS)
def test_the_content_is_that_of_a_dictionary_in_any_number_of_partitions(
    tmp_path: Path, random_source: random.Random, kind: str
) -> None:
    """In one, three and 64 partitions and back, with writes in between, everything is as it was."""
    written = _written(tmp_path / "root", kind, random_source)
    for partitions in (1, 3, 7, 2):
        reshard(tmp_path / "root", "kept", partitions, memory_bytes=LITTLE_MEMORY)

        assert written.shown() == by_repr(written.model.shown()), partitions
        if partitions < 10:
            written.put(random_source, 30)

            assert written.shown() == by_repr(written.model.shown()), partitions
    failures = [each for each in verify(tmp_path / "root") if each.is_failure]

    assert failures == []


@pytest.mark.spec("RSH-1")
@pytest.mark.parametrize("backend", ["memory", "rocksdb", "leveldb"])
def test_every_engine_is_made_anew(
    tmp_path: Path, random_source: random.Random, backend: str
) -> None:
    """An engine beside the old partitions, or elsewhere, is not needed, and a new one is made."""
    try:
        load_backend(backend)
    except MissingDriverError as error:
        pytest.skip(str(error))
    written = _written(tmp_path / "root", "versioned", random_source, backend=backend, count=60)
    reshard(tmp_path / "root", "kept", 3)
    written.put(random_source, 20)

    assert written.shown() == by_repr(written.model.shown())


@pytest.mark.soak
@pytest.mark.spec("RSH-1", "RSH-2")
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("kind", SPECIFICATIONS)
def test_long_lives_with_many_reshards(tmp_path: Path, kind: str, seed: int) -> None:
    """The same for many contents and orders of numbers."""
    random_source = random.Random(seed)
    written = _written(tmp_path / "root", kind, random_source, count=1_000)
    for partitions in random_source.choices([1, 2, 3, 5, 7, 64], k=8):
        reshard(tmp_path / "root", "kept", partitions, memory_bytes=LITTLE_MEMORY)

        assert written.shown() == by_repr(written.model.shown()), partitions
        written.put(random_source, 100, keys=200)

        assert written.shown() == by_repr(written.model.shown()), partitions


@pytest.mark.spec("RSH-2")
def test_each_key_is_where_its_partitioner_looks(
    tmp_path: Path, random_source: random.Random
) -> None:
    """By the engine of the one partition that the partitioner names."""
    written = _written(tmp_path / "root", "crc32", random_source)
    reshard(tmp_path / "root", "kept", 5)
    partitioner = partitioner_by_name("crc32")
    for key, value in written.model.shown():
        place = partitioner.partition(key, 5)
        with ss.open_logged_store(tmp_path / "root", "kept", place, backend="memory") as opened:
            assert opened.store.get(key) == value


@pytest.mark.spec("RSH-4", "RSH-6")
def test_logs_begin_after_everything_that_was_and_keep_the_position(
    tmp_path: Path, random_source: random.Random
) -> None:
    """An offset of before is none of now, and the input is read on where it was."""
    root = tmp_path / "root"
    _written(root, "key-value", random_source)
    state = StateRoot.open(root)
    before, ends = positions(root), []
    for number in range(2):
        with ChangelogReader.open(state.partition("kept", number).changelog, "key-value") as log:
            ends.append(log.end_offset)
    done = reshard(root, "kept", 3)

    assert done.offset == max(ends)
    least = {p: min(each[p] for each in before) for p in before[0]}
    assert positions(root) == [least] * 3
    assert done.behind == (ss.TopicPartition("input", 0),)
    state = StateRoot.open(root)
    for number in range(3):
        with ChangelogReader.open(state.partition("kept", number).changelog, "key-value") as log:
            assert (log.first_offset, log.end_offset) == (max(ends) + 1, max(ends) + 1)
        with ss.open_logged_store(root, "kept", number, backend="memory") as opened:
            assert opened.next_offset(ss.TopicPartition("input", 0)) == min(least.values()) + 1


@pytest.mark.spec("RSH-6")
def test_an_engine_elsewhere_that_is_from_before_is_made_anew(tmp_path: Path) -> None:
    """Its rows would be those of other keys: no offset that it has is one of the new changelog."""
    root, local = tmp_path / "root", tmp_path / "local"
    StateRoot.create(root).add_store(ss.KeyValue("kept"), partitions=2)
    partitioner = partitioner_by_name("murmur2")
    for number in range(100):
        key = b"%d" % number
        place = partitioner.partition(key, 2)
        with ss.open_logged_store(
            root, "kept", place, backend="sqlite", directory=local / str(place)
        ) as opened:
            opened.store.put(key, key)
            opened.commit()
    reshard(root, "kept", 3)
    found = []
    for place in range(3):
        with ss.open_logged_store(
            root, "kept", place, backend="sqlite", directory=local / str(place)
        ) as opened:
            found += [(key, place) for key, _ in opened.store.range()]

    assert sorted(found) == sorted(
        (key, partitioner.partition(key, 3)) for key in (b"%d" % number for number in range(100))
    )


@pytest.mark.spec("RSH-7")
@pytest.mark.parametrize("before", [2, 3])
def test_no_read_at_any_moment_is_of_some_partitions_from_before_and_some_from_after(
    tmp_path: Path, random_source: random.Random, before: int
) -> None:
    """Read at every step: by a root of before all of the old, or an error; by a new one, all."""
    root = tmp_path / "root"
    written = _written(root, "session", random_source, count=60)
    if before == 3:
        reshard(root, "kept", 3)
    content, stale = written.shown(), StateRoot.open(root)
    steps: list[tuple[str, str]] = []

    def look(step: str) -> None:
        assert written.shown() == content
        try:
            assert shown(root, written.specification, stale) == content
        except StoreReshardedError:
            steps.append((step, "refused"))
        else:
            steps.append((step, "old"))

    for name in (each for each in FAILPOINTS if each.startswith("reshard.")):
        arm(name, partial(look, name))
    beginning = PartitionReader(stale.partition("kept", 0), written.specification).rows()
    try:
        reshard(root, "kept", 5)
    finally:
        disarm()
    removed = [seen for step, seen in steps if step == "reshard.retired"]

    assert {seen for step, seen in steps if step != "reshard.retired"} == {"old"}
    assert removed
    assert removed[-1] == "refused"
    with pytest.raises(StoreReshardedError):
        list(beginning)


@pytest.mark.soak
@pytest.mark.spec("RSH-7")
def test_readers_beside_many_reshards_see_all_or_are_told(
    tmp_path: Path, random_source: random.Random
) -> None:
    """They open the root, and read whenever the machine lets them."""
    root = tmp_path / "root"
    written = _written(root, "versioned", random_source)
    content, ended, seen = written.shown(), Event(), Counter[str]()

    def read() -> None:
        while not ended.is_set():
            try:
                found = written.shown()
            except StoreReshardedError:
                seen["told"] += 1
            else:
                seen["whole" if found == content else "wrong"] += 1

    with ThreadPoolExecutor(2) as pool:
        reading = [pool.submit(read) for _ in range(2)]
        for partitions in random_source.choices([1, 2, 3, 5, 7, 8], k=60):
            reshard(root, "kept", partitions)
        ended.set()
        for each in reading:
            each.result()

    assert seen["wrong"] == 0
    assert seen["whole"] > 0


@pytest.mark.spec("RSH-6", "RSH-7")
def test_a_standby_is_told_and_its_copy_is_made_anew(
    tmp_path: Path, random_source: random.Random
) -> None:
    """It would wait for ever for a changelog that is gone, and answer with what was."""
    root, copy = tmp_path / "root", tmp_path / "copy"
    _written(root, "timestamped", random_source, count=40)
    with open_standby(root, "kept", 0, copy, backend="sqlite") as standby:
        standby.poll()
        reshard(root, "kept", 3)
        with pytest.raises(StoreReshardedError, match="open the state root again"):
            standby.poll()
        with pytest.raises(StoreReshardedError, match="open the state root again"):
            _ = standby.lag
    with open_standby(root, "kept", 0, copy, backend="sqlite") as standby:
        standby.poll()
        copied: Any = standby.read_only(include_stale=True)
        found = dict(copied.range())
    reader = PartitionReader(
        StateRoot.open(root).partition("kept", 0), SPECIFICATIONS["timestamped"]
    )
    rows = [row for batch in reader.rows() for row in batch.to_pylist()]

    assert {key: each.value for key, each in found.items()} == {r["key"]: r["value"] for r in rows}


@pytest.mark.spec("RSH-1", "RSH-7")
def test_a_task_opens_the_new_partitions(tmp_path: Path) -> None:
    """With its engines beside the changelogs, where it finds them again, and none of before."""
    root = tmp_path / "root"
    StateRoot.create(root).add_store(ss.KeyValue("kept"), partitions=1)
    for partitions in (1, 2, 3):
        reshard(root, "kept", partitions)
        for number in range(partitions):
            with open_task(root, f"0_{number}", ["kept"], backend="sqlite") as task:
                task.store("kept").put(b"%d-%d" % (partitions, number), b"v")
                task.commit({})
    home = root / "kept" / "generation-2"

    assert sorted(each.name for each in (root / "kept").iterdir()) == ["generation-2"]
    assert all((home / str(number) / "engine").is_dir() for number in range(3))
    rows = shown(root, ss.KeyValue("kept"))
    assert [key for key, _ in rows] == [b"%d-%d" % (p, n) for p in (1, 2, 3) for n in range(p)]


@pytest.mark.spec("RSH-7", "LAY-32")
@pytest.mark.parametrize("keep_old", [False, True])
def test_whoever_opened_the_root_before_is_told_or_reads_what_was(
    tmp_path: Path, random_source: random.Random, keep_old: bool
) -> None:
    """A reader sees the old partitions or an error, and a writer never writes into them."""
    root = tmp_path / "root"
    written = _written(root, "key-value", random_source)
    stale, before = StateRoot.open(root), written.shown()
    specification = written.specification
    readers = [PartitionReader(stale.partition("kept", n), specification) for n in (0, 1)]
    reshard(root, "kept", 3, keep_old=keep_old)

    def read(reader: PartitionReader) -> list[Any]:
        return [
            row
            for batch in reader.rows()
            for row in map(tuple, map(dict.values, batch.to_pylist()))
        ]

    if keep_old:
        assert sorted([row for reader in readers for row in read(reader)], key=repr) == before
    for reader in [] if keep_old else readers:
        with pytest.raises(StoreReshardedError, match="open the state root again"):
            read(reader)
        with pytest.raises(StoreReshardedError, match="open the state root again"):
            next(reader.changes(0))
    with pytest.raises(StoreReshardedError, match="open the state root again"):
        ss.open_logged_store(stale, "kept", 0, backend="memory")
    staged = stage(root, specification, 3, "late", "one", [])
    with pytest.raises(StoreReshardedError, match="open the state root again"):
        publish(stale, "kept", "late", [staged])
    reshard(root, "kept", 3)  # as it is; but the old partitions go

    assert sorted(each.name for each in (root / "kept").iterdir()) == ["generation-1"]
    assert '"format": 2' in (root / "statestores.json").read_text()
    assert written.shown() == before


@pytest.mark.spec("RSH-6")
def test_a_change_feed_of_before_is_refused(tmp_path: Path, random_source: random.Random) -> None:
    """Also one that had read everything: it cannot know that nothing was between."""
    root = tmp_path / "root"
    _written(root, "key-value", random_source)
    specification = SPECIFICATIONS["key-value"]
    end = PartitionReader(StateRoot.open(root).partition("kept", 0), specification).end_offset
    reshard(root, "kept", 3)
    reshard(root, "kept", 2)
    reader = PartitionReader(StateRoot.open(root).partition("kept", 0), specification)

    with pytest.raises(OffsetOutOfRangeError, match="has been resharded"):
        next(reader.changes(end))


@pytest.mark.spec("RSH-8")
def test_an_open_store_keeps_everybody_from_resharding_it(
    tmp_path: Path, random_source: random.Random
) -> None:
    """And the other way round: while it is resharded, nobody can open it."""
    root = tmp_path / "root"
    written = _written(root, "key-value", random_source)
    with (
        ss.open_logged_store(root, "kept", 1, backend="sqlite"),
        pytest.raises(StoreLockedError, match="reshard of 'kept'"),
    ):
        reshard(root, "kept", 3, timeout_ms=0)
    refused: list[str] = []

    def write() -> None:
        with pytest.raises(StoreLockedError) as caught:
            ss.open_logged_store(root, "kept", 0, backend="sqlite")
        refused.append(str(caught.value))
        with pytest.raises(StoreLockedError, match="reshard of 'kept'"):
            reshard(root, "kept", 4, timeout_ms=0)

    arm("reshard.built", write)
    try:
        reshard(root, "kept", 3)
    finally:
        disarm()

    assert len(refused) == 1
    assert written.shown() == by_repr(written.model.shown())


@pytest.mark.spec("LAY-32")
def test_a_store_may_have_the_name_of_a_generation(tmp_path: Path) -> None:
    """And a partition of a resharded store is found by its number."""
    root, name = tmp_path / "root", "generation-1"
    StateRoot.create(root).add_store(ss.KeyValue(name), partitions=1)
    with ss.open_logged_store(root, name, backend="memory") as opened:
        opened.store.put(b"k", b"v")
        opened.commit()
    found = locate(root / name / "0")
    assert isinstance(found, Partition)
    assert (found.root is not None, found.number) == (True, 0)
    reshard(root, name, 2)
    moved = locate(root / name / "1")

    assert isinstance(moved, Partition)
    assert moved.path == root / name / "generation-1" / "1"
    again = locate(moved.path)
    assert isinstance(again, Partition)
    assert (again.path, again.number) == (moved.path, 1)
    rows = [r for n in range(2) for b in _reader(root, name, n).rows() for r in b.to_pylist()]
    assert rows == [{"key": b"k", "value": b"v"}]
    with pytest.raises(StoreNotFoundError):
        locate(root / name / "2")


def _reader(root: Path, name: str, number: int) -> PartitionReader:
    state = StateRoot.open(root)
    return PartitionReader(state.partition(name, number), state.store(name).specification)


@pytest.mark.spec("RSH-9")
def test_rows_that_live_in_a_partition_that_is_behind_are_not_lost_unasked(tmp_path: Path) -> None:
    """One partition is two retentions ahead: in one, the rows of the other would have expired."""
    root = tmp_path / "root"
    specification = SPECIFICATIONS["window"]
    StateRoot.create(root).add_store(specification, partitions=2)
    for place, time_ms in ((0, 100), (1, 100 + 2 * RETENTION_MS)):
        with ss.open_logged_store(root, "kept", place, backend="memory") as opened:
            opened.store.put(b"k%d" % place, b"v", time_ms)
            opened.commit()
    before = shown(root, specification)

    with pytest.raises(StoreMismatchError, match="1 rows of 'kept' live in a partition"):
        reshard(root, "kept", 1)
    assert shown(root, specification) == before
    assert sorted(each.name for each in (root / "kept").iterdir()) == [".writes", "0", "1"]
    done = reshard(root, "kept", 1, drop_expired=True)

    assert (done.expired, done.rows) == (1, (1,))
    assert shown(root, specification) == before[1:]


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
    written = _written(root, "session", random_source)
    reshard(root, "kept", 5, to=other)

    assert shown(other, written.specification) == shown(root, written.specification)
    assert StateRoot.open(root).store("kept").partitions == 2
    assert StateRoot.open(other).store("kept").partitions == 5
    assert '"format": 1' in (other / "statestores.json").read_text()
    with pytest.raises(StoreMismatchError, match="has a store 'kept' already"):
        reshard(root, "kept", 3, to=other)
    with pytest.raises(InvalidArgumentError, match="leave to"):
        reshard(root, "kept", 3, to=root)


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


@pytest.mark.spec("RSH-12")
def test_a_micro_batch_that_was_committed_and_not_carried_out_is_waited_for(tmp_path: Path) -> None:
    """Its rows are split by the old partitions, and other stores of the operator may have it."""
    root, specification = tmp_path / "root", ss.KeyValue("kept")
    state = StateRoot.create(root)
    state.add_store(specification, partitions=2)
    record = root / "@stateful" / "count" / "batch.json"
    record.parent.mkdir(parents=True)
    record.write_text('{"operator": "count", "query": "q", "number": 3, "stores": {"kept": {}}}')
    with pytest.raises(InvalidArgumentError, match="start its query once"):
        reshard(root, "kept", 3)
    staged = stage(root, specification, 2, "first", "one", [])
    publish(state, "kept", "first", [staged], batch=StreamBatch(stream="count@q", number=3))
    reshard(root, "kept", 3)

    assert StateRoot.open(root).store("kept").partitions == 3


@pytest.mark.spec("RSH-12", "RSH-11")
def test_a_store_in_an_object_store_is_resharded_into_a_directory(tmp_path: Path) -> None:
    """In place is refused by name; its log has no snapshots to begin with."""
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
    with pytest.raises(CapabilityNotSupportedError, match="--to"):
        reshard(root, "kept", 3)
    done = reshard(root, "kept", 3, to=tmp_path / "root")

    assert shown(tmp_path / "root", specification) == by_repr(rows)
    assert done.position == {ss.TopicPartition("input", n): 7 for n in (0, 1)}


@pytest.mark.spec("RSH-13")
@pytest.mark.parametrize("where", ["reshard.routed", "snapshot.data-written", "reshard.built"])
def test_a_full_disk_leaves_the_store_as_it_was(
    tmp_path: Path, random_source: random.Random, where: str
) -> None:
    """And nothing besides it."""
    root = tmp_path / "root"
    written = _written(root, "key-value", random_source, count=30)
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
    assert sorted(each.name for each in (root / "kept").iterdir()) == [".writes", "0", "1"]
    reshard(root, "kept", 3)

    assert written.shown() == before


@pytest.mark.spec("RSH-1")
def test_a_plan_says_how_much_there_is(tmp_path: Path, random_source: random.Random) -> None:
    """And changes nothing."""
    root = tmp_path / "root"
    _written(root, "key-value", random_source, count=50)
    names = sorted(str(each) for each in root.rglob("*"))
    plan = plan_reshard(root, "kept", 3)

    assert (plan.before, plan.partitions) == (2, 3)
    assert plan.changes + plan.snapshot_rows > 0
    assert plan.bytes > 0
    assert sorted(str(each) for each in root.rglob("*")) == names


def test_progress_counts_each_row_twice(tmp_path: Path, random_source: random.Random) -> None:
    """Read, and written; and what it raises ends the reshard before it counts."""
    root = tmp_path / "root"
    written = _written(root, "key-value", random_source, count=50)
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
