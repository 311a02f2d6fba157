"""The change feed between times, with the values before changes, in batches and in streams."""

from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.changelog import FileChangelog
from statestores.errors import InvalidArgumentError, InvalidOptionError, OffsetOutOfRangeError
from statestores.spark.given_root import GivenRoot
from statestores.spark.options.read_and_write import SourceOptions
from statestores.spark.options.stream import StreamOptions, without_stream_options
from statestores.spark.source.reader import StateStoreReader
from statestores.spi import Changes
from statestores_conformance.many_cases import for_each

COUNTS = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Two partitions, with commits at times of their own; the last one deletes."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(COUNTS, partitions=2)
    now = [0]
    for partition, times in ((0, (1_000, 2_000, 3_000)), (1, (1_500, 3_500))):
        directory = root.partition("counts", partition).changelog
        log = FileChangelog.create(directory, COUNTS.kind, clock_ms=lambda: now[0])
        with log:
            for number, now[0] in enumerate(times):
                value = ss.int64.encode(number) if number < 2 else None
                log.append(Changes([b"a", b"b"], [value, ss.int64.encode(9)]))
    return root.path


def feed(state: Path, **options: str) -> list[dict[str, Any]]:
    """Read a batch, as Spark's tasks do."""
    given = {"path": str(state), "readChangeFeed": "true", **options}
    source = StateStoreReader(GivenRoot(state), COUNTS, 2, SourceOptions.for_reading(given))
    schema = source.arrow_schema()
    found = []
    for task in source.partitions():
        for batch in source.read(task):
            assert batch.schema.equals(schema)
            found += batch.to_pylist()
    return found


def places(found: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(row["partition"], row["offset"]) for row in found]


@for_each(
    ("options", "expected"),
    [
        ({}, [(0, offset) for offset in range(6)] + [(1, offset) for offset in range(4)]),
        ({"startingTimestamp": "2000"}, [(0, 2), (0, 3), (0, 4), (0, 5), (1, 2), (1, 3)]),
        ({"endingTimestamp": "1970-01-01T00:00:01.999Z"}, [(0, 0), (0, 1), (1, 0), (1, 1)]),
        (
            {"startingTimestamp": "1001", "endingTimestamp": "2000"},
            [(0, 2), (0, 3), (1, 0), (1, 1)],
        ),
        ({"startingTimestamp": "3001", "endingTimestamp": "3499"}, []),
        ({"startingTimestamp": "9000"}, []),
        ({"startingTimestamp": "3000", "endingTimestamp": "1000"}, []),
        ({"endingTimestamp": "0"}, []),
        ({"startingOffset": "4", "endingTimestamp": "999", "partitions": "0"}, []),
        ({"startingVersion": "3", "endingVersion": "2"}, []),
        ({"startingOffset": "3", "endingTimestamp": "2500", "partitions": "0"}, [(0, 3)]),
        (
            {"startingTimestamp": "2000", "endingOffset": '{"0": 4, "1": 2}'},
            [(0, 2), (0, 3), (0, 4), (1, 2)],
        ),
    ],
)
def test_times_are_those_of_the_commits(
    state: Path, options: dict[str, str], expected: list[tuple[int, int]]
) -> None:
    """Both inclusive; each partition has its own offsets for a time."""
    assert places(feed(state, **options)) == expected


@for_each(
    "options",
    [
        {"startingVersion": "3", "endingVersion": "1"},
        {"startingOffset": '{"1": 3}', "endingOffset": '{"0": 1, "1": 1}'},
    ],
)
def test_changes_that_end_before_they_begin_are_refused(
    state: Path, options: dict[str, str]
) -> None:
    """By the names of the options, and before a task runs.

    Each task failed with what nobody had written: "from_offset must not exceed to_offset".
    """
    with pytest.raises(
        InvalidOptionError,
        match=r"'startingVersion'\) is 3 for partition [01] of 'counts', and .* is 1: the changes",
    ):
        feed(state, **options)


def test_an_end_before_the_first_change_that_is_left_is_out_of_range(state: Path) -> None:
    """The changes up to there are gone. It was said that some "from_offset" was too large."""
    with FileChangelog.open(
        ss.StateRoot.open(state).partition("counts", 0).changelog, COUNTS.kind
    ) as log:
        log.seal()
        log.delete_before(6)

    with pytest.raises(OffsetOutOfRangeError, match="from offset 6 up to, and without, 6; asked"):
        feed(state, endingVersion="1", partitions="0")


