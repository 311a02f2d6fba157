"""As-of joins of DataFrames, batch and streaming, against plain Python."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession
from rated_orders import (
    HISTORY,
    ORDERS,
    RATES,
    Row,
    RowsOf,
    add_versions,
    expected,
    with_milliseconds,
)
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


def test_a_batch_is_joined_as_in_plain_python(
    orders: DataFrame, rates: Path, tmp_path: Path, rows_of: RowsOf
) -> None:
    """Left and inner, with an age or without; null keys and times find nothing."""
    joined = temporal_join(
        orders, rates, on="key", at="time_ms", local_directory=tmp_path / "local"
    )

    assert joined.columns == ["key", "time_ms", "value", "valid_from"]
    assert rows_of(with_milliseconds(joined)) == expected(HISTORY)
    shutil.rmtree(tmp_path / "local")
    assert joined.count() == len(ORDERS)
    young = temporal_join(orders, rates, on="key", at="time_ms", how="inner", max_age_ms=500)
    found = [row for row in expected(HISTORY, 500) if row[2] is not None]
    assert rows_of(with_milliseconds(young)) == found


def test_a_batch_sees_the_table_as_it_was(orders: DataFrame, rates: Path, rows_of: RowsOf) -> None:
    """When the join was made, however often it is computed."""
    joined = temporal_join(orders, rates, on="key", at="time_ms")
    add_versions(rates, [("EUR", 9.0, 5_000)])

    assert rows_of(with_milliseconds(joined)) == expected(HISTORY)
    later = temporal_join(orders, rates, on="key", at="time_ms")
    assert rows_of(with_milliseconds(later)) == expected([*HISTORY, ("EUR", 9.0, 5_000)])


@pytest.mark.spec("OBJ-42")
def test_in_memory_and_on_disk_are_alike(
    rates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """Also outside of the retention, in all partitions, with several batches; in objects, too."""
    old = ("EUR", 3.0, 2_000_000)
    add_versions(rates, [old])
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
    for root in (GivenRoot(rates), GivenRoot(url)):
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
    rates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """Whichever task asks, and however the table has grown; of the last two micro-batches.

    A stream went on after a reshard, in a directory: it pinned the new partitions by the old
    number, looked for keys in the wrong ones, and found nothing there, without an error.
    """
    url = f"memory://pinned/{tmp_path.name}"
    add_versions(url, HISTORY, tmp_path / "engines")
    for root, engines in ((GivenRoot(rates), None), (GivenRoot(url), tmp_path / "engines")):
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
    for root in (GivenRoot(rates), GivenRoot(url)):
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


def test_pins_that_cannot_be_written_leave_nothing(
    rates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a disk without hard links, each attempt of each task left a file that nobody removes."""
    root = GivenRoot(rates)
    pins = TablePins(root=root, specification=RATES, partitions=3, planned={})

    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", refuse)
        with pytest.raises(StorageError, match=r"cannot write .*: Operation not supported"):
            pins.pinned("query", 1)
    assert [file for file in (rates / "@pins").rglob("*") if file.is_file()] == []
    pins.pinned("query", 1)

    assert pinned_of(root) == ["query/rates-1"]


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
    spark: SparkSession, rates: Path, tmp_path: Path
) -> None:
    """Each micro-batch is pinned when it begins; one that comes again, to what it saw."""
    files, local = tmp_path / "orders", tmp_path / "local"
    seen: list[tuple[int, list[Row]]] = []
    added = [("EUR", 2.0 + number, 5_000 + number) for number in range(4)]

    def sink(frame: DataFrame, number: int) -> None:
        rows = with_milliseconds(frame).collect()
        seen.append((number, sorted((tuple(row) for row in rows), key=repr)))
        add_versions(rates, [added[len(seen) - 1]])  # also before it comes again
        if len(seen) == 2:
            raise OSError("the sink is full")

    for life in range(3):
        give(files, life)
        stream = spark.readStream.schema("key string, time_ms long").json(str(files))
        joined = temporal_join(stream, rates, on="key", at="time_ms", local_directory=local)
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
    pins = [name.partition("/")[2] for name in pinned_of(GivenRoot(rates))]
    assert pins == ["rates-1", "rates-2"]


def test_what_cannot_be_joined_is_refused_at_once(
    spark: SparkSession, orders: DataFrame, rates: Path, tmp_path: Path
) -> None:
    """With the column, and what it should be."""
    counts = ss.KeyValue("counts", key=ss.utf8)
    ss.StateRoot.open(rates).add_store(counts, partitions=1)
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
                frame, rates, **{"store": "rates", "on": "key", "at": "time_ms", **options}
            )
    with pytest.raises(StoreNotFoundError, match="no store 'rate'; it has: counts, rates"):
        temporal_join(orders, rates, "rate", on="key", at="time_ms")
    with pytest.raises(StoreNotFoundError, match="no state root"):
        temporal_join(orders, tmp_path / "nothing", on="key", at="time_ms")
