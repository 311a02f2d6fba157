"""As-of joins of DataFrames, batch and streaming, against plain Python."""

import json
import os
import shutil
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession
from store_streams import run

import statestores as ss
from statestores.changelog import changelog_partition
from statestores.errors import (
    ChangelogCorruptedError,
    InvalidArgumentError,
    StorageError,
    StoreCorruptedError,
    StoreNotFoundError,
    StoreReshardedError,
)
from statestores.object_log import driver
from statestores.object_log.documents import pack_document
from statestores.resharding import reshard
from statestores.spark import temporal_join
from statestores.spark.copied_partition import copied_partition
from statestores.spark.given_root import GivenRoot
from statestores.spark.hash_placement import PLACE_COLUMN, Placement, places_of
from statestores.spark.local_copy import CopyOptions, local_copy
from statestores.spark.temporal import frame as temporal_join_frame
from statestores.spark.temporal.pins import TablePins, table_ends
from statestores.storage import Found, Outcome

RATES = ss.Versioned("rates", history_retention_ms=1_000_000, key=ss.utf8, value=ss.float64)
HISTORY = [
    ("EUR", 1.0, 1_000),
    ("EUR", 1.1, 2_000),
    ("EUR", None, 3_000),
    ("EUR", 1.3, 4_000),
    ("日本", 0.5, 1_500),
    ("", 7.0, 0),
]
ORDERS: list[tuple[str | None, int | None]] = [
    ("EUR", 999),
    ("EUR", 1_000),
    ("EUR", 1_999),
    ("EUR", 3_500),
    ("EUR", 900_000),
    ("日本", 1_600),
    ("", 0),
    ("USD", 5_000),
    (None, 5_000),
    ("EUR", None),
]

RowsOf = Callable[[DataFrame], list[tuple[Any, ...]]]
Row = tuple[str | None, int | None, float | None, int | None]


def add_versions(
    state: Path | str, versions: list[tuple[str, float | None, int]], engines: Path | None = None
) -> None:
    """Put versions into the store, as its owner; in an object store with *engines* elsewhere."""
    root = ss.StateRoot.create(state)
    root.add_store(RATES, partitions=3)
    batch = [[each for each in versions if _partition(each[0]) == number] for number in range(3)]
    for number, own in enumerate(batch):
        directory = None if engines is None else engines / str(number)
        with ss.open_logged_store(
            root, "rates", number, directory=directory, backend="memory"
        ) as store:
            for key, value, time_ms in own:
                store.store.put(key, value, time_ms)
            store.commit()


def _partition(key: str) -> int:
    from statestores.partitioning import murmur2_partitioner  # noqa: PLC0415  # of one function

    return murmur2_partitioner.partition(key.encode(), 3)


