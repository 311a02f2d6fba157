"""Stores of every kind as DataFrames: what is written is read, and the engine has the same."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession

import statestores as ss
from statestores_conformance.many_cases import for_each

Row = tuple[Any, ...]
RowsOf = Callable[[DataFrame], list[Row]]

KEYS = ["a", "ключ", "", "a\x00b", "é", "🜁"]


def rows_for(*times: str) -> list[Row]:
    """Return two rows a key, later ones later; every third value is Unicode."""
    rows = []
    for number, key in enumerate(KEYS * 2):
        start = 1_000_000 + 60_000 * number
        value = f"значение {number}" if number % 3 == 0 else "" if number == 4 else f"v{number}"
        rows.append((key, value, *(start + 500 * place for place in range(len(times)))))
    return rows


KINDS: dict[str, tuple[tuple[str, ...], dict[str, Any], Any]] = {
    "timestamped": (
        ("timestamp",),
        {"storeKind": "timestamped-key-value"},
        ss.TimestampedKeyValue("s", key=ss.utf8, value=ss.utf8),
    ),
    "ttl": (
        ("timestamp",),
        {"ttl": "1h", "ttlClock": "event"},
        ss.TimestampedKeyValue("s", key=ss.utf8, value=ss.utf8, ttl_ms=ss.HOUR),
    ),
    "window": (
        ("window_start",),
        {"windowSize": "1m", "retention": "1h"},
        ss.Window("s", key=ss.utf8, value=ss.utf8, window_size_ms=ss.MINUTE, retention_ms=ss.HOUR),
    ),
    "duplicates": (
        ("window_start",),
        {"windowSize": "1m", "retention": "1h", "retainDuplicates": "true"},
        ss.Window(
            "s",
            key=ss.utf8,
            value=ss.utf8,
            window_size_ms=ss.MINUTE,
            retention_ms=ss.HOUR,
            retain_duplicates=True,
        ),
    ),
    "session": (
        ("session_start", "session_end"),
        {"retention": "1h"},
        ss.Session("s", key=ss.utf8, value=ss.utf8, retention_ms=ss.HOUR),
    ),
}
LAST_OF_A_KEY = {"timestamped", "ttl"}


@pytest.fixture(
    params=[
        # A time to live and duplicates are a property each of the kind beside them.
        pytest.param(each, marks=pytest.mark.long) if each in {"ttl", "duplicates"} else each
        for each in KINDS
    ]
)
def kind(request: pytest.FixtureRequest) -> str:
    """Name one of the kinds."""
    return str(request.param)


def save(frame: DataFrame, root: str, mode: str = "append", **options: Any) -> None:
    """Write *frame* into the store "s"."""
    frame.write.format("statestores").options(**{"storeName": "s", **options}).mode(mode).save(root)


def load(spark: SparkSession, root: str, **options: Any) -> DataFrame:
    return spark.read.format("statestores").options(**options).load(root)


def frame_of(spark: SparkSession, kind: str, rows: list[Row]) -> DataFrame:
    """Return *rows* with times as timestamps."""
    times = KINDS[kind][0]
    schema = ", ".join(["key string, value string", *(f"{name} long" for name in times)])
    return spark.createDataFrame(rows, schema).selectExpr(
        "key", "value", *(f"timestamp_millis({name}) AS {name}" for name in times)
    )


def content(frame: DataFrame, kind: str) -> DataFrame:
    """Return key, value and times in milliseconds: what was written."""
    return frame.selectExpr("key", "value", *(f"unix_millis({name})" for name in KINDS[kind][0]))


def shown_by_the_store(root: str, kind: str) -> list[Row]:
    """Open each partition as its owner does, and return what it shows."""
    shown: list[Row] = []
    for partition in range(ss.StateRoot.open(root).store("s").partitions):
        with ss.open_logged_store(root, "s", partition, backend="memory") as logged:
            if kind in LAST_OF_A_KEY:
                shown += [
                    (key, stamped.value, stamped.timestamp_ms)
                    for key, stamped in logged.store.range()
                ]
            elif kind == "session":
                shown += [
                    (each.key, each.value, each.start_ms, each.end_ms)
                    for each in logged.store.find_all_sessions()
                ]
            else:
                shown += [
                    (each.key, each.value, each.start_ms) for each in logged.store.fetch_all()
                ]
    return sorted(shown, key=repr)


def test_what_is_written_is_read(
    spark: SparkSession, root: str, rows_of: RowsOf, kind: str
) -> None:
    """Columns, types, times, nulls, keys of several partitions, nothing, and the change feed."""
    times, options, specification = KINDS[kind]
    rows = rows_for(*times)
    frame = frame_of(spark, kind, rows)
    # Where the last row of a key counts, there is no order among tasks.
    frame = frame.coalesce(1) if kind in LAST_OF_A_KEY else frame
    save(frame, root, numPartitions=2, **options)

    assert ss.StateRoot.open(root).store().specification == specification
    expected = rows[len(KEYS) :] if kind in LAST_OF_A_KEY else rows
    loaded = load(spark, root)
    numbered = [("sequence", "bigint")] if specification.kind == "window" else []
    assert loaded.dtypes == [
        ("key", "string"),
        ("value", "string"),
        *((name, "timestamp") for name in times),
        *numbered,
    ]
    assert rows_of(content(loaded, kind)) == sorted(expected, key=repr)
    assert shown_by_the_store(root, kind) == sorted(expected, key=repr)
    save(frame_of(spark, kind, []).coalesce(1), root)
    assert rows_of(content(load(spark, root, key="ключ"), kind)) == sorted(
        (row for row in expected if row[0] == "ключ"), key=repr
    )
    save(frame_of(spark, kind, []).coalesce(1), root, "overwrite")
    assert load(spark, root).count() == 0
    feed = load(spark, root, readChangeFeed="true")
    assert feed.columns == ["offset", "partition", "operation", *loaded.columns]
    changes = rows_of(content(feed, kind))
    empty = (None,) * (2 + len(times))
    assert changes == sorted([*rows, empty, empty], key=repr)


@pytest.mark.parametrize("kind", ["timestamped", "ttl", "window", "session"])
def test_a_null_value_deletes(spark: SparkSession, root: str, rows_of: RowsOf, kind: str) -> None:
    """That window or session, or the key; raw times are milliseconds."""
    times, options, _ = KINDS[kind]
    rows = rows_for(*times)[: len(KEYS)]
    deletion = (rows[1][0], None, *rows[1][2:])
    save(frame_of(spark, kind, rows).coalesce(1), root, numPartitions=1, **options)
    save(frame_of(spark, kind, [deletion]), root)

    expected = sorted((row for row in rows if row != rows[1]), key=repr)
    raw = load(spark, root, raw="true").select("key", "value", *times)
    assert [(key.decode(), value.decode(), *numbers) for key, value, *numbers in rows_of(raw)] == (
        sorted(expected, key=lambda row: repr((row[0].encode(), row[1].encode(), *row[2:])))
    )
    assert shown_by_the_store(root, kind) == expected
    deleted = load(spark, root, readChangeFeed="true").where("operation = 'delete'")
    assert [row.key for row in deleted.collect()] == [rows[1][0]]


def test_what_has_expired_is_not_read(
    spark: SparkSession, root: str, rows_of: RowsOf, kind: str
) -> None:
    """A later row moves stream time; rows are applied in the order of time where that matters."""
    if kind == "timestamped":
        kind = "ttl"
    times, options, _ = KINDS[kind]
    rows = rows_for(*times)[: len(KEYS)]
    late = ("late", "x", *(each + 70 * ss.MINUTE for each in rows[0][2:]))
    save(frame_of(spark, kind, [late, *rows]).coalesce(1), root, numPartitions=1, **options)

    expected = sorted([late], key=repr)
    survivors = [row for row in rows if row[-1] > late[-1] - ss.HOUR]
    assert rows_of(content(load(spark, root), kind)) == sorted(expected + survivors, key=repr)
    assert shown_by_the_store(root, kind) == sorted(expected + survivors, key=repr)
    assert load(spark, root, offset="0").count() == 1


def test_duplicates_are_numbered_across_writes(
    spark: SparkSession, root: str, rows_of: RowsOf
) -> None:
    """A second write adds to the windows of the first, also after the owner has added its own."""
    rows = [("k", f"v{number}", 1_000_000) for number in range(5)]
    options = KINDS["duplicates"][1]
    save(frame_of(spark, "duplicates", rows).coalesce(1), root, numPartitions=1, **options)
    with ss.open_logged_store(root, "s", 0, backend="sqlite") as logged:
        assert logged.store.put("k", "by the owner", 1_000_000)
        logged.commit()
        logged.snapshot()
    save(frame_of(spark, "duplicates", rows).coalesce(1), root)

    values = [row[1] for row in rows]
    expected = [*values, "by the owner", *values]
    loaded = load(spark, root).orderBy("window_start", "sequence")
    assert [(row.value, row.sequence) for row in loaded.collect()] == [
        (value, number) for number, value in enumerate(expected)
    ]
    with ss.open_logged_store(root, "s", 0, backend="sqlite") as logged:
        assert [each.value for each in logged.store.fetch_range("k")] == expected
        assert logged.store.put("k", "again", 1_000_000)
        logged.commit()
    (last,) = load(spark, root).where("sequence = 11").collect()
    assert last.value == "again"


def test_a_null_value_in_duplicates_fails_the_job(spark: SparkSession, root: str) -> None:
    """None of them can be named, so none can be deleted."""
    frame = frame_of(spark, "duplicates", [("k", None, 1_000_000)])

    with pytest.raises((PythonException, AnalysisException), match="retains duplicates"):
        save(frame, root, **KINDS["duplicates"][1])
    assert not Path(root).exists()


@for_each(
    ("columns", "options", "reason"),
    [
        ("timestamp", {"storeKind": "window", "windowSize": "1m", "retention": "1h"}, "'window_st"),
        ("window_start", {"retention": "1h"}, "needs the option 'windowSize'"),
        ("window_start", {"windowSize": "1h", "retention": "1m"}, "must be at least window_size"),
        ("session_start", {}, "needs the option 'retention'"),
        ("session_start", {"retention": "1h"}, "the column 'session_end' is missing"),
        ("timestamp", {}, "the column 'timestamp' is unknown; a key-value store takes key, value"),
        ("timestamp", {"ttl": "1h", "retention": "1h"}, "'retention' is for window and session"),
        ("timestamp", {"ttl": "1h", "historyRetention": "1h"}, "'ttl' is for timestamped-key-v"),
        ("timestamp", {"storeKind": "windowed"}, "must be one of key-value, timestamped-key"),
        ("timestamp", {"ttl": "1h", "ttlClock": "sun"}, "must be event or wall"),
        ("timestamp", {"retainDuplicates": "maybe"}, "must be true or false"),
    ],
)
def test_a_store_that_cannot_be_is_refused(
    spark: SparkSession, root: str, columns: str, options: dict[str, str], reason: str
) -> None:
    """Before a job runs, with what is missing or too much."""
    frame = spark.range(1).selectExpr("'k' AS key", "'v' AS value", f"id AS {columns}")

    with pytest.raises(AnalysisException, match=reason):
        save(frame, root, **options)
    assert not Path(root).exists()


@pytest.mark.parametrize("kind", ["ttl", "session"])
def test_what_a_kind_does_not_have_is_refused(spark: SparkSession, root: str, kind: str) -> None:
    """No history, and no other retention than the store's."""
    times, options, specification = KINDS[kind]
    frame = frame_of(spark, kind, rows_for(*times)[:1])
    save(frame, root, numPartitions=1, **options)

    with pytest.raises(AnalysisException, match=f"'s' is a {specification.kind} store"):
        load(spark, root, asOf="1")
    changed = {"ttl": "2h"} if kind in LAST_OF_A_KEY else {"retention": "2h"}
    with pytest.raises(AnalysisException, match="which no write changes"):
        save(frame, root, **changed)