def test_the_value_before_is_a_column(state: Path) -> None:
    """Of the value's type, and chosen as others are."""
    found = feed(state, beforeImage="true", inputPosition="true", partitions="0", key="a")

    assert [row["before"] for row in found] == [None, 0, 1]
    assert list(found[0])[-2:] == ["before", "position"]
    assert [row["position"] for row in found] == [None] * 3
    some = feed(
        state, beforeImage="true", columns="before,key", startingOffset="4", key="a", partitions="0"
    )
    assert some == [{"before": 1, "key": "a"}]


def test_a_value_before_that_is_not_known_fails_with_what_to_do(state: Path) -> None:
    """A null would be a lie."""
    with FileChangelog.open(state / "counts" / "0" / "changelog", COUNTS.kind) as log:
        log.seal()
        log.append(Changes([b"a"], [ss.int64.encode(5)]))
        log.delete_before(6)

    with pytest.raises(OffsetOutOfRangeError, match="begin after the offset of a snapshot"):
        feed(state, beforeImage="true", partitions="0")


def test_a_store_without_one_value_before_is_refused(tmp_path: Path) -> None:
    """When the columns are asked for."""
    rates = ss.Versioned("rates", history_retention_ms=1)
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(rates, partitions=1)
    given = {"path": str(root.path), "readChangeFeed": "true", "beforeImage": "true"}

    source = StateStoreReader(GivenRoot(root.path), rates, 1, SourceOptions.for_reading(given))

    with pytest.raises(InvalidArgumentError, match="versioned store, whose changes are of a key"):
        source.arrow_schema()


def stream(state: Path, **options: str) -> Any:
    """Return the source of a streaming query."""
    module = pytest.importorskip("statestores.spark.source.stream_reader")
    given = {"path": str(state), "readChangeFeed": "true", **options}
    return module.StateStoreStreamReader(
        GivenRoot(state),
        COUNTS,
        2,
        SourceOptions.for_reading(without_stream_options(given)),
        StreamOptions.from_options(given),
    )


def test_a_stream_begins_at_a_time_and_tells_values_before(state: Path) -> None:
    """Each micro-batch finds the content before it anew, so a restart is no matter."""
    read_all = pytest.importorskip("pyspark.sql.streaming.datasource").ReadAllAvailable
    query = stream(state, startingTimestamp="2000", beforeImage="true", key="a")
    start = query.initialOffset()
    end = query.latestOffset(start, read_all())
    found = [
        row
        for task in query.partitions(start, end)
        for batch in query.read(task)
        for row in batch.to_pylist()
    ]

    assert {number: each["offset"] for number, each in start.items()} == {"0": 2, "1": 2}
    assert [(row["partition"], row["offset"], row["before"]) for row in found] == [
        (0, 2, 0),
        (0, 4, 1),
        (1, 2, 0),
    ]
    beyond = stream(state, startingTimestamp="9000").initialOffset()
    assert {number: each["offset"] for number, each in beyond.items()} == {"0": 6, "1": 4}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"endingTimestamp": "1"}, "'endingTimestamp' is not for streams"),
        ({"pushFilters": "true"}, "'pushFilters' cannot be true"),
        ({"startingTimestamp": "1", "startingOffset": "latest"}, "exclude each other"),
    ],
)
def test_what_a_stream_cannot_take_is_refused(
    state: Path, options: dict[str, str], reason: str
) -> None:
    """Rather than that it has no effect."""
    with pytest.raises(InvalidOptionError, match=reason):
        stream(state, **options)


def test_what_a_stream_goes_on_without_is_said_once(
    state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of each micro-batch it was said twice: for its end, and again for its tasks."""
    read_all = pytest.importorskip("pyspark.sql.streaming.datasource").ReadAllAvailable
    query = stream(state, failOnDataLoss="false")
    begun = query.initialOffset()
    directory = ss.StateRoot.open(state).partition("counts", 0).changelog
    for first in (6, 8):
        with FileChangelog.open(directory, COUNTS.kind) as log:
            for _ in range(log.end_offset, first + 1):
                log.seal()
                log.append(Changes([b"a"], [ss.int64.encode(9)]))
            log.delete_before(first)
        caplog.clear()
        tasks = query.partitions(begun, query.latestOffset(begun, read_all()))
        rows = [row for task in tasks for batch in query.read(task) for row in batch.to_pylist()]

        assert [row["offset"] for row in rows if row["partition"] == 0] == [first]
        (warning,) = (each.getMessage() for each in caplog.records)
        assert f"the changelog begins at {first}" in warning
