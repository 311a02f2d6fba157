"""What users of other tables expect to find, under the names that they know it by."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import InputPartition

import statestores as ss
from statestores.changelog import FileChangelog
from statestores.errors import InvalidOptionError, OffsetOutOfRangeError
from statestores.partitioning import murmur2_partitioner
from statestores.resharding import reshard
from statestores.root_document import Placement
from statestores.spark.given_root import GivenRoot
from statestores.spark.options.combinations import check_combination
from statestores.spark.options.read_and_write import METADATA, SourceOptions
from statestores.spark.options.stream import StreamOptions, without_stream_options
from statestores.spark.source.metadata_reader import MetadataReader
from statestores.spark.source.reader import StateStoreReader, StorePartition
from statestores.spi import Changes
from statestores.upkeep import Compaction, FileSnapshot, Vacuum
from statestores_conformance.many_cases import for_each

COUNTS = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A partition with three commits, at 1, 2 and 3 seconds: two changes each, the last deletes."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(COUNTS, partitions=1)
    now = [0]
    directory = root.partition("counts", 0).changelog
    with FileChangelog.create(directory, COUNTS.kind, clock_ms=lambda: now[0]) as log:
        for number, now[0] in enumerate((1_000, 2_000, 3_000)):
            value = ss.int64.encode(number) if number < 2 else None
            log.append(Changes([b"a", f"b{number}".encode()], [value, ss.int64.encode(9)]))
    return root.path


def rows(state: Path, **options: str) -> list[dict[str, Any]]:
    """Read a batch, as Spark's tasks do."""
    given = SourceOptions.for_reading({"path": str(state), **options})
    source = StateStoreReader(GivenRoot(state), COUNTS, 1, given)
    schema = source.arrow_schema()
    found = []
    for task in source.partitions():
        for batch in source.read(task):
            assert batch.schema.equals(schema)
            found += batch.to_pylist()
    return found


@for_each(
    ("alias", "ours"),
    [
        ({"versionAsOf": "3"}, {"offset": "3"}),
        ({"snapshot-id": "3"}, {"offset": "3"}),
        ({"timestampAsOf": "2999"}, {"offset": "3"}),
        ({"as-of-timestamp": "2000"}, {"offset": "3"}),
        ({"timestampAsOf": "999"}, {"offset": "-1"}),
        ({"timestampAsOf": "1970-01-01T00:00:09Z"}, {}),
        (
            {"readChangeData": "true", "startingVersion": "2", "endingVersion": "3"},
            {"readChangeFeed": "true", "startingOffset": "2", "endingOffset": "3"},
        ),
    ],
)
def test_names_of_other_tables_mean_what_they_mean_there(
    state: Path, alias: dict[str, str], ours: dict[str, str]
) -> None:
    """The same rows as under our names; times are those of commits."""
    expected = [] if ours == {"offset": "-1"} else rows(state, **ours)

    assert rows(state, **alias) == expected


@for_each("how", ["compacted", "deleted", "resharded"])
def test_a_time_of_which_nothing_is_known_is_refused(state: Path, how: str) -> None:
    """Content as of a time before the changes that are left is not made up.

    A read as of a time that lay before a compaction gave an empty store, and one before a vacuum or
    a reshard what the store had much later: what was left of the log was taken for all of it. Now
    it is refused, and a later time is answered as before.
    """
    expected = rows(state)
    if how == "compacted":
        Compaction(root=str(state), store="counts", partition=0)()
    elif how == "deleted":
        FileSnapshot(
            directory=ss.StateRoot.open(state).partition("counts", 0),
            number=0,
            specification=COUNTS,
        )()
        Vacuum(root=str(state), store="counts", partition=0, keep_snapshots=1)()
    else:
        for partitions in (2, 1):
            reshard(state, "counts", partitions)
    for time in ("999", "2500"):
        with pytest.raises(
            OffsetOutOfRangeError, match=r"partition 0 of 'counts' has .* nothing says which"
        ):
            rows(state, timestampAsOf=time)

    assert rows(state, timestampAsOf="2999-01-01") == expected


