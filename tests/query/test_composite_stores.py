"""The partitions of a store that are here are read as one, in one order."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import statestores as ss
from statestores.arrow import join_as_of
from statestores.errors import (
    InvalidArgumentError,
    InvalidStateStoreError,
    InvalidTypeError,
    UnknownStateStoreError,
)
from statestores.partitioning import partitioner_by_name
from statestores.query import (
    LocalPartitions,
    QueryableStores,
    QueryableStoreType,
    key_value_store,
    session_store,
    timestamped_key_value_store,
    versioned_store,
    window_store,
)
from statestores.spi.stores.store import ReadOnlyStore
from statestores.tasks import TaskId, TaskManager

PARTITIONS = 4
WORDS = [f"word-{number}" for number in range(200)]
TASKS = [TaskId(0, partition) for partition in range(PARTITIONS)]
SPECIFICATIONS: list[Any] = [
    ss.KeyValue("counts", key=ss.utf8, value=ss.int64),
    ss.TimestampedKeyValue("seen", key=ss.utf8, value=ss.int64),
    ss.Versioned("rates", history_retention_ms=1_000, key=ss.utf8, value=ss.int64),
    ss.Window("windows", retention_ms=1_000, window_size_ms=10, key=ss.utf8, value=ss.int64),
    ss.Session("sessions", retention_ms=1_000, key=ss.utf8, value=ss.int64),
]
NAMES = [specification.name for specification in SPECIFICATIONS]


def partition_of(word: str) -> int:
    """Return where *word* belongs."""
    return partitioner_by_name("murmur2").partition(word.encode(), PARTITIONS)


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[TaskManager]:
    """All partitions of a store of each kind, filled with the words."""
    root = ss.StateRoot.create(tmp_path / "state")
    for specification in SPECIFICATIONS:
        root.add_store(specification, partitions=PARTITIONS)
    with TaskManager(
        root, {0: NAMES}, local_directory=tmp_path / "local", backend="memory"
    ) as opened:
        opened.assign(TASKS)
        for number, word in enumerate(WORDS):
            task = opened.task(TaskId(0, partition_of(word)))
            task.store("counts").put(word, number)
            task.store("seen").put(word, number, timestamp_ms=number)
            task.store("rates").put(word, number, timestamp_ms=1)
            task.store("rates").put(word, -number, timestamp_ms=5)
            task.store("windows").put(word, number, window_start_ms=10)
            task.store("windows").put(word, -number, window_start_ms=20)
            task.store("sessions").put(word, 10, 20, number)
            task.store("sessions").put(word, 5, 30, -number)
        for task in opened.tasks.values():
            task.commit()
        yield opened


@pytest.mark.spec("QRY-1", "QRY-3")
@pytest.mark.parametrize("reverse", [False, True])
def test_key_values_are_merged_in_the_order_of_their_keys(
    manager: TaskManager, *, reverse: bool
) -> None:
    """Kafka's composite store shows one partition after the other; this one shows one store."""
    stores = QueryableStores(manager)
    counts = stores.store("counts", key_value_store())
    expected = sorted(((word, number) for number, word in enumerate(WORDS)), reverse=reverse)

    assert list(counts.range(reverse=reverse)) == expected
    assert list(counts.prefix_scan(b"word-1", reverse=reverse)) == [
        pair for pair in expected if pair[0].startswith("word-1")
    ]
    assert list(counts.range("word-5", "word-7", reverse=reverse)) == [
        pair for pair in expected if "word-5" <= pair[0] <= "word-7"
    ]
    assert counts.get("word-7") == 7
    assert counts.get("none") is None
    assert counts.get_many(["word-1", "none", "word-2"]) == [1, None, 2]
    assert counts.approximate_num_entries() == len(WORDS)

    seen = stores.store("seen", timestamped_key_value_store())
    assert seen.get("word-9") == ss.TimestampedValue(9, 9)
    assert [key for key, _ in seen.range(reverse=reverse)] == [key for key, _ in expected]
    assert seen.stream_time_ms == len(WORDS) - 1


