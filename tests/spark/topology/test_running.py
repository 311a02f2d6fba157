"""Topologies as Spark queries: sources and sinks of every sort, a page, and refusals."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import statestores as ss
from statestores.errors import (
    InvalidArgumentError,
    InvalidTopologyError,
    InvalidTypeError,
    MissingDriverError,
)
from statestores.processing import Topic, Topology, closed, tumbling, windowed
from statestores.spark import Files, KafkaTopic, StateFeed, run

ROOT = Path(__file__).parents[3]
DOCUMENT = ROOT / "docs" / "spark-topologies.md"
EXAMPLE = re.compile(r"^```py\n(.*?)^```$", re.MULTILINE | re.DOTALL)

KAFKA = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, "
    "timestampType int, headers array<struct<key string, value binary>>"
)
"""What Spark's Kafka source gives with ``includeHeaders``."""


@pytest.mark.long
@pytest.mark.spec("SPK-6", "SPK-7")
def test_the_page_runs(spark: SparkSession, tmp_path: Path) -> None:
    """One block after the other, with a session; its paths begin with data/."""
    for name, line in (("lines", {"line": "To be or not to be"}), ("clicks", {})):
        (tmp_path / name).mkdir()
        rows = [line] if line else [{"user": "ann", "page": page} for page in (3, 7, 5)]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / name / "0.json").write_text(text)
    blocks = EXAMPLE.findall(DOCUMENT.read_text("utf-8"))
    names: dict[str, Any] = {"spark": spark, "__name__": "__main__"}
    for block in blocks:
        code = block.replace('"data/', f'"{tmp_path}/').replace('f"data/', f'f"{tmp_path}/')
        exec(compile(code, DOCUMENT, "exec"), names)  # noqa: S102  # the repository's own

    assert len(blocks) == 2
    written = spark.read.parquet(str(tmp_path / "word-counts"))
    last = written.groupBy("key").agg(f.max("value"))
    assert sorted(map(tuple, last.collect())) == [("be", 2), ("not", 1), ("or", 1), ("to", 2)]


@pytest.mark.spec("SPK-6", "SPK-7", "SPK-8", "SPK-9")
def test_records_of_kafka_a_global_table_and_windows(spark: SparkSession, tmp_path: Path) -> None:
    """Headers go through, windows close by stream time, and a table has its micro-batch's rows."""
    shop = Topology("shop")
    orders = shop.stream(Topic("orders", key=ss.utf8, value=ss.utf8))
    names = shop.global_table(
        Topic("names", key=ss.utf8, value=ss.utf8),
        ss.KeyValue("names", key=ss.utf8, value=ss.utf8),
    )
    joined = orders.join(names, lambda order, name: f"{order} {name}", key=lambda each: each.key)
    joined.to(Topic("named", key=ss.utf8, value=ss.utf8))
    orders.group_by_key().window(tumbling(ss.SECOND)).count(
        ss.Window(
            "w", retention_ms=ss.MINUTE, window_size_ms=ss.SECOND, key=ss.utf8, value=ss.int64
        ),
        emit=closed(),
    ).to(Topic("closed", key=windowed(ss.utf8), value=ss.int64))
    kafka = spark.sql(
        "SELECT CAST('a' AS binary) AS key, CAST('x' AS binary) AS value, 't' AS topic, "
        "1 AS partition, 7L AS offset, timestamp_millis(500) AS timestamp, 0 AS timestampType, "
        "array(named_struct('key', 'h', 'value', CAST('1' AS binary))) AS headers "
        "UNION ALL SELECT CAST('a' AS binary), CAST('y' AS binary), 't', 0, 9L, "
        "timestamp_millis(5500), 0, NULL"
    )
    kafka.write.parquet(str(tmp_path / "orders"))
    spark.sql("SELECT 'a' AS user, 'Ann' AS name").write.json(str(tmp_path / "names"))
    got: dict[str, list[Any]] = {}

    def keep(topic: str) -> Any:
        def sink(frame: DataFrame, number: int) -> None:
            rows = frame.withColumn("timestamp", f.unix_millis("timestamp")).collect()
            got.setdefault(topic, []).extend(row.asDict(recursive=True) for row in rows)

        return sink

    query = run(
        shop,
        spark,
        state=tmp_path / "state",
        sources={
            "orders": spark.readStream.schema(KAFKA).parquet(str(tmp_path / "orders")),
            "names": Files(
                path=tmp_path / "names", schema="user string, name string", key="user", value="name"
            ),
        },
        sinks={"named": keep("named"), "closed": keep("closed")},
        checkpoint=tmp_path / "checkpoint",
        partitions=2,
        trigger={"availableNow": True},
    )
    assert query.awaitTermination(300)

    header = [{"key": "h", "value": b"1"}]
    assert [
        (row["key"], row["value"], row["timestamp"], row["headers"]) for row in got["named"]
    ] == [
        ("a", "x Ann", 500, header),
        ("a", "y Ann", 5500, None),
    ]
    window = {"key": "a", "start_ms": 0, "end_ms": 1000}
    assert [(row["key"], row["value"]) for row in got["closed"]] == [(window, 1)]


