"""Columns of structs as rows of a store, by what Spark calls on its driver and in its tasks.

No session: planning, staging, publishing and reading are the data source's own, called as Spark
calls them, which costs no JVM.
"""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    YearMonthIntervalType,
)

import statestores as ss
from statestores.errors import InvalidOptionError, SerializationError
from statestores.spark.columns import from_spark
from statestores.spark.given_root import GivenRoot, store_at
from statestores.spark.options.read_and_write import SourceOptions
from statestores.spark.source.publishing import publish_rows, stage_rows
from statestores.spark.source.reader import StateStoreReader
from statestores.spark.source.write_plan import WritePlan, plan_write


def struct(**fields: DataType) -> StructType:
    """Return a struct of nullable *fields*."""
    return StructType([StructField(name, kind) for name, kind in fields.items()])


KEY = struct(n=IntegerType(), c=StringType())
VALUE = struct(
    id=LongType(),
    price=DecimalType(10, 2),
    at=TimestampType(),
    tags=ArrayType(StringType()),
    m=MapType(StringType(), LongType()),
    day=DateType(),
    f=FloatType(),
    inner=struct(x=ByteType()),
)
KEYS = pa.struct([("n", pa.int32()), ("c", pa.string())])
VALUES = pa.struct(
    [
        ("id", pa.int64()),
        ("price", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", tz="UTC")),
        ("tags", pa.list_(pa.string())),
        ("m", pa.map_(pa.string(), pa.int64())),
        ("day", pa.date32()),
        ("f", pa.float32()),
        ("inner", pa.struct([("x", pa.int8())])),
    ]
)


def whole(number: int) -> dict[str, Any]:
    """Return a value with something in every field."""
    return {
        "id": number,
        "price": Decimal(number),
        "at": datetime(2024, 1, 1, tzinfo=UTC),
        "tags": ["a", None],
        "m": [("k", number)],
        "day": date(2024, 1, 1),
        "f": number / 2,
        "inner": {"x": number},
    }


def plan(root: Path, value: DataType, **options: str) -> WritePlan:
    """Plan a write of keys and of a column of values, as Spark's driver has it done."""
    given = SourceOptions.for_writing({"path": str(root), "storeName": "s", **options})
    schema = StructType([StructField("key", KEY, nullable=False), StructField("value", value)])
    return plan_write(GivenRoot.of(given.path), given, schema)


def write(planned: WritePlan, kind: pa.DataType, values: dict[int, Any]) -> None:
    """Stage and publish *values* by the number in their key."""
    rows = [{"key": {"n": n, "c": "c"}, "value": value} for n, value in values.items()]
    batch = pa.RecordBatch.from_pylist(rows, pa.schema([("key", KEYS), ("value", kind)]))
    write_id = uuid4().hex
    changes = [from_spark(batch, planned.specification, raw=planned.raw)]
    publish_rows(planned, write_id, [stage_rows(planned, write_id, "0", changes)], overwrite=False)


def reader(root: Path, **options: str) -> StateStoreReader:
    """Return what reads the store."""
    given = SourceOptions.for_reading({"path": str(root), **options})
    entry = store_at(GivenRoot.of(given.path), None)
    place = GivenRoot.of(given.path)
    return StateStoreReader(
        place, entry.specification, entry.partitions, given, placement=entry.placement
    )


def read(root: Path, **options: str) -> dict[int, Any]:
    """Return the values of the store by the number in their key, in batches of one schema."""
    source = reader(root, **options)
    batches = [each for part in source.partitions() for each in source.read(part)]
    assert all(each.schema == source.arrow_schema() for each in batches)
    return {each["key"]["n"]: each["value"] for batch in batches for each in batch.to_pylist()}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a store of rows."""
    planned = plan(tmp_path / "root", VALUE, keySerde="row_sorted", valueSerde="row")
    write(planned, VALUES, {n: whole(n) for n in range(5)})
    return tmp_path / "root"


@pytest.mark.spec("SRD-39")
def test_structs_come_back_with_their_types(root: Path) -> None:
    """By what is written in the store; and one by its key, or by the order of keys."""
    shown = from_arrow_schema(reader(root).arrow_schema())

    assert shown["key"].dataType.simpleString() == KEY.simpleString()
    assert shown["value"].dataType.simpleString() == VALUE.simpleString()
    assert read(root) == {n: whole(n) for n in range(5)}
    assert read(root, key='{"n": 3, "c": "c"}') == {3: whole(3)}
    assert sorted(read(root, keyFrom='{"n": 3, "c": "c"}')) == [3, 4]


@pytest.mark.spec("SRD-44")
def test_what_does_not_fit_is_refused_before_a_task_runs(
    subtests: pytest.Subtests, root: Path
) -> None:
    """By its field; and nothing about the store has changed."""
    for value, merge, words in (
        (struct(id=LongType(), note=StringType()), "false", "the new field 'note', string"),
        (struct(f=DoubleType()), "false", "the field 'f' as double, which is float there"),
        (struct(inner=struct(y=LongType())), "false", "the new field 'inner.y', int64"),
        (struct(id=StringType()), "true", "the field 'id' is string, and int64 in the store"),
        (struct(a=YearMonthIntervalType()), "true", "value.a is interval year to month; cast it"),
        (LongType(), "true", "rows are structs; write struct\\(value\\) AS value"),
    ):
        with subtests.test(words, merge=merge):
            before = ss.StateRoot.open(root).store("s").specification

            with pytest.raises(InvalidOptionError, match=words):
                plan(root, value, mergeSchema=merge)

            assert ss.StateRoot.open(root).store("s").specification == before


@pytest.mark.spec("SRD-44")
def test_fields_may_be_missing_narrower_and_in_any_order(root: Path) -> None:
    """They are found by their names, as tables do it."""
    value = struct(f=FloatType(), id=IntegerType())
    kind = pa.struct([("f", pa.float32()), ("id", pa.int32())])

    write(plan(root, value, valueSerde="row"), kind, {7: {"f": 1.5, "id": 7}, 0: None})

    found = read(root)
    assert found[7] == {**dict.fromkeys(whole(0)), "f": 1.5, "id": 7}
    assert 0 not in found


@pytest.mark.spec("SRD-44")
def test_fields_of_keys_may_be_missing_as_well(root: Path) -> None:
    """The driver took such a column, and its tasks failed: only values were completed.

    A field that is not there is null, and the key is the one with the null.
    """
    key = struct(n=ByteType())
    given = SourceOptions.for_writing({"path": str(root)})
    schema = StructType([StructField("key", key), StructField("value", VALUE)])
    planned = plan_write(GivenRoot.of(given.path), given, schema)
    rows = [{"key": {"n": 7}, "value": whole(7)}, {"key": {"n": 8}, "value": whole(8)}]
    narrow = pa.struct([("n", pa.int8())])

    for some in (rows, [{"key": {"n": 8}, "value": None}]):
        batch = pa.RecordBatch.from_pylist(some, pa.schema([("key", narrow), ("value", VALUES)]))
        write_id = uuid4().hex
        changes = [from_spark(batch, planned.specification, raw=planned.raw)]
        staged = stage_rows(planned, write_id, "0", changes)
        publish_rows(planned, write_id, [staged], overwrite=False)

    assert read(root, key='{"n": 7, "c": null}') == {7: whole(7)}
    assert sorted(read(root)) == [0, 1, 2, 3, 4, 7]


@pytest.mark.spec("SRD-44", "SRD-39", "SRD-40")
def test_a_schema_grows_where_that_is_asked_for(root: Path) -> None:
    """The root has the later one with the rows; those that were there have nulls."""
    value = struct(inner=struct(y=StringType()), f=DoubleType())
    kind = pa.struct([("inner", pa.struct([("y", pa.string())])), ("f", pa.float64())])

    write(plan(root, value, mergeSchema="true"), kind, {7: {"inner": {"y": "new"}, "f": 0.1}})

    found = read(root)
    assert found[7]["inner"] == {"x": None, "y": "new"}
    assert found[7]["f"] == 0.1
    assert found[2] == {**whole(2), "inner": {"x": 2, "y": None}}
    described = str(ss.StateRoot.open(root).store("s").specification.describe()["value"])
    assert described.endswith("f: double, inner: struct<x: int8, y: string>>")


@pytest.mark.spec("SRD-41")
def test_json_is_read_by_the_schema_of_an_option(tmp_path: Path) -> None:
    """In content and in changes; what is no schema, or does not go with the store, is refused."""
    value = struct(id=LongType(), day=StringType())
    kind = pa.struct([("id", pa.int64()), ("day", pa.string())])
    planned = plan(tmp_path / "root", value, keySerde="row_sorted", valueSerde="json")
    write(planned, kind, {n: {"id": n, "day": "2024-01-01"} for n in range(3)})

    found = read(tmp_path / "root", valueSchema="id BIGINT NOT NULL, day DATE, more ARRAY<INT>")
    changes = reader(tmp_path / "root", valueSchema="id INT", readChangeFeed="true")

    assert found == {n: {"id": n, "day": date(2024, 1, 1), "more": None} for n in range(3)}
    assert changes.arrow_schema().field("value").type == pa.struct([("id", pa.int32())])
    with pytest.raises(SerializationError, match="in 'day': expected an int of 64 bits"):
        read(tmp_path / "root", valueSchema="day BIGINT")
    for options, words in (
        ({"valueSchema": "id BIGNT"}, "'valueSchema' must be fields such as"),
        ({"valueSchema": "id INT", "raw": "true"}, "exclude each other"),
    ):
        with pytest.raises(InvalidOptionError, match=words):
            reader(tmp_path / "root", **options)
    with pytest.raises(InvalidOptionError, match="'mergeSchema' is for stores whose values are"):
        plan(tmp_path / "root", value, mergeSchema="true")


@pytest.mark.spec("SRD-41")
def test_rows_are_not_read_by_another_schema(root: Path) -> None:
    """They have theirs."""
    with pytest.raises(InvalidOptionError, match="'valueSchema' does not fit the store 's'"):
        reader(root, valueSchema="id INT")
