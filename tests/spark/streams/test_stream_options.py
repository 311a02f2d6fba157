"""What a stream of changes is asked, and where it begins and ends; without a session."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from store_streams import add, make_store, needs_limits

from statestores.errors import InvalidArgumentError, InvalidOptionError, StateStoreError
from statestores.reading.partition_reader import PartitionReader, end_offsets
from statestores.reading.visible_log import LogBeginning
from statestores.spark.session import older_pyspark
from statestores.spark.session.older_pyspark import ReadAllAvailable, ReadMaxBytes, ReadMaxRows
from statestores.spark.source.source import StateStoresDataSource
from statestores.spark.source.stream_offsets import StreamOffset, StreamOffsets, limited
from statestores.spark.source.stream_reader import StateStoreStreamReader
from statestores.state_root import StateRoot
from statestores_conformance.many_cases import for_each


def reader(root: str, **options: str) -> StateStoreStreamReader:
    """Return what Spark gets for these options."""
    source = StateStoresDataSource({"path": root, "readChangeFeed": "true", **options})
    made = source.streamReader(source.schema())
    assert isinstance(made, StateStoreStreamReader)
    return made


def ends(root: str) -> list[int]:
    """Return where the partitions end."""
    state = StateRoot.open(root)
    entry = state.store("s")
    return end_offsets(
        [
            PartitionReader(state.partition("s", number), entry.specification)
            for number in range(entry.partitions)
        ]
    )


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (None, [0, 0]),
        ("Earliest", [0, 0]),
        ("latest", [-1, -1]),
        ("3", [3, 3]),
        ('{"0": 2, "1": "latest"}', [2, -1]),
        ('{"1": 4}', [0, 4]),
    ],
)
def test_a_new_query_begins_where_it_is_told(
    root: str, start: str | None, expected: list[int]
) -> None:
    """At an offset, at the beginning, or at the end; of each partition."""
    add(make_store(root), "w", {f"k{number}": "v" for number in range(30)})
    stream = reader(root) if start is None else reader(root, startingOffset=start)
    offsets = stream.initialOffset()

    last = ends(root)
    assert json.dumps(offsets) == json.dumps(
        {
            str(number): {
                "offset": last[number] if offset < 0 else offset,
                "completeFrom": 0,
                "store": "s",
            }
            for number, offset in enumerate(expected)
        }
    )
    latest = stream.latestOffset(offsets, ReadAllAvailable())
    assert [latest[str(number)]["offset"] for number in range(2)] == last
    assert stream.latestOffset(latest, ReadAllAvailable()) == latest
    assert stream.partitions(latest, latest) == []


@for_each("start", ['{"2": 0}', '{"0": 1, "2": "latest"}', '{"-1": "earliest"}'])
def test_a_new_query_is_not_told_of_a_partition_that_is_not_there(root: str, start: str) -> None:
    """It was ignored, and a partition that is not named begins at the earliest offset."""
    make_store(root)
    with pytest.raises(InvalidOptionError, match="'startingOffset' names the partition"):
        reader(root, startingOffset=start)


def test_one_partition_is_read_alone(root: str) -> None:
    """The checkpoint names it, and no other."""
    add(make_store(root), "w", {f"k{number}": "v" for number in range(30)})
    stream = reader(root, partitions="1")
    latest = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())

    assert latest == {"1": {"offset": ends(root)[1], "completeFrom": 0, "store": "s"}}
    assert stream.reportLatestOffset() == latest
    with pytest.raises(InvalidOptionError, match="leave the option 'partitions' as it was"):
        reader(root).latestOffset(latest, ReadAllAvailable())


@needs_limits
def test_what_comes_after_the_query_was_prepared_is_for_the_next_one(root: str) -> None:
    """Else a query that reads what is available now would never end."""
    state = make_store(root)
    add(state, "w", {f"k{number}": "v" for number in range(30)})
    stream, known = reader(root, maxRecordsPerTrigger="20"), ends(root)
    stream.prepareForTriggerAvailableNow()
    add(state, "x", {f"k{number}": "v" for number in range(30)})
    at, sizes = stream.initialOffset(), []
    while (latest := stream.latestOffset(at, stream.getDefaultReadLimit())) != at:
        sizes.append(sum(latest[number]["offset"] - at[number]["offset"] for number in at))
        at = latest

    assert sizes == [20, 10]
    assert [at[str(number)]["offset"] for number in range(2)] == known


@needs_limits
@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, ReadAllAvailable),
        ({"maxRecordsPerTrigger": "5"}, lambda: ReadMaxRows(5)),
        ({"maxBytesPerTrigger": "5"}, lambda: ReadMaxBytes(5)),
        ({"maxBytesPerTrigger": "5", "maxRecordsPerTrigger": "7"}, lambda: ReadMaxRows(7)),
    ],
)
def test_spark_is_told_the_limit(
    root: str, options: dict[str, str], limit: Callable[[], Any]
) -> None:
    """It decides when the limit counts, by the trigger."""
    make_store(root)

    assert reader(root, **options).getDefaultReadLimit() == limit()


def test_a_spark_without_limits_gets_everything_and_refuses_the_options(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PySpark 4.0 and 4.1 ask for the latest offset without saying from where, or how much."""
    monkeypatch.setattr(older_pyspark, "SOURCES_TAKE_LIMITS", False)
    add(make_store(root), "w", {f"k{number}": "v" for number in range(30)})
    stream = reader(root)
    latest = stream.latestOffset()

    assert [latest[str(number)]["offset"] for number in range(2)] == ends(root)
    taken = stream.partitions(stream.initialOffset(), latest)
    assert sum(rows.num_rows for part in taken for rows in stream.read(part)) == 30
    with pytest.raises(InvalidOptionError, match=r"needs PySpark 4\.2 or newer"):
        reader(root, maxBytesPerTrigger="5")