def simple() -> Topology:
    """Return a topology with a source and a sink."""
    topology = Topology("simple")
    stream = topology.stream(Topic("in", key=ss.utf8, value=ss.int64))
    stream.to(Topic("out", key=ss.utf8, value=ss.int64))
    return topology


@pytest.mark.spec("SPK-4", "SPK-6")
def test_what_cannot_run_is_refused_before_it_begins(spark: SparkSession, tmp_path: Path) -> None:
    """By name, and with what to do; nothing is left behind."""
    batch = spark.sql("SELECT 'a' AS key, 1L AS value")
    rate = spark.readStream.format("rate").load().selectExpr("'a' AS key", "value", "timestamp")
    idle = Topology("idle")
    idle.stream(Topic("in", key=ss.utf8, value=ss.int64)).group_by_key().window(tumbling(9)).count(
        ss.Window("w", retention_ms=99, window_size_ms=9, key=ss.utf8, value=ss.int64),
        emit=closed(idle_ms=5),
    )
    locked = Topology("locked")
    file = (tmp_path / "open").open("w")
    source = locked.stream(Topic("in", key=ss.utf8, value=ss.int64))
    source.peek(lambda record: file.write(str(record)))

    def begin(**more: Any) -> None:
        given = {"sources": {"in": rate}, "state": tmp_path / "state", "checkpoint": tmp_path / "c"}
        run(**{"topology": simple(), "spark": spark, **given, **more})

    for error, match, more in (
        (InvalidArgumentError, "nothing fills the topic 'in'", {"sources": {}}),
        (InvalidArgumentError, "no topic 'x' for a source", {"sources": {"in": rate, "x": rate}}),
        (InvalidArgumentError, "no topic 'in' for a sink", {"sinks": {"in": print}}),
        (InvalidTypeError, "is no stream: read it with readStream", {"sources": {"in": batch}}),
        (
            InvalidTypeError,
            "must be Files, a KafkaTopic, a StateFeed",
            {"sources": {"in": "kafka"}},
        ),
        (InvalidTypeError, "must be a function of a DataFrame", {"sinks": {"out": 3}}),
        (
            InvalidTypeError,
            "the column 'value' of the source of 'in' is string",
            {"sources": {"in": rate.selectExpr("'x' AS value")}},
        ),
        (
            InvalidArgumentError,
            "has the column 'who'",
            {"sources": {"in": rate.selectExpr("value", "'x' AS who")}},
        ),
        (
            InvalidTypeError,
            "'timestamp' of the source of 'in' is string",
            {"sources": {"in": rate.selectExpr("value", "'x' AS timestamp")}},
        ),
        (InvalidTopologyError, "idle_ms", {"topology": idle}),
        (InvalidTypeError, "cannot be sent to Spark's workers", {"topology": locked}),
        (
            MissingDriverError,
            "spark-sql-kafka",
            {"sources": {"in": KafkaTopic(bootstrap_servers="x:1")}},
        ),
    ):
        with pytest.raises(error, match=match):
            begin(**more)
    file.close()

    assert not (tmp_path / "state").exists()


@pytest.mark.soak
@pytest.mark.spec("SPK-6")
def test_a_feed_that_was_overwritten_fails_the_query(spark: SparkSession, tmp_path: Path) -> None:
    """Its `clear` has no key, and a topic no record for it: silence would keep what is gone."""
    rows = spark.sql("SELECT 'a' AS key, 1L AS value")
    for mode in ("append", "overwrite"):
        rows.write.format("statestores").option("storeName", "s").mode(mode).save(
            str(tmp_path / "given")
        )
    query = run(
        simple(),
        spark,
        state=tmp_path / "state",
        sources={"in": StateFeed(root=tmp_path / "given")},
        checkpoint=tmp_path / "checkpoint",
        trigger={"availableNow": True},
    )

    with pytest.raises(Exception, match="was overwritten"):
        query.awaitTermination(300)
