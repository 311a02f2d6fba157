"""How fresh content is, what says so, and how it is shared out among tasks."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import statestores as ss
from statestores.arrow import write_snapshot
from statestores.arrow.rows.spilled_runs import SpilledRuns
from statestores.changelog import changelog_partition
from statestores.errors import InvalidOptionError, StoreNotFoundError
from statestores.spark.given_root import GivenRoot
from statestores.spark.options.read_and_write import SourceOptions
from statestores.spark.source.reader import StateStoreReader, StorePartition
from statestores_conformance.many_cases import for_each

WORDS = ss.KeyValue("words", key=ss.utf8, value=ss.int64)
KEYS = [f"w{number:03}" for number in range(60)]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Two partitions, the first with a snapshot of small batches and a change after it."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(WORDS, partitions=2)
    with ss.open_logged_store(root, "words", 0, backend="memory") as logged:
        for number, key in enumerate(KEYS):
            logged.store.put(key, number)
        logged.commit()
        write_small_snapshot(root)
        logged.store.put("w007", -7)
        logged.store.delete("w008")
        logged.commit()
    with ss.open_logged_store(root, "words", 1, backend="memory") as logged:
        logged.store.put("other", 1)
        logged.commit()
    return root.path


def write_small_snapshot(root: ss.StateRoot) -> None:
    """Write a snapshot of partition 0 as of its first commit, ten rows a batch."""
    directory = root.partition("words", 0)
    with ss.open_store("unused", WORDS, backend="memory") as store:
        for number, key in enumerate(KEYS):
            store.put(key, number)
        partition = changelog_partition("words", 0)
        store.commit({partition: len(KEYS) - 1})
        write_snapshot(store, directory.snapshots, partition=partition, batch_rows=10)


def reader(state: Path, **options: str) -> StateStoreReader:
    return StateStoreReader(
        GivenRoot(state), WORDS, 2, SourceOptions.for_reading({"path": str(state), **options})
    )


def tasks(state: Path, **options: str) -> list[StorePartition]:
    return [each for each in reader(state, **options).partitions() if type(each) is StorePartition]


def rows(state: Path, **options: str) -> list[dict[str, Any]]:
    """Return the rows that all tasks give, in the order of the tasks."""
    source = reader(state, **options)
    found = []
    for task in source.partitions():
        for batch in source.read(task):
            assert batch.schema.equals(source.arrow_schema())
            found += batch.to_pylist()
    return found


LATEST = {key: number for number, key in enumerate(KEYS) if key != "w008"} | {"w007": -7}


def content(found: list[dict[str, Any]]) -> dict[str, int]:
    return {row["key"]: row["value"] for row in found}


def test_columns_say_which_partition_was_read_at_which_offset(state: Path) -> None:
    """Of each row, for partitions are read at offsets of their own."""
    found = rows(state, offsetColumn="as_of_offset", partitionColumn="part")

    assert content(found) == LATEST | {"other": 1}
    assert {(row["part"], row["as_of_offset"]) for row in found} == {(0, 61), (1, 0)}
    some = rows(state, offsetColumn="at", columns="value", offset='{"0": 59}', key="w007")
    assert some == [{"value": 7, "at": 59}]


@for_each(
    "options",
    [
        {"offset": '{"0": 59, "2": 1}'},
        {"versionAsOf": '{"-1": 0}'},
        {"partitions": "0,2"},
        {"readChangeFeed": "true", "startingVersion": '{"2": 0}'},
        {"readChangeFeed": "true", "endingOffset": '{"0": 1, "2": 0}'},
    ],
)
def test_a_partition_that_is_not_there_cannot_be_named(
    state: Path, options: dict[str, str]
) -> None:
    """Offsets from before a reshard, or of another store, were ignored for such a partition.

    The others were read as if nothing were said of them: what they are now, or from the first
    change on.
    """
    refusal = r"names the partition .*, and the store 'words' has the partitions 0 to 1"
    with pytest.raises(InvalidOptionError, match=refusal):
        reader(state, **options)


def test_a_partition_has_one_offset() -> None:
    """Two ways to write its number are no two partitions."""
    for name in ("offset", "startingOffset", "expectedOffset"):
        is_write = name == "expectedOffset"
        parse = SourceOptions.for_writing if is_write else SourceOptions.for_reading
        with pytest.raises(InvalidOptionError, match=f"option '{name}' must be an offset"):
            parse({"path": "state", name: '{"1": 5, "01": 6}'})


def test_a_snapshot_can_be_read_alone(state: Path) -> None:
    """What came after it is not read; a partition that has none is an error that says so."""
    fresh = {"freshness": "snapshot", "partitions": "0"}
    found = rows(state, offsetColumn="at", **fresh)

    assert content(found) == dict(zip(KEYS, range(60), strict=True))
    assert {row["at"] for row in found} == {59}
    with pytest.raises(StoreNotFoundError, match="partition 1 of 'words' has no snapshot; write"):
        tasks(state, freshness="snapshot")


def test_a_partition_without_a_change_needs_no_snapshot(tmp_path: Path) -> None:
    """There is nothing that it would have."""
    root = ss.StateRoot.create(tmp_path / "empty")
    root.add_store(WORDS, partitions=2)

    assert rows(root.path, freshness="snapshot", offsetColumn="at") == []


def test_an_age_takes_the_snapshot_while_it_is_young_enough(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the changelog as well, where it is older or missing."""
    assert [task.stop for task in tasks(state, freshness="1h")] == [60, 1]
    later_ns = time.time_ns() + 2 * 3_600 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: later_ns)

    assert [task.stop for task in tasks(state, freshness="1h")] == [62, 1]
    assert [task.stop for task in tasks(state, freshness="latest")] == [62, 1]
    assert content(rows(state, freshness="1h")) == LATEST | {"other": 1}


