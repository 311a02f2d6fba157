"""Exported checkpoints, read by Spark's own source: time travel, the change feed, every kind."""

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import statestores as ss
from statestores.errors import InvalidArgumentError
from statestores.logged_store import open_logged_store
from statestores.migration.spark.export import EXPORT_FILE, SparkExport, export_spark_checkpoint
from statestores.reading.partition_reader import PartitionReader

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_COMMITS = 11
_ROWS_OF_A_COMMIT = 14
_LARGE = 10 * 1024 * 1024

COUNTS = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
DOCUMENTS = ss.KeyValue("documents", key=ss.int64_sorted, value=ss.json)
PRICES = ss.TimestampedKeyValue("prices", key=ss.utf8, value=ss.float64, ttl_ms=4_000)
RATES = ss.Versioned("rates", key=ss.utf8, value=ss.utf8, history_retention_ms=3_000)
WINDOWS = ss.Window("windows", key=ss.utf8, value=ss.int64, window_size_ms=500, retention_ms=3_000)
VISITS = ss.Session("visits", key=ss.utf8, value=ss.int64, retention_ms=3_000)
CLICKS = ss.Window(
    "clicks", key=ss.utf8, window_size_ms=500, retention_ms=3_000, retain_duplicates=True
)

Put = Callable[[Any, str, int, random.Random], None]


def _value(randomness: random.Random) -> int | None:
    return None if randomness.random() < 0.2 else randomness.randrange(1_000)


def _put_count(store: Any, key: str, time_ms: int, randomness: random.Random) -> None:
    store.put(key, _value(randomness))