@pytest.mark.spec("QRY-1", "QRY-3")
@pytest.mark.parametrize("reverse", [False, True])
def test_versions_windows_and_sessions_are_merged_too(
    manager: TaskManager, *, reverse: bool
) -> None:
    """By key, then by time, whichever partition they are in."""
    stores = QueryableStores(manager)
    words = sorted(WORDS, reverse=reverse)

    rates = stores.store("rates", versioned_store())
    assert [key for key, _ in rates.scan_as_of(4, reverse=reverse)] == words
    assert rates.get("word-3", as_of_ms=4) == ss.VersionedRecord(3, 1, 5)
    assert [each.value for each in rates.history("word-3", reverse=not reverse)] == (
        [3, -3] if reverse else [-3, 3]
    )
    found = rates.get_many(["word-3", "none", "word-4"], as_of_ms=[1, 1, 5])
    assert [record and record.value for record in found] == [3, None, -4]
    with pytest.raises(InvalidArgumentError, match="as_of_ms"):
        rates.get_many(["a", "b"], as_of_ms=[1])
    assert rates.stream_time_ms == 5

    windows = stores.store("windows", window_store())
    starts = [20, 10] if reverse else [10, 20]
    assert [(each.key, each.start_ms) for each in windows.fetch_all(reverse=reverse)] == [
        (word, start) for word in words for start in starts
    ]
    assert windows.fetch("word-3", 20) == -3
    assert windows.fetch_many(["word-3", "none", "word-4"], [20, 10, 10]) == [-3, None, 4]
    assert windows.fetch_many(iter(words), 10) == [windows.fetch(word, 10) for word in words]
    assert [each.value for each in windows.fetch_range("word-3", 0, 15)] == [3]

    sessions = stores.store("sessions", session_store())
    ends = [30, 20] if reverse else [20, 30]
    for found_sessions in (
        sessions.find_all_sessions(reverse=reverse),
        sessions.find_sessions_by_end(0, 100, reverse=reverse),
    ):
        assert [(each.key, each.end_ms) for each in found_sessions] == [
            (word, end) for word in words for end in ends
        ]
    assert sessions.fetch_session("word-3", 10, 20) == 3
    assert sessions.fetch_session("word-3", 11, 20) is None
    assert sessions.fetch_many(["word-3", "word-4"], [11, 10], [20, 20]) == [None, 4]
    assert [each.value for each in sessions.find_sessions("word-3", 25)] == [-3]


@pytest.mark.spec("QRY-2", "QRY-4")
def test_a_composite_finds_partitions_anew_at_each_operation(manager: TaskManager) -> None:
    """A partition that has gone is an error that says so and can be tried again, never None."""
    counts = QueryableStores(manager).store("counts", key_value_store())
    here = [word for word in WORDS if partition_of(word) in {0, 1}]
    gone = next(word for word in WORDS if partition_of(word) == 3)
    started = counts.range()
    next(started)

    manager.assign(TASKS[:2])
    assert [key for key, _ in counts.range()] == sorted(here)
    assert counts.get(here[0]) is not None
    with pytest.raises(
        InvalidStateStoreError, match=r"partition 3 of 'counts'.*here: 0, 1"
    ) as caught:
        counts.get(gone)
    assert caught.value.retryable
    with pytest.raises(InvalidStateStoreError, match="closed while it was read"):
        list(started)

    manager.assign([])
    assert not counts.is_open
    with pytest.raises(InvalidStateStoreError, match="not here now"):
        list(counts.range())
    manager.assign(TASKS)
    assert counts.is_open


@pytest.mark.spec("QRY-5")
def test_unknown_names_and_types_are_told_apart_from_moving_ones(manager: TaskManager) -> None:
    """What can never succeed is not retryable."""
    stores = QueryableStores(manager)
    with pytest.raises(UnknownStateStoreError, match="there are: counts") as caught:
        stores.store("typo", key_value_store())
    assert not caught.value.retryable
    for name, wrong in (("rates", key_value_store()), ("seen", key_value_store())):
        with pytest.raises(UnknownStateStoreError, match="does not accept"):
            stores.store(name, wrong)
    with pytest.raises(UnknownStateStoreError, match="is key-value"):
        stores.store("counts", versioned_store())
    with pytest.raises(InvalidArgumentError, match="partitions 0 to 3"):
        stores.store("counts", key_value_store(), partition=4)
    with pytest.raises(InvalidTypeError):
        stores.store("counts", key_value_store()).get(None)


def test_one_partition_can_be_asked_for(manager: TaskManager) -> None:
    """The others are not read, here or not."""
    counts = QueryableStores(manager).store("counts", key_value_store(), partition=2)

    assert [key for key, _ in counts.range()] == sorted(
        word for word in WORDS if partition_of(word) == 2
    )


class _Largest:
    """The largest value of all partitions."""

    def __init__(self, partitions: LocalPartitions[Any]) -> None:
        self._partitions = partitions

    def value(self) -> int:
        """Return it."""
        largest = self._partitions.each(lambda store: max(value for _, value in store.range()))
        return max(ss.int64.decode(value) for value in largest)