def expected(history: list[tuple[str, float | None, int]], max_age_ms: int = 1 << 62) -> list[Row]:
    """Join the orders in plain Python."""
    rows: list[Row] = []
    for key, time_ms in ORDERS:
        own = sorted((start, value) for name, value, start in history if name == key)
        place = -1 if time_ms is None else bisect_right([start for start, _ in own], time_ms) - 1
        start, value = own[place] if place >= 0 else (None, None)
        if value is None or (time_ms or 0) - (start or 0) > max_age_ms:
            start, value = None, None
        rows.append((key, time_ms, value, start))
    return sorted(rows, key=repr)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state root with the history."""
    add_versions(tmp_path / "state", HISTORY)
    return tmp_path / "state"


@pytest.fixture
def orders(spark: SparkSession) -> DataFrame:
    """The orders as a batch, in several partitions."""
    return spark.createDataFrame(ORDERS, "key string, time_ms long").repartition(3)


def with_milliseconds(joined: DataFrame) -> DataFrame:
    """Return the joined rows with the start as a number."""
    return joined.selectExpr("key", "time_ms", "value", "unix_millis(valid_from)")


def test_a_batch_is_joined_as_in_plain_python(
    orders: DataFrame, state: Path, tmp_path: Path, rows_of: RowsOf
) -> None:
    """Left and inner, with an age or without; null keys and times find nothing."""
    joined = temporal_join(
        orders, state, on="key", at="time_ms", local_directory=tmp_path / "local"
    )

    assert joined.columns == ["key", "time_ms", "value", "valid_from"]
    assert rows_of(with_milliseconds(joined)) == expected(HISTORY)
    shutil.rmtree(tmp_path / "local")
    assert joined.count() == len(ORDERS)
    young = temporal_join(orders, state, on="key", at="time_ms", how="inner", max_age_ms=500)
    found = [row for row in expected(HISTORY, 500) if row[2] is not None]
    assert rows_of(with_milliseconds(young)) == found


def test_a_name_that_differs_in_case_only_is_taken(orders: DataFrame, state: Path) -> None:
    """Spark could not tell the new column from the one that was there: AMBIGUOUS_REFERENCE."""
    for names in ({"value_name": "KEY"}, {"value_name": "v", "valid_from_name": "V"}):
        with pytest.raises(InvalidArgumentError, match="is there already"):
            temporal_join(orders, state, on="key", at="time_ms", **names)  # type: ignore[arg-type]


def test_columns_are_found_as_spark_finds_them(
    spark: SparkSession, orders: DataFrame, state: Path, rows_of: RowsOf
) -> None:
    """A join ``on="KEY"`` of a frame with a column ``key`` had "0 columns 'KEY'".

    To Spark these are one column, unless its session minds case, or there is one of exactly that
    name.
    """
    join: dict[str, Any] = {"on": "KEY", "at": "TIME_MS"}
    joined = temporal_join(orders, state, **join)

    assert joined.columns == ["key", "time_ms", "value", "valid_from"]
    assert rows_of(with_milliseconds(joined)) == expected(HISTORY)
    both = orders.selectExpr("'nobody' AS key", "key AS KEY", "time_ms")
    assert {row.value for row in temporal_join(both, state, **join).collect()} > {1.0, 1.3}
    for name in ("keys", "Key"):
        with pytest.raises(InvalidArgumentError, match=f"has 0 columns '{name}', expected one"):
            temporal_join(both, state, on=name, at="time_ms")
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(InvalidArgumentError, match="has 0 columns 'KEY', expected one"):
            temporal_join(orders, state, **join)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_times_may_be_timestamps_and_columns_are_named(
    spark: SparkSession, state: Path, rows_of: RowsOf
) -> None:
    """Of any zone; the columns that were there stay as they were."""
    orders = spark.createDataFrame(ORDERS, "k string, ms long").selectExpr(
        "array(k) AS keys", "k", "timestamp_millis(ms) AS at", "timestamp_ntz'2024-01-01' AS ntz"
    )
    joined = temporal_join(
        orders, state, "rates", on="k", at="at", value_name="rate", valid_from_name="since"
    )
    rows = joined.selectExpr("k", "unix_millis(at)", "rate", "unix_millis(since)")

    assert joined.columns == ["keys", "k", "at", "ntz", "rate", "since"]
    assert rows_of(rows) == expected(HISTORY)
    assert joined.where("keys[0] = k AND ntz = '2024-01-01'").count() == len(ORDERS) - 1


def test_times_without_a_zone_are_in_that_of_the_session(spark: SparkSession, state: Path) -> None:
    """As wherever Spark compares them with instants; they were taken as UTC, hours off."""
    add_versions(state, [("EUR", 9.0, 900_000)])
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Oslo")
    try:
        orders = spark.sql(
            "SELECT 'EUR' AS k, timestamp_ntz'1970-01-01 01:00:04' AS sold_at"
            " UNION ALL SELECT 'EUR', timestamp_ntz'1970-01-01 00:00:04'"
        )
        joined = temporal_join(orders, state, on="k", at="sold_at")
        found = {(str(row["sold_at"]), row["value"]) for row in joined.collect()}
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))

    assert joined.columns == ["k", "sold_at", "value", "valid_from"]
    assert joined.schema["sold_at"] == orders.schema["sold_at"]
    assert found == {("1970-01-01 01:00:04", 1.3), ("1970-01-01 00:00:04", None)}


def test_a_column_may_have_a_dot_in_its_name(spark: SparkSession, state: Path) -> None:
    """As columns of files with a header have; PySpark took it for a field of a struct.

    Most such DataFrames failed with an error of Spark's that the caller could not help, and so did
    those with a backtick, or a NUL. The struct here has a field that the dotted name finds.
    """
    orders = spark.sql(
        "SELECT named_struct('key', 'wrong') AS order, 'EUR' AS `order.key`, 'x' AS `a``b`, "
        "timestamp_ntz'1970-01-01 00:00:04' AS `sold.at`"
    )
    joined = temporal_join(orders, state, on="order.key", at="sold.at", value_name="the.rate")

    assert joined.columns == [*orders.columns, "the.rate", "valid_from"]
    assert joined.drop("valid_from").collect() == [(*orders.collect()[0], 1.3)]
    ended = spark.createDataFrame([("EUR", 4_000)], "key string, time_ms long").toDF("k\0", "t")
    joined = temporal_join(ended, state, on="k\0", at="t").drop("valid_from")
    assert joined.collect() == [("EUR", 4_000, 1.3)]


def test_columns_may_share_a_name(spark: SparkSession, state: Path) -> None:
    """As those of a join do, and to Spark ``Key`` and ``key``; one may be called ``*``.

    Such DataFrames failed with an error of Spark's about a reference that is ambiguous, though the
    columns to join on were not.
    """
    orders = spark.sql("SELECT 'EUR', timestamp_ntz'1970-01-01 00:00:04', 'a', 'b', 'c', 'd', 'e'")
    orders = orders.toDF("k", "t", "id", "id", "Key", "key", "*")
    joined = temporal_join(orders, state, on="k", at="t", value_name="rate")

    assert joined.columns == [*orders.columns, "rate", "valid_from"]
    assert [tuple(row)[:-1] for row in joined.collect()] == [(*orders.collect()[0], 1.3)]
    with pytest.raises(InvalidArgumentError, match="has 2 columns 'id', expected one"):
        temporal_join(orders, state, on="id", at="t", value_name="rate")


def test_a_batch_sees_the_table_as_it_was(orders: DataFrame, state: Path, rows_of: RowsOf) -> None:
    """When the join was made, however often it is computed."""
    joined = temporal_join(orders, state, on="key", at="time_ms")
    add_versions(state, [("EUR", 9.0, 5_000)])

    assert rows_of(with_milliseconds(joined)) == expected(HISTORY)
    later = temporal_join(orders, state, on="key", at="time_ms")
    assert rows_of(with_milliseconds(later)) == expected([*HISTORY, ("EUR", 9.0, 5_000)])


@pytest.mark.spec("OBJ-42")
def test_in_memory_and_on_disk_are_alike(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """Also outside of the retention, in all partitions, with several batches; in objects, too."""
    old = ("EUR", 3.0, 2_000_000)
    add_versions(state, [old])
    url = f"memory://joined/{tmp_path.name}"
    add_versions(url, [*HISTORY, old], tmp_path / "engines")
    # Of EUR, what was valid before the horizon at 1,000,000 is out of the retention.
    kept = [each for each in HISTORY if each[0] != "EUR"]
    wanted = [row for row in expected([*kept, old]) if row[0] != "EUR"]
    late: list[Row] = [
        ("EUR", 1_500_000, 1.3, 4_000),
        ("EUR", 3_000_000, 3.0, 2_000_000),
    ]
    unknown: list[Row] = [(k, t, None, None) for k, t in ORDERS if k == "EUR"]
    for root in (GivenRoot(state), GivenRoot(url)):
        for rows_worth in (0, 1_000_000):
            with subtests.test(root=root, rows_worth=rows_worth):
                monkeypatch.setattr(temporal_join_frame, "_ROWS_WORTH", rows_worth)
                found = joined_without_spark(root, tmp_path / "local")

                assert sorted(found, key=repr) == sorted([*wanted, *late, *unknown], key=repr)


def joined_without_spark(root: GivenRoot, local: Path) -> list[Row]:
    """Return the orders, and two late ones, as the tasks of a batch join them."""
    join = temporal_join_frame.TemporalJoin(
        pins=TablePins(
            root=root, specification=RATES, partitions=3, planned=table_ends(root, RATES, 3)
        ),
        on="key",
        at="time_ms",
        how="left",
        max_age_ms=None,
        value_name="value",
        valid_from_name="valid_from",
        copies=CopyOptions(directory=str(local), backend="sqlite"),
    )
    placement = Placement(specification=RATES, partitions=3, key="key", keeps_nulls=True)
    found: list[Row] = []
    for number in range(3):
        place = places_of(3)[number]
        schema = pa.schema([("key", pa.string()), ("time_ms", pa.int64())])
        times = [*ORDERS, ("EUR", 1_500_000), ("EUR", 3_000_000)]
        rows = [dict(zip(schema.names, row, strict=True)) for row in times]
        (batch,) = placement.rows([pa.RecordBatch.from_pylist(rows, schema)])
        own = batch.filter(pc.equal(batch.column(PLACE_COLUMN), int(place)))
        for joined in join.run([own.slice(0, 0), own.slice(0, 1), own.slice(1)]):
            starts = joined.column("valid_from").cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
            columns = [joined.column(name) for name in ("key", "time_ms", "value")]
            found += zip(*(column.to_pylist() for column in [*columns, starts]), strict=True)
    return found


@pytest.mark.spec("OBJ-42", "RSH-19")
def test_what_a_micro_batch_has_pinned_stays(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """Whichever task asks, and however the table has grown; of the last two micro-batches.

    A stream went on after a reshard, in a directory: it pinned the new partitions by the old
    number, looked for keys in the wrong ones, and found nothing there, without an error.
    """
    url = f"memory://pinned/{tmp_path.name}"
    add_versions(url, HISTORY, tmp_path / "engines")
    for root, engines in ((GivenRoot(state), None), (GivenRoot(url), tmp_path / "engines")):
        with subtests.test(root=root):
            pins = TablePins(root=root, specification=RATES, partitions=3, planned={})
            first = pins.pinned("query", 0)
            assert sum(first.values()) == len(HISTORY)
            add_versions(root.place, [("EUR", 9.0, 5_000)], engines)

            assert pins.pinned("query", 0) == first
            assert pins.pinned("another", 0) == table_ends(root, RATES, 3) != first
            for number in (1, 2):
                pins.pinned("query", number)
            assert pinned_of(root) == ["another/rates-0", "query/rates-1", "query/rates-2"]
            other = TablePins(root=root, specification=RATES, partitions=2, planned={})
            with pytest.raises(StoreCorruptedError, match="does not say where the 2 partitions"):
                other.pinned("query", 2)
    with subtests.test("damaged, and not answered"), monkeypatch.context() as patch:
        refuse_pins(GivenRoot(url), patch)
    for root in (GivenRoot(state), GivenRoot(url)):
        with subtests.test("resharded", root=root):
            check_resharded(root, CopyOptions(directory=str(tmp_path / "copies"), backend="sqlite"))


def check_resharded(root: GivenRoot, copies: CopyOptions) -> None:
    """Accept errors for what was pinned of, or planned for, other partitions; and newer copies.

    In an object store a copy that was behind the reshard could not be brought up, and every task
    of the join failed.
    """

    def copy(partitions: int) -> None:
        end = table_ends(root, RATES, partitions)[0]
        with local_copy(copied_partition(root, RATES, partitions, 0), end, copies) as store:
            assert store.committed_offset(changelog_partition("rates", 0)) == end - 1

    pins = TablePins(root=root, specification=RATES, partitions=3, planned={})
    resharded = TablePins(root=root, specification=RATES, partitions=2, planned={})
    copy(3)
    reshard(root.place, "rates", 2)
    with pytest.raises(StoreReshardedError):
        pins.pinned("query", 3)
    with pytest.raises(StoreReshardedError):
        copied_partition(root, RATES, 3, 0)
    with pytest.raises(StoreCorruptedError, match="before a reshard: then remove it"):
        resharded.pinned("query", 2)
    assert resharded.pinned("query", 3) == table_ends(root, RATES, 2)
    copy(2)


def refuse_pins(root: GivenRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Accept errors for objects that are damaged or not answered: such a batch could not repeat."""
    pins = TablePins(root=root, specification=RATES, partitions=3, planned={})
    storage, name = root.objects, "@pins/query/rates-2"
    found = storage.read(name)
    assert isinstance(found, Found)
    for content, reason in ((found.data[:-1], "checksum"), (pack_document("seal", {}), "no pins")):
        storage.delete(name)
        storage.create(name, content)
        with pytest.raises(ChangelogCorruptedError, match=reason):
            pins.pinned("query", 2)
    storage.delete(name)
    storage.create(name, found.data)
    monkeypatch.setattr(driver, "_FIRST_WAIT_S", 0)
    monkeypatch.setattr(type(storage), "create", lambda *_: Outcome.UNKNOWN)
    with pytest.raises(StorageError, match=r"cannot write .*query/rates-3"):
        pins.pinned("query", 3)