def _put_document(store: Any, key: str, time_ms: int, randomness: random.Random) -> None:
    store.put(len(key) * (-1) ** len(key) + time_ms // 1_000, {"schlüssel": key, "leer": None})


def _put_price(store: Any, key: str, time_ms: int, randomness: random.Random) -> None:
    value = _value(randomness)
    store.put(key, None if value is None else value / 7, timestamp_ms=time_ms)


def _put_rate(store: Any, key: str, time_ms: int, randomness: random.Random) -> None:
    value = _value(randomness)
    store.put(key, None if value is None else str(value), timestamp_ms=time_ms)


def _put_window(store: Any, key: str, time_ms: int, randomness: random.Random) -> None:
    store.put(key, _value(randomness), window_start_ms=time_ms // 500 * 500)


def _put_visit(store: Any, key: str, time_ms: int, randomness: random.Random) -> None:
    store.put(key, time_ms, time_ms + randomness.randrange(400), randomness.randrange(100))


def _put_click(store: Any, key: str, time_ms: int, randomness: random.Random) -> None:
    store.put(key, bytes(randomness.randrange(3)), window_start_ms=time_ms // 500 * 500)


_KINDS: list[tuple[Any, Put]] = [
    (COUNTS, _put_count),
    (DOCUMENTS, _put_document),
    (PRICES, _put_price),
    (RATES, _put_rate),
    (WINDOWS, _put_window),
    (VISITS, _put_visit),
    (CLICKS, _put_click),
]


def _fill(root: ss.StateRoot, store: Any, put: Put, *, partitions: int = 2) -> None:
    """Write commits with late rows, repeated keys and deletions into all partitions but the last.

    The last one stays empty.
    """
    root.add_store(store, partitions=partitions)
    randomness = random.Random(store.name)
    for number in range(partitions - 1):
        with open_logged_store(root, store.name, number, backend="memory") as logged:
            for commit in range(_COMMITS):
                for _ in range(_ROWS_OF_A_COMMIT):
                    key = f"ключ {randomness.randrange(9)}"
                    # Up to 5 s late, of which up to 3 s are not too late.
                    time_ms = 6_000 + commit * 800 - randomness.randrange(5_000)
                    put(logged.store, key, time_ms, randomness)
                logged.commit()


def _plain(value: Any) -> Any:
    """Return a time as milliseconds, and anything else as it is."""
    return (value - _EPOCH) // _MILLISECOND if isinstance(value, datetime) else value


def _state(spark: SparkSession, checkpoint: Path, **options: Any) -> DataFrame:
    return spark.read.format("statestore").options(**options).load(str(checkpoint))


def _spark_rows(frame: DataFrame, names: list[str]) -> list[tuple[Any, ...]]:
    """Return the state's rows with their partition; of versions, those that are no deletion."""
    rows = frame.selectExpr("partition_id", "key.*", "value.*").toArrow().to_pylist()
    return sorted(
        (row["partition_id"], *(_plain(row[name]) for name in names))
        for row in rows
        if row["value"] is not None
    )


def _store_rows(
    root: ss.StateRoot, name: str, offsets: dict[int, int], names: list[str]
) -> list[tuple[Any, ...]]:
    """Return what the store had at these offsets."""
    specification = root.store(name).specification
    found: list[tuple[Any, ...]] = []
    for number, offset in offsets.items():
        reader = PartitionReader(root.partition(name, number), specification)
        is_versioned = isinstance(specification, ss.Versioned)
        for batch in reader.rows(offset=offset, history=is_versioned):
            columns = batch.select(names).to_pydict().values()
            found += [(number, *row) for row in zip(*columns, strict=True)]
    return sorted(found)


@pytest.mark.parametrize(("store", "put"), _KINDS, ids=lambda each: getattr(each, "name", ""))
def test_each_batch_is_what_the_store_had_then(
    spark: SparkSession, tmp_path: Path, store: Any, put: Put
) -> None:
    """Of every kind, at batches with a snapshot, between them, and after expiry."""
    root = ss.StateRoot.create(tmp_path / "state")
    _fill(root, store, put)
    checkpoint = tmp_path / "checkpoint"
    done = export_spark_checkpoint(root, store.name, checkpoint, every=2, snapshot_every=3)
    schema = _state(spark, checkpoint).schema
    names = [*schema["key"].dataType.names, *schema["value"].dataType.names]  # type: ignore[attr-defined]

    assert done.batches == -(-_COMMITS // 2)
    for batch in (1, 3, done.batches - 1):
        rows = _spark_rows(_state(spark, checkpoint, batchId=batch), names)
        expected = _store_rows(root, store.name, done.last_offsets[batch], names)
        assert expected
        assert rows == expected


def test_the_change_feed_has_the_operations_of_the_changelog(
    spark: SparkSession, tmp_path: Path
) -> None:
    """In its order, repeated keys and deletions included."""
    root = ss.StateRoot.create(tmp_path / "state")
    _fill(root, COUNTS, _put_count)
    checkpoint = tmp_path / "checkpoint"
    done = export_spark_checkpoint(root, "counts", checkpoint, every=4)
    reader = PartitionReader(root.partition("counts", 0), COUNTS)
    changes = pa.Table.from_batches(list(reader.changes())).to_pylist()
    feed = _state(spark, checkpoint, readChangeFeed=True, changeStartBatchId=0).collect()

    for batch, last in enumerate(done.last_offsets):
        first = 0 if batch == 0 else done.last_offsets[batch - 1][0] + 1
        expected = [
            ("delete" if row["value"] is None else "update", row["key"], row["value"])
            for row in changes[first : last[0] + 1]
        ]
        assert [
            (row.change_type, row.key.key, None if row.value is None else row.value.value)
            for row in feed
            if row.batch_id == batch
        ] == expected
    assert len(feed) == len(changes) == done.changes


def _bytes_store(tmp_path: Path, rows: list[tuple[bytes, bytes | None]]) -> ss.StateRoot:
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(ss.KeyValue("blobs"), partitions=1)
    with open_logged_store(root, "blobs", 0, backend="memory") as logged:
        for key, value in rows:
            logged.store.put(key, value)
        logged.commit()
    return root


def test_extreme_values_arrive(spark: SparkSession, tmp_path: Path) -> None:
    """Empty and large ones, and bytes that are no text."""
    rows = [
        (b"\x00", b""),
        (b"a" * 1_001, b"\xff" * 7),
        (b"large", random.Random(1).randbytes(_LARGE)),
    ]
    root = _bytes_store(tmp_path, [*rows, (b"gone", b"x")])
    with open_logged_store(root, "blobs", 0) as logged:
        logged.store.delete(b"gone")
        logged.commit()
    export_spark_checkpoint(root, "blobs", tmp_path / "checkpoint", snapshot_every=2)
    state = _state(spark, tmp_path / "checkpoint").collect()

    assert sorted((bytes(row.key.key), bytes(row.value.value)) for row in state) == sorted(rows)


def test_a_replaced_store_has_deletions_in_the_feed(spark: SparkSession, tmp_path: Path) -> None:
    """A clear is one row of our log, and a row for each key of Spark's."""
    root = _bytes_store(tmp_path, [(b"a", b"1"), (b"b", b"2")])
    with open_logged_store(root, "blobs", 0) as logged:
        logged.changelog.append_clear()
    with open_logged_store(root, "blobs", 0) as logged:
        logged.store.put(b"c", b"3")
        logged.commit()
    checkpoint = tmp_path / "checkpoint"
    export_spark_checkpoint(root, "blobs", checkpoint, every=1)
    feed = _state(spark, checkpoint, readChangeFeed=True, changeStartBatchId=1).collect()

    assert [(row.change_type, bytes(row.key.key)) for row in feed] == [
        ("delete", b"a"),
        ("delete", b"b"),
        ("update", b"c"),
    ]
    assert [bytes(row.key.key) for row in _state(spark, checkpoint).collect()] == [b"c"]


def test_what_is_before_the_first_offset_is_content_of_batch_0(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Also where a compaction has left no other choice."""
    root = ss.StateRoot.create(tmp_path / "state")
    _fill(root, RATES, _put_rate)
    names = ["key", "valid_from", "value"]
    checkpoint = tmp_path / "checkpoint"
    done = export_spark_checkpoint(root, "rates", checkpoint, from_offset=100, every=1)

    assert done.last_offsets[0] == {0: 99, 1: -1}
    for batch in (0, done.batches - 1):
        rows = _spark_rows(_state(spark, checkpoint, batchId=batch), names)
        assert rows == _store_rows(root, "rates", done.last_offsets[batch], names)


def test_raw_leaves_bytes_and_milliseconds(spark: SparkSession, tmp_path: Path) -> None:
    """For who wants exactly what is stored."""
    root = ss.StateRoot.create(tmp_path / "state")
    _fill(root, VISITS, _put_visit)
    export_spark_checkpoint(root, "visits", tmp_path / "checkpoint", raw=True)

    assert _state(spark, tmp_path / "checkpoint").schema.simpleString() == (
        "struct<key:struct<key:binary,session_start:bigint,session_end:bigint>,"
        "value:struct<value:binary>,partition_id:int>"
    )


def test_a_store_without_rows_is_a_state_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    """One batch, in which nothing happens."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(COUNTS, partitions=2)
    done = export_spark_checkpoint(root, "counts", tmp_path / "checkpoint")
    metadata = spark.read.format("state-metadata").load(str(tmp_path / "checkpoint")).collect()

    assert done == SparkExport(
        path=tmp_path / "checkpoint",
        partitions=2,
        batches=1,
        changes=0,
        last_offsets=({0: -1, 1: -1},),
    )
    assert _state(spark, tmp_path / "checkpoint").count() == 0
    assert [(row.numPartitions, row.maxBatchId) for row in metadata] == [(2, 0)]
    assert json.loads((tmp_path / "checkpoint" / EXPORT_FILE).read_text())["last_offsets"] == [
        [-1, -1]
    ]


def test_a_time_that_spark_does_not_have_is_refused(tmp_path: Path) -> None:
    """Its timestamps end in the year 294247."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(RATES, partitions=1)
    with open_logged_store(root, "rates", 0, backend="memory") as logged:
        logged.store.put("k", "v", timestamp_ms=(1 << 63) - 1)
        logged.commit()

    with pytest.raises(InvalidArgumentError, match="'valid_from' is beyond Spark's timestamps"):
        export_spark_checkpoint(root, "rates", tmp_path / "checkpoint")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["state"]