class _LargestType(QueryableStoreType[_Largest]):
    """A user's own type."""

    def accepts(self, store: ReadOnlyStore) -> bool:
        return isinstance(store, ss.ReadOnlyKeyValueStore) and store.name == "counts"

    def create(self, partitions: LocalPartitions[Any]) -> _Largest:
        return _Largest(partitions)


@pytest.mark.spec("QRY-6")
def test_a_type_of_ones_own_reads_the_same_partitions(manager: TaskManager) -> None:
    """KIP-67's user-defined type: it says what it accepts, and makes what it likes."""
    stores = QueryableStores(manager)

    assert stores.store("counts", _LargestType()).value() == len(WORDS) - 1
    with pytest.raises(UnknownStateStoreError):
        stores.store("seen", _LargestType())


@pytest.mark.spec("QRY-2", "QRY-7")
def test_stale_partitions_are_read_on_request(manager: TaskManager, tmp_path: Path) -> None:
    """A standby in another process answers for a partition that is active elsewhere."""
    manager.assign(TASKS[:1])
    with TaskManager(
        ss.StateRoot.open(tmp_path / "state"),
        {0: NAMES},
        local_directory=tmp_path / "other",
        backend="memory",
    ) as other:
        other.assign([], standby=TASKS)
        for standbys in other.standbys.values():
            for standby in standbys:
                standby.stop()
                standby.poll()
        stores = QueryableStores(other)
        with pytest.raises(InvalidStateStoreError):
            stores.store("counts", key_value_store()).get("word-1")
        stale = stores.store("counts", key_value_store(), include_stale=True)
        assert [key for key, _ in stale.range()] == sorted(WORDS)
        assert stale.get("word-1") == 1


@pytest.mark.spec("QRY-2")
@pytest.mark.parametrize("backend", ["memory", "rocksdb", "leveldb", "sqlite"])
def test_thousands_of_reads_against_a_busy_writer_see_only_commits(
    tmp_path: Path, backend: str
) -> None:
    """Each commit moves one unit between two keys of one partition: every scan has the same sum.

    A reader that saw half a commit would see another sum; one that saw an earlier commit after a
    later one would see the round go back.
    """
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(ss.KeyValue("moves", key=ss.utf8, value=ss.int64), partitions=1)
    stop = threading.Event()
    history: list[list[tuple[int, int]]] = [[], []]
    problems: list[BaseException] = []
    with TaskManager(
        root,
        {0: ["moves"]},
        backend=backend,
        durability=ss.Durability.PROCESS_CRASH,
    ) as manager:
        manager.assign([TaskId(0, 0)])
        task = manager.task("0_0")
        store = task.store("moves")
        for key, value in (("left", 1_000), ("right", 0), ("round", 0)):
            store.put(key, value)
        task.commit()
        moves = QueryableStores(manager).store("moves", key_value_store())

        def read(mine: list[tuple[int, int]]) -> None:
            try:
                while not stop.is_set():
                    seen = dict(moves.range())
                    mine.append((seen["round"], seen["left"] + seen["right"]))
            except BaseException as error:  # noqa: BLE001  # the main thread judges
                problems.append(error)

        readers = [threading.Thread(target=read, args=(mine,)) for mine in history]
        for reader in readers:
            reader.start()
        number = 0
        while number < 300 or sum(map(len, history)) < 2_000:
            number += 1
            store.put("left", store.get("left") - 1)
            store.put("right", store.get("right") + 1)
            store.put("round", number)
            task.commit()
            if problems:
                break
        stop.set()
        for reader in readers:
            reader.join()

    assert problems == []
    for mine in history:
        assert {total for _, total in mine} == {1_000}
        assert [each for each, _ in mine] == sorted(each for each, _ in mine)
    assert sum(map(len, history)) >= 2_000


def test_partitions_that_are_read_as_one_are_joined_as_of(manager: TaskManager) -> None:
    """A store of several partitions has no rows of its own: it is asked for each, found or not."""
    rates = QueryableStores(manager).store("rates", versioned_store())
    words = [WORDS[7], "nobody put this", WORDS[8], WORDS[7]]
    expected = [None if each is None else each.value for each in rates.get_many(words)]
    table = pa.table({"word": words, "at": [1 << 40] * 4})

    joined = join_as_of(rates, table, on="word", at="at")

    assert joined["value"].to_pylist() == expected
    assert expected[1] is None
    assert None not in (expected[0], expected[2])