def test_an_end_before_the_start_is_refused_where_tasks_are_planned(root: str) -> None:
    """An older Spark says the start only here; else the query would read nothing, silently."""
    add(make_store(root), "w", {f"k{number}": "v" for number in range(30)})
    stream = reader(root)
    start, end = stream.latestOffset(), stream.initialOffset()

    with pytest.raises(StateStoreError, match="its changelog has been replaced"):
        stream.partitions(start, end)


def test_limits_are_shared_by_what_there_is_to_read() -> None:
    """In proportion, never more than there is, and never nothing for ever."""
    starts, last = {0: 100, 1: 0, 2: 7}, {0: 1000, 1: 100, 2: 7}

    def size(taken: dict[int, int]) -> list[int]:
        return [taken[number] - starts[number] for number in starts]

    for budget, expected in ((100, [90, 10, 0]), (1, [1, 0, 0]), (5000, [900, 100, 0])):
        taken = limited(starts, last, max_records=budget, max_bytes=None, change_bytes={})
        assert size(taken) == expected
    sizes = {0: 10.0, 1: 100.0, 2: 0.0}
    taken = limited(starts, last, max_records=None, max_bytes=1900, change_bytes=sizes)
    assert size(taken) == [90, 10, 0]
    taken = limited(starts, last, max_records=None, max_bytes=1, change_bytes=sizes)
    assert size(taken) == [1, 0, 0]
    taken = limited(starts, last, max_records=50, max_bytes=1900, change_bytes=sizes)
    assert size(taken) == [45, 5, 0]


@for_each(
    ("offset", "complete_from", "beginning", "lost"),
    [
        (10, 0, LogBeginning(0, 0), False),
        (10, 0, LogBeginning(10, 10), False),
        (10, 0, LogBeginning(11, 11), True),
        (10, 0, LogBeginning(0, 10), False),
        (10, 0, LogBeginning(0, 11), True),
        (10, 50, LogBeginning(0, 50), False),
        (10, 50, LogBeginning(0, 51), True),
        (10, 50, LogBeginning(50, 50), True),
    ],
)
def test_a_loss_is_what_was_promised_and_is_gone(
    offset: int, complete_from: int, beginning: LogBeginning, *, lost: bool
) -> None:
    """Not what had been dropped before the query began, unless it is deleted now."""
    assert StreamOffset(offset, complete_from).is_lost(beginning) == lost


@for_each("content", [{"0": 5}, {"a": {"offset": 1, "completeFrom": 0}}, [1], 7])
def test_an_offset_of_another_source_is_refused(content: Any) -> None:
    """With what to do about it."""
    with pytest.raises(InvalidArgumentError, match="give each query a checkpoint of its own"):
        StreamOffsets.from_json(content, "s")


def test_an_offset_of_another_store_is_refused(root: str) -> None:
    """A checkpoint named no store, and an offset of one was taken for one of another.

    A query that had read ten changes of one store, and was started again with the name of another
    one, never gave the first ten of that. So did one whose sources had changed places, since Spark
    knows them by their order. A checkpoint without a name goes on as it did.
    """
    state = make_store(root)
    add(state, "w", {f"k{number}": "v" for number in range(30)})
    stream = reader(root)
    latest = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    other = json.loads(json.dumps(latest).replace('"s"', '"t"'))
    unnamed = {
        number: {name: each[name] for name in ("offset", "completeFrom")}
        for number, each in latest.items()
    }

    for call in (
        lambda: reader(root).latestOffset(other, ReadAllAvailable()),
        lambda: reader(root).partitions(other, other),
        lambda: reader(root).partitions(latest, other),
    ):
        with pytest.raises(InvalidArgumentError, match="how far the store 't' has been read"):
            call()
    assert reader(root).latestOffset(unnamed, ReadAllAvailable()) == latest
    assert reader(root).partitions(unnamed, latest) == []


@for_each(
    ("options", "reason"),
    [
        ({"readChangeFeed": "false"}, "add the option readChangeFeed=true"),
        ({"startingOffset": "soon"}, "must be earliest, latest, an offset"),
        ({"startingOffset": "-1"}, "must be earliest, latest, an offset"),
        ({"startingOffset": '{"0": 1, "00": 2}'}, "must be earliest, latest, an offset"),
        ({"startingOffset": "9"}, "partition 0 of 's' ends at 0; say latest"),
        ({"endingOffset": "1"}, "'endingOffset' is not for streams"),
        ({"maxRecordsPerTrigger": "0"}, "'maxRecordsPerTrigger' must be a number from 1"),
        ({"maxBytesPerTrigger": "1g"}, "'maxBytesPerTrigger' must be a number from 1"),
        ({"failOnDataLoss": "no"}, "'failOnDataLoss' must be true or false"),
        ({"partitions": "2"}, "has the partitions 0 to 1"),
    ],
)
def test_what_a_stream_cannot_be_is_refused(
    root: str, options: dict[str, str], reason: str
) -> None:
    """With the option that is wrong, and what to give instead."""
    make_store(root)

    with pytest.raises(StateStoreError, match=reason):
        reader(root, **options).initialOffset()
