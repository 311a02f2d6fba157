"""Structs of Spark as rows of a store, both ways, and as its schema grows."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import statestores as ss
from statestores.serdes import RowSerde

_ROWS = """
SELECT struct(CAST(id AS INT) AS n, CONCAT('c', id % 3) AS c) AS key,
    IF(id = 7, NULL, named_struct(
        'id', id, 'price', CAST(id / 4 AS DECIMAL(10, 2)), 'at', TIMESTAMP'2024-01-01 00:00:00',
        'tags', ARRAY('a', CAST(NULL AS STRING)), 'm', MAP('k', id), 'day', DATE'2024-01-01',
        'f', CAST(id AS FLOAT), 'ok', id % 2 = 0, 'inner', named_struct('x', CAST(id AS TINYINT))
    )) AS value
FROM range(10)
"""
_KEY = "SELECT struct(CAST(20 AS INT) AS n, 'c' AS c) AS key"


def _save(spark: SparkSession, query: str, root: str, **options: str) -> None:
    writer = spark.sql(query).write.format("statestores").option("storeName", "s")
    writer.options(**options).mode("append").save(root)


@pytest.mark.spec("SRD-44", "SRD-39", "SRD-41")
def test_structs_are_rows_and_their_schema_grows(spark: SparkSession, root: str) -> None:
    """The types come back as they were; what does not fit is refused before a task runs."""
    written = spark.sql(_ROWS)
    _save(spark, _ROWS, root, keySerde="row_sorted", valueSerde="row")

    def load(**options: str) -> list[tuple[object, ...]]:
        frame = spark.read.format("statestores").options(**options).load(root)
        return [tuple(each) for each in frame.select("key", "value").orderBy("key").collect()]

    frame = spark.read.format("statestores").load(root)
    expected = written.where("value IS NOT NULL").orderBy("key").collect()
    assert frame.schema["value"].dataType.simpleString() == (
        written.schema["value"].dataType.simpleString()
    )
    assert load() == [tuple(each) for each in expected]
    assert load(key='{"n": 3, "c": "c0"}') == [tuple(expected[3])]
    assert load(keyFrom='{"n": 8, "c": ""}') == [tuple(each) for each in expected[-2:]]

    for value, words in (
        ("named_struct('id', 5, 'note', 'x')", "the new field 'note', string"),
        ("named_struct('id', 'x')", "the field 'id' is string, and int64 in the store"),
        ("5", "rows are structs"),
    ):
        with pytest.raises(AnalysisException, match=words):
            _save(spark, f"{_KEY}, {value} AS value", root)
    # Narrower, and with fields missing: that is the store's schema still.
    _save(spark, f"{_KEY}, named_struct('ok', true, 'id', 5) AS value", root)
    later = "named_struct('id', 6L, 'f', 0.1D, 'inner', named_struct('y', 'new')) AS value"
    _save(spark, f"{_KEY}, {later}", root, mergeSchema="true")

    rows = [value.asDict(recursive=True) for _, value in load()]  # type: ignore[attr-defined]
    assert [each["f"] for each in rows[-2:]] == [9.0, 0.1]
    assert [each["inner"] for each in rows[-2:]] == [{"x": 9, "y": None}, {"x": None, "y": "new"}]
    serde = ss.StateRoot.open(root).store("s").specification.value
    assert isinstance(serde, RowSerde)
    assert "f: double" in serde.name
    assert serde.name.endswith("inner: struct<x: int8, y: string>>")
    feed = spark.read.format("statestores").option("readChangeFeed", "true")
    changes = feed.option("beforeImage", "true").load(root)
    assert changes.where("key.n = 20").selectExpr("before.id").dropna().collect() == [(5,)]


@pytest.mark.spec("SRD-41")
def test_json_is_read_by_the_schema_of_an_option(spark: SparkSession, root: str) -> None:
    """In a load and, with the same columns, in a stream; a wrong schema is found while planning."""
    with_value = (
        "SELECT CAST(id AS STRING) AS key, "
        "to_json(named_struct('id', id, 'd', DATE'2024-01-01')) AS value FROM range(3)"
    )
    _save(spark, with_value, root, valueSerde="json")
    reader = spark.read.format("statestores").option("valueSchema", "id BIGINT, d DATE, more INT")

    found = reader.load(root).select("value.*").orderBy("id").collect()

    assert [tuple(each) for each in found] == [(n, date(2024, 1, 1), None) for n in range(3)]
    for options, words in (
        ({"valueSchema": "id BIGNT"}, "valueSchema"),
        ({"valueSchema": "id INT", "raw": "true"}, "exclude each other"),
    ):
        with pytest.raises(AnalysisException, match=words):
            spark.read.format("statestores").options(**options).load(root)


@pytest.mark.spec("SRD-41")
def test_rows_of_python_are_structs_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    """A program and Spark share a store, and neither is told the schema."""
    root = ss.StateRoot.create(tmp_path / "state")
    value = ss.serdes.row("price: decimal128(10, 2) not null, at: timestamp[us, tz=Europe/Berlin]")
    specification = ss.KeyValue("s", key=ss.utf8, value=value)
    root.add_store(specification, partitions=1)
    row = {"price": Decimal("9.90"), "at": datetime(2024, 1, 1, tzinfo=UTC)}
    with ss.open_logged_store(root, specification, backend="sqlite") as logged:
        logged.store.put("a", row)
        logged.commit({})

    frame = spark.read.format("statestores").load(str(tmp_path / "state"))

    assert frame.selectExpr("value.price", "CAST(value.at AS LONG)").collect() == [
        (Decimal("9.90"), 1704067200)
    ]
    assert json.loads(frame.selectExpr("to_json(value)").collect()[0][0])["price"] == 9.9