@pytest.mark.parametrize(
    ("options", "count"),
    [({}, 1), ({"splits": "3"}, 3), ({"maxRowsPerTask": "10"}, 6), ({"splits": "99"}, 6)],
)
def test_a_partition_is_read_by_several_tasks(
    state: Path, options: dict[str, str], count: int
) -> None:
    """With the same rows, which each of them takes from snapshot and changelog alike."""
    assert sum(task.number == 0 for task in tasks(state, **options)) == count
    assert content(rows(state, partitions="0", **options)) == LATEST
    assert len(rows(state, partitions="0", **options)) == len(LATEST)
    chosen = {"keyFrom": "w006", "keyTo": "w031", **options}
    expected = {key: value for key, value in LATEST.items() if "w006" <= key <= "w031"}
    assert content(rows(state, partitions="0", **chosen)) == expected


def test_what_does_not_fit_into_memory_is_on_the_local_disk_while_it_is_read(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same rows, in a scratch directory of Spark's, of which nothing is left."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "scratch"))
    taken: list[int] = []
    monkeypatch.setattr(SpilledRuns, "take", _noting(SpilledRuns.take, taken))

    assert content(rows(state, memoryPerTask="1")) == LATEST | {"other": 1}
    assert taken
    taken.clear()
    assert content(rows(state)) == LATEST | {"other": 1}
    assert taken == []
    assert list((tmp_path / "scratch").iterdir()) == []


def _noting(take: Callable[..., Any], taken: list[int]) -> Callable[..., Any]:
    """Return *take*, which notes how much it was given."""

    def noting(runs: SpilledRuns, folded: Any) -> Any:
        taken.append(folded.num_rows)
        return take(runs, folded)

    return noting


def test_one_key_is_one_task(state: Path) -> None:
    """However many were asked for."""
    assert len(tasks(state, partitions="0", key="w007", splits="5")) == 1
    assert rows(state, key="w007", splits="5") == [{"key": "w007", "value": -7}]
    assert rows(state, key="missing", splits="5") == []


def test_tasks_give_the_planned_content_whatever_happens_meanwhile(state: Path) -> None:
    """A newer snapshot, more changes: the offset is that of the plan, and borders are only keys."""
    source = reader(state, splits="3", partitions="0")
    planned = source.partitions()
    with ss.open_logged_store(state, "words", 0, backend="memory") as logged:
        for key in KEYS[::2]:
            logged.store.put(key, 1000)
        logged.commit()
        logged.snapshot()
    found = [row for task in planned for batch in source.read(task) for row in batch.to_pylist()]

    assert content(found) == LATEST
    assert len(found) == len(LATEST)


@pytest.mark.parametrize(
    ("given", "same"),
    [({"snapshotId": "59"}, {"offset": "59"}), ({"SNAPSHOTID": '{"0": 59}'}, {"offset": "59"})],
)
def test_an_offset_is_also_called_the_id_of_a_snapshot(
    state: Path, given: dict[str, str], same: dict[str, str]
) -> None:
    """A snapshot is named for its offset."""
    assert rows(state, partitions="0", **given) == rows(state, partitions="0", **same)


def test_history_is_also_called_all_versions() -> None:
    """And the latest ones are what is read without."""
    options = {"path": "state"}

    assert SourceOptions.for_reading({**options, "versions": "all"}).history
    assert not SourceOptions.for_reading({**options, "versions": "LATEST"}).history


@for_each(
    ("options", "reason"),
    [
        ({"versions": "some"}, "'versions' must be all or latest, got 'some'"),
        ({"versions": "all", "history": "true"}, "'versions' is another name of 'history'"),
        ({"snapshotId": "1", "offset": "1"}, "'snapshotId' is another name of 'offset'"),
        ({"snapshotId": "x"}, "must be an offset"),
        ({"offset": "1", "freshness": "snapshot"}, "exclude each other"),
        ({"freshness": "fresh"}, "must be latest, snapshot, or an age"),
        ({"splits": "0"}, "'splits' must be a number from 1, got '0'"),
        ({"splits": "2", "maxRowsPerTask": "2"}, "exclude each other"),
        ({"maxRowsPerTask": "-1"}, "must be a number from 1"),
        ({"readChangeFeed": "true", "splits": "2"}, "exclude each other"),
        ({"readChangeFeed": "true", "offsetColumn": "x"}, "exclude each other"),
        ({"beforeImage": "true"}, "'beforeImage' is for the change feed"),
        ({"startingTimestamp": "1"}, "'startingTimestamp' is for the change feed"),
        ({"readChangeFeed": "true", "startingTimestamp": "soon"}, "ISO 8601"),
        (
            {"readChangeFeed": "true", "startingTimestamp": "1", "startingOffset": "1"},
            "exclude each other",
        ),
    ],
)
def test_options_that_say_nothing_clear_are_refused(options: dict[str, str], reason: str) -> None:
    """With what is wrong, and with what."""
    with pytest.raises(InvalidOptionError, match=reason):
        SourceOptions.for_reading({"path": "state", **options})


def test_a_column_must_have_a_name_of_its_own(state: Path) -> None:
    """Spark's names do not differ by case."""
    with pytest.raises(InvalidOptionError, match="'offsetColumn' names 'KEY', and there is such"):
        reader(state, offsetColumn="KEY").arrow_schema()
    with pytest.raises(InvalidOptionError, match="'partitionColumn' names 'o'"):
        reader(state, offsetColumn="o", partitionColumn="o").arrow_schema()


def test_spark_shows_the_columns_and_the_tasks(spark: SparkSession, state: Path) -> None:
    """In one read: parts of keys, both columns, the latest content."""
    options = {"splits": "3", "offsetColumn": "at", "partitionColumn": "part"}
    frame = spark.read.format("statestores").options(**options).load(str(state))

    assert frame.dtypes[2:] == [("at", "bigint"), ("part", "int")]
    assert frame.rdd.getNumPartitions() == 4
    expected = {(0, 61, len(LATEST)), (1, 0, 1)}
    counted = frame.groupBy("part", "at").count().collect()
    assert {(row.part, row.at, row["count"]) for row in counted} == expected