def pinned_of(root: GivenRoot) -> list[str]:
    """Return what is pinned in *root*, by query."""
    if root.directory is not None:
        pinned = root.directory / "@pins"
        found = [str(path.relative_to(pinned).with_suffix("")) for path in pinned.rglob("*.json")]
    else:
        found = [each.name.removeprefix("@pins/") for each in root.objects.list("@pins/")]
    return sorted(found)


def give(directory: Path, number: int) -> None:
    """Add all orders to the stream, as a micro-batch."""
    directory.mkdir(exist_ok=True)
    part = directory / f"_{number}"
    rows = [{"key": key, "time_ms": time_ms} for key, time_ms in ORDERS]
    part.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    os.utime(part, (1_000_000 + number,) * 2)
    part.rename(directory / f"{number:03d}.json")


def test_a_stream_sees_the_table_grow_and_repeats_what_it_saw(
    spark: SparkSession, state: Path, tmp_path: Path
) -> None:
    """Each micro-batch is pinned when it begins; one that comes again, to what it saw."""
    files, local = tmp_path / "orders", tmp_path / "local"
    seen: list[tuple[int, list[Row]]] = []
    added = [("EUR", 2.0 + number, 5_000 + number) for number in range(4)]

    def sink(frame: DataFrame, number: int) -> None:
        rows = with_milliseconds(frame).collect()
        seen.append((number, sorted((tuple(row) for row in rows), key=repr)))
        add_versions(state, [added[len(seen) - 1]])  # also before it comes again
        if len(seen) == 2:
            raise OSError("the sink is full")

    for life in range(3):
        give(files, life)
        stream = spark.readStream.schema("key string, time_ms long").json(str(files))
        joined = temporal_join(stream, state, on="key", at="time_ms", local_directory=local)
        writer = joined.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.foreachBatch(sink).trigger(availableNow=True).start()
        if life == 1:
            with pytest.raises(Exception, match="the sink is full"):
                run(query)
        else:
            run(query)

    assert [number for number, _ in seen] == [0, 1, 1, 2]
    assert seen[0][1] == expected(HISTORY)
    assert seen[1][1] == seen[2][1] == expected([*HISTORY, added[0]])
    assert seen[3][1] == expected([*HISTORY, *added[:3]])
    pins = [name.partition("/")[2] for name in pinned_of(GivenRoot(state))]
    assert pins == ["rates-1", "rates-2"]


