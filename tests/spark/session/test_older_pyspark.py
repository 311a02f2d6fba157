"""What PySpark 4.0 does otherwise, shown with the PySpark that is here."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark.sql.pandas.types
import pytest
from pyspark.sql.conversion import ArrowTableToRowsConversion
from pyspark.sql.pandas.types import from_arrow_schema

import statestores as ss
from statestores.processing import Topic
from statestores.serdes.rows import row
from statestores.spark.session.older_pyspark import RowStreamWriter
from statestores.spark.source.source import StateStoresDataSource
from statestores.spark.topology.sinks import RecordDecoder


class RecordingWriter:
    """A writer of batches that keeps what it is given."""

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.calls: list[tuple[str, Any, int]] = []

    def write(self, batches: Any) -> str:
        """Take the batches of a task."""
        self.batches = list(batches)
        return "message"

    def commit(self, messages: Any, batch: int) -> None:
        """Take the messages of a micro-batch."""
        self.calls.append(("commit", messages, batch))

    def abort(self, messages: Any, batch: int) -> None:
        """Take those of one that failed."""
        self.calls.append(("abort", messages, batch))


def test_rows_become_the_batches_that_they_were(subtests: pytest.Subtests) -> None:
    """Spark 4.0 makes rows of its own batches before a sink gets them."""
    for count in (0, 1, 25_001):
        with subtests.test(count=count):
            check_rows(count)


def check_rows(count: int) -> None:
    """Accept the batches that a writer gets of so many rows."""
    time = datetime(2024, 3, 31, 1, 30, 0, 123456, tzinfo=UTC)
    table = pa.table(
        {
            "key": pa.array([f"ключ {number}" for number in range(count)], pa.string()),
            "value": pa.array([b"\0\xff" if number % 3 else None for number in range(count)]),
            "at": pa.array([time] * count, pa.timestamp("us", tz="UTC")),
            "nested": pa.array(
                [{"a": [1, None], "b": Decimal("1.50")}] * count,
                pa.struct([("a", pa.list_(pa.int64())), ("b", pa.decimal128(10, 2))]),
            ),
        }
        if count
        else {"key": pa.array([], pa.string())}
    )
    schema = from_arrow_schema(table.schema)
    rows = ArrowTableToRowsConversion.convert(table, schema)
    writer = RecordingWriter()

    assert RowStreamWriter(writer, schema).write(iter(rows)) == "message"  # type: ignore[comparison-overlap]
    assert len(writer.batches) == -(-count // 10_000)
    if count:
        assert pa.Table.from_batches(writer.batches).to_pylist() == table.to_pylist()


def test_the_end_of_a_micro_batch_is_passed_on() -> None:
    """The writer of batches decides what is published."""
    writer = RecordingWriter()
    rows = RowStreamWriter(writer, from_arrow_schema(pa.schema([("key", pa.string())])))
    rows.commit([None], 7)
    rows.abort([], 8)

    assert writer.calls == [("commit", [None], 7), ("abort", [], 8)]


def test_times_without_a_zone_are_told_as_such(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Before 4.3 PySpark took them for instants, unless told: the batches did not fit the columns.

    So rows with such a field could be written, and not be read or given to a sink.
    """
    for name in ("from_arrow_type", "from_arrow_schema"):
        monkeypatch.setattr(getattr(pyspark.sql.pandas.types, name), "__defaults__", (False,))
    value = row("local TIMESTAMP_NTZ, at TIMESTAMP, all ARRAY<TIMESTAMP_NTZ>")
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(ss.KeyValue("s", key=ss.utf8, value=value), partitions=1)
    shown = "struct<local:timestamp_ntz,at:timestamp,all:array<timestamp_ntz>>"

    schema = StateStoresDataSource({"path": str(root.path)}).schema()
    given: list[Any] = []

    class Frame:
        """What a sink's DataFrame is made of."""

        def mapInArrow(self, function: Any, schema: Any) -> None:  # noqa: N802  # Spark's name
            """Keep *schema*."""
            given.append(schema)

    RecordDecoder(Topic("t", key=ss.utf8, value=value)).frame(Frame())  # type: ignore[arg-type]
    assert schema["value"].dataType.simpleString() == shown
    assert given[0]["value"].dataType.simpleString() == shown