def test_a_stream_begins_at_a_version_too() -> None:
    """And its columns do not depend on it."""
    options = {"path": "state", "STARTINGVERSION": "latest", "readChangeFeed": "true"}

    assert StreamOptions.from_options(options).starting_offset == "latest"
    assert without_stream_options(options) == {"path": "state", "readChangeFeed": "true"}


@for_each(
    ("options", "reason"),
    [
        ({"start-snapshot-id": "1"}, "give startingOffset with the offset of the first change"),
        ({"maxFilesPerTrigger": "1"}, "maxRecordsPerTrigger or maxBytesPerTrigger"),
        ({"ignoreDeletes": "true"}, "filter by that"),
        ({"versionAsOf": "1", "snapshotId": "1"}, "is another name of 'offset'"),
        ({"versionAsOf": "1", "timestampAsOf": "1"}, "exclude each other"),
        ({"timestampAsOf": "1", "freshness": "snapshot"}, "exclude each other"),
        ({"timestampAsOf": "yesterday"}, "ISO 8601"),
        ({"commitColumns": "true"}, "'commitColumns' is for the change feed"),
        ({"readChangeFeed": "true", "timestampAsOf": "1"}, "exclude each other"),
        ({"metadata": "tables"}, "one of stores, partitions, snapshots, commits"),
        ({"metadata": "commits", "raw": "true"}, "'raw' does not go with 'metadata'"),
    ],
)
def test_what_means_something_else_here_is_refused(options: dict[str, str], reason: str) -> None:
    """With what to write instead."""
    with pytest.raises(InvalidOptionError, match=reason):
        SourceOptions.for_reading({"path": "state", **options})


@for_each(
    ("name", "reason"),
    [
        ("replaceWhere", "replaces the content of all partitions; write in mode 'append'"),
        ("partitionOverwriteMode", "replaces the content of all partitions"),
        ("overwriteSchema", "grow with mergeSchema"),
        ("txnVersion", "counts each micro-batch once by itself; give expectedOffset"),
        ("userMetadata", "the input position that it reflects, and no text"),
        ("maxRecordsPerFile", "which have sizes of their own"),
    ],
)
def test_what_writes_to_other_tables_take_is_refused_with_what_to_write(
    name: str, reason: str
) -> None:
    """They were unknown options, beside a list of fifty words.

    In a read, which they are not for, they are unknown still.
    """
    with pytest.raises(InvalidOptionError, match=f"no option '{name}' here: .*{reason}"):
        SourceOptions.for_writing({"path": "state", name: "1"})
    with pytest.raises(InvalidOptionError, match=f"unknown option '{name}'"):
        SourceOptions.for_reading({"path": "state", name: "1"})


def test_nothing_that_is_refused_is_refused_alone() -> None:
    """A read without options is one."""
    check_combination(frozenset())


def test_the_feed_has_the_columns_that_other_feeds_have(state: Path) -> None:
    """On request; whether a put was the first of its key is known with the value before only."""
    asked = {"readChangeFeed": "true", "commitColumns": "true", "startingOffset": "1"}
    columns = {"columns": "offset,_change_type,_commit_version,_commit_timestamp"}

    plain = rows(state, **asked)
    known = rows(state, **asked, **columns, beforeImage="true")

    assert [row["_change_type"] for row in plain] == ["upsert"] * 3 + ["delete", "upsert"]
    assert [row["_change_type"] for row in known] == [
        "insert",
        "update_postimage",
        "insert",
        "delete",
        "insert",
    ]
    assert [row["_commit_version"] for row in known] == [1, 3, 3, 5, 5]
    assert [row["_commit_timestamp"].timestamp() for row in known] == [1, 2, 2, 3, 3]
    assert "before" not in known[0]