def test_what_cannot_be_joined_is_refused_at_once(
    spark: SparkSession, orders: DataFrame, state: Path, tmp_path: Path
) -> None:
    """With the column, and what it should be."""
    counts = ss.KeyValue("counts", key=ss.utf8)
    ss.StateRoot.open(state).add_store(counts, partitions=1)
    renamed = orders.withColumnRenamed("time_ms", "value")
    numbers = orders.selectExpr("time_ms AS key", "time_ms")
    wrong: list[tuple[DataFrame, dict[str, Any], str]] = [
        (orders, {"on": "kye"}, "kye"),
        (orders, {"at": "key"}, "key"),
        (orders, {"how": "outer"}, "outer"),
        (orders, {"max_age_ms": -1}, "-1"),
        (renamed, {"at": "value"}, "value"),
        (numbers, {}, "key"),
        (orders, {"store": "counts"}, "needs a versioned one"),
    ]
    for frame, options, reason in wrong:
        with pytest.raises(InvalidArgumentError, match=reason):
            temporal_join(
                frame, state, **{"store": "rates", "on": "key", "at": "time_ms", **options}
            )
    with pytest.raises(StoreNotFoundError, match="no store 'rate'; it has: counts, rates"):
        temporal_join(orders, state, "rate", on="key", at="time_ms")
    with pytest.raises(StoreNotFoundError, match="no state root"):
        temporal_join(orders, tmp_path / "nothing", on="key", at="time_ms")