def test_a_key_is_looked_for_where_the_partitioner_puts_it(tmp_path: Path) -> None:
    """In one partition, if the state says who places the keys; else in all of them."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(COUNTS, partitions=8)
    place = murmur2_partitioner.partition(b"a", 8)
    other = (place + 1) % 8

    def read(placement: Placement | None, **options: str) -> list[int]:
        given = SourceOptions.for_reading({"path": str(root.path), **options})
        source = StateStoreReader(GivenRoot(root.path), COUNTS, 8, given, placement=placement)
        assert source.arrow_schema().names
        return [each.number for each in source.partitions() if isinstance(each, StorePartition)]

    assert read(Placement.PARTITIONER, key="a") == [place]
    assert read(Placement.PARTITIONER, keys='["a"]', partitions=str(other)) == []
    assert read(Placement.PARTITIONER, keyPrefix="a") == list(range(8))
    assert read(Placement.PARTITIONER) == list(range(8))
    assert read(Placement.PARTITIONER, key="a", readChangeFeed="true") == [place]
    for unknown in (None, Placement.TASK):
        assert read(unknown, key="a") == list(range(8))


def test_a_read_of_what_no_partition_can_have_has_no_rows(
    state: Path, subtests: pytest.Subtests
) -> None:
    """It failed with a bare `AssertionError`: Spark makes a task of its own where none is planned.

    So did a `key` together with `partitions` that are not its own, as a job finds them that goes
    through the partitions; an empty list of `keys`; and what a root without stores says of itself.
    """
    place = GivenRoot(state)
    spark_makes = InputPartition(None)
    for options in ({"keys": "[]"}, {"keys": "[]", "readChangeFeed": "true"}):
        with subtests.test(str(options)):
            given = SourceOptions.for_reading({"path": str(state), **options})
            source = StateStoreReader(place, COUNTS, 1, given, placement=Placement.PARTITIONER)

            assert source.partitions() == []
            assert list(source.read(spark_makes)) == []
    empty = ss.StateRoot.create(state.parent / "empty").path
    for table in METADATA:
        with subtests.test(table):
            given = SourceOptions.for_reading({"path": str(empty)})
            reader = MetadataReader(GivenRoot(empty), table, given)

            assert reader.partitions() == []
            assert list(reader.read(spark_makes)) == []


def test_a_state_root_says_what_it_has(state: Path) -> None:
    """Each table has the columns that it declares, and is read without Spark as with it."""
    with ss.open_logged_store(state, "counts", 0, backend="memory") as logged:
        logged.snapshot()
    found: dict[str, list[dict[str, Any]]] = {}
    for table in METADATA:
        reader = MetadataReader(
            GivenRoot(state), table, SourceOptions.for_reading({"path": str(state)})
        )
        batches = [batch for task in reader.partitions() for batch in reader.read(task)]
        assert all(batch.schema.equals(reader.arrow_schema()) for batch in batches)
        found[table] = [row for batch in batches for row in batch.to_pylist()]

    (store,), (partition,), (snapshot,) = (
        found[table] for table in ("stores", "partitions", "snapshots")
    )
    assert (store["store"], store["kind"], store["key_serde"]) == ("counts", "key-value", "utf8")
    assert (partition["end_offset"], partition["snapshot_offset"]) == (6, 5)
    assert (snapshot["offset"], snapshot["rows"]) == (5, 3)
    assert [(row["version"], row["changes"]) for row in found["commits"]] == [
        (1, 2),
        (3, 2),
        (5, 2),
    ]
    assert [row["committed_at"].timestamp() for row in found["commits"]] == [1, 2, 3]


def test_a_dataframe_of_commits_and_a_store_that_spark_has_written(
    spark: SparkSession, root: str
) -> None:
    """Its keys are where the partitioner puts them, so one key is one task."""
    given = spark.createDataFrame([("a", 1), ("b", 2)], "key string, value long")
    given.write.format("statestores").options(storeName="s", numPartitions=4).mode("append").save(
        root
    )

    commits = spark.read.format("statestores").option("metadata", "commits").load(root)
    one = spark.read.format("statestores").option("key", "a").load(root)
    none = spark.read.format("statestores").option("keys", "[]").load(root)

    assert {row.operation for row in commits.collect()} == {"changes"}
    assert ss.StateRoot.open(root).store("s").placement is Placement.PARTITIONER
    assert one.rdd.getNumPartitions() == 1
    assert [row.value for row in one.collect()] == [1]
    assert none.collect() == []
