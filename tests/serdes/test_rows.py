"""Rows: dicts and structs of a schema, which is part of the serde's name."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from row_schemas import schemas, values_of

from statestores.errors import InvalidArgumentError, SerializationError
from statestores.serdes import serde_by_name
from statestores.serdes.rows import RowSerde, row
from statestores.serdes.rows.row_serde import read_schema
from statestores.serdes.rows.schema import (
    _MOST_FOUND,
    Field,
    PlainType,
    StructType,
    found_by_identity,
)

EVERYTHING = (
    "id: int64 not null, small: int8, ratio: float, exact: double, price: decimal128(10, 2), "
    "day: date32, at: timestamp[us, tz=UTC], local: timestamp[us], good: bool, name: string, "
    "data: binary, tags: list<string not null>, `odd ``name`: map<string, int32>, "
    "inner: struct<a: int16, deep: list<struct<b: bool>>>"
)

ROW: dict[str, Any] = {
    "id": -2,
    "small": 127,
    "ratio": 0.5,
    "exact": -0.0,
    "price": Decimal("-12.30"),
    "day": date(1969, 12, 31),
    "at": datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=UTC),
    "local": datetime(1, 1, 1),  # noqa: DTZ001  # a time without a zone
    "good": True,
    "name": "né",
    "data": b"\x00\xff",
    "tags": ["a", ""],
    "odd `name": {"x": 1, "y": None},
    "inner": {"a": None, "deep": [None, {"b": False}]},
}

GOLDEN = (
    "010e000000feffffffffffffff7f00000000000000000000000000e03f000000000000008032fbffffffffffff"
    "ffffffffffffffffffffffff01f0afff831206000040d400014023ff0103000000050000001300000040000000"
    "600000006ec3a900ff020000000001000000010000006102000000001000000020000000020000010000000100"
    "000000000000780200020100000000000000000000007902000100000000000000001100000002000000010000"
    "00000400000001000000"
)
"""The bytes of `ROW`; see `test_the_bytes_stay`."""


@pytest.mark.spec("SRD-35", "SRD-6", "SRD-1", "SRD-45")
@given(st.data())
def test_any_rows_come_back_from_their_bytes(data: st.DataObject) -> None:
    """One by one and as columns, which have the same bytes; whatever the schema."""
    serde = RowSerde(data.draw(schemas()))
    rows = data.draw(st.lists(st.none() | values_of(serde.schema), max_size=6))
    skipped = data.draw(st.integers(0, len(rows)))
    column = pa.array(rows, serde.arrow_type())

    written = [None if each is None else serde.encode(each) for each in rows]
    encoded = serde.encode_array(column)
    decoded = serde.decode_array(pa.array(written, pa.binary()))
    decoded.validate(full=True)
    parquet.write_table(pa.table({"row": decoded}), pa.BufferOutputStream())  # which may refuse it

    assert [None if each is None else serde.decode(each) for each in written] == rows
    assert encoded.to_pylist() == written
    assert decoded.equals(column)
    assert serde.encode_array(column.slice(skipped)).to_pylist() == written[skipped:]
    assert serde.decode_array(encoded.slice(skipped)).equals(column.slice(skipped))
    assert serde_by_name(serde.name) == serde


@pytest.mark.spec("SRD-36", "SRD-8")
def test_the_bytes_stay() -> None:
    """These were written when the serde was new: a release that reads them otherwise is wrong."""
    serde = row(EVERYTHING)

    assert serde.encode(ROW).hex() == GOLDEN
    assert serde.decode(bytes.fromhex(GOLDEN)) == ROW


@pytest.mark.spec("SRD-36", "SRD-3", "SRD-6")
@given(st.data())
def test_bytes_of_anybody_are_refused_or_are_a_row(data: st.DataObject) -> None:
    """A changed byte, a cut, more behind the end: our error, or the same value in a column."""
    serde = row(EVERYTHING)
    whole = bytearray(serde.encode(ROW))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)) | st.just(len(whole)))
    given_bytes = bytes(whole[:cut]) + data.draw(st.sampled_from([b"", b"\x00", b"\x01\x00"]))
    column = pa.array([serde.encode(ROW), given_bytes], pa.binary())
    try:
        value = serde.decode(given_bytes)
    except SerializationError as error:
        assert len(str(error)) < 1500  # noqa: PT017  # whichever of the two it is
        with pytest.raises(SerializationError):
            serde.decode_array(column)
        return
    found = serde.decode_array(column)
    found.validate(full=True)
    assert repr(serde.decode(serde.encode_array(found)[1].as_py())) == repr(value)


@pytest.mark.spec("SRD-37", "SRD-2")
def test_what_is_no_row_is_refused_with_the_field(subtests: pytest.Subtests) -> None:
    """Nothing comes back as something else."""
    for changed, words in (
        ({"id": None}, "in 'id': it is None"),
        ({"id": True}, "in 'id': expected an int"),
        ({"id": 1 << 63}, "in 'id': expected an int of 64 bits"),
        ({"small": 128}, "in 'small': expected an int of 8 bits"),
        ({"ratio": 0.1}, "in 'ratio': expected a float that 32 bits hold exactly"),
        ({"exact": (1 << 53) + 1}, "in 'exact': expected a float, which this int is not"),
        ({"price": Decimal("1.005")}, "in 'price': expected a Decimal with no more digits"),
        ({"price": Decimal("1E+9999999")}, "in 'price': expected a Decimal with no more digits"),
        ({"price": Decimal("NaN")}, "in 'price': expected a Decimal"),
        ({"price": Decimal("0." + "1" * 5000)}, "in 'price': expected a Decimal with no more"),
        ({"id": 10**5000}, "in 'id': expected an int of 64 bits, got an integer of"),
        ({"price": 1.5}, "in 'price': expected a Decimal"),
        ({"day": datetime(2024, 1, 1, tzinfo=UTC)}, "in 'day': expected a date"),
        ({"at": datetime(2024, 1, 1)}, "in 'at': expected a datetime with a zone"),  # noqa: DTZ001  # it
        ({"local": datetime(2024, 1, 1, tzinfo=UTC)}, "in 'local': expected a datetime without"),
        ({"name": "\ud800"}, "in 'name': expected a str that can be UTF-8"),
        ({"data": "text"}, "in 'data': expected bytes"),
        ({"tags": ["a", None]}, "in 'tags': a value of a list is None"),
        ({"tags": ("a",)}, "in 'tags': expected a list"),
        ({"odd `name": {1: 1}}, "in 'odd `name': in 'key': expected a str"),
        ({"inner": {"a": 1}}, "in 'inner': the field 'deep' is missing"),
        ({"new": 1}, "there is no field 'new'"),
    ):
        with subtests.test(words):
            with pytest.raises(SerializationError) as raised:
                row(EVERYTHING).encode({**ROW, **changed})

            assert words in str(raised.value)


@pytest.mark.spec("SRD-37", "SRD-6")
def test_a_column_is_refused_where_a_value_of_it_is(subtests: pytest.Subtests) -> None:
    """Arrow would cast some of these, and change values."""
    for schema, column in (
        ("a: int64", pa.array([{"a": 1.0}])),
        ("a: int8", pa.array([{"a": 300}])),
        ("a: float", pa.array([{"a": 0.1}])),
        ("a: double", pa.array([{"a": (1 << 53) + 1}])),
        ("a: int64 not null", pa.array([{"a": None}], pa.struct([("a", pa.int64())]))),
        ("a: string", pa.array([{"a": b"a"}])),
        ("a: int64, b: int64", pa.array([{"a": 1}])),
        ("a: int64", pa.array([{"a": 1, "b": 1}])),
        ("a: list<int64>", pa.array([{"a": 1}])),
        ("a: int64", pa.array([1])),
    ):
        with subtests.test(schema), pytest.raises(SerializationError):
            row(schema).encode_array(column)


@pytest.mark.spec("SRD-37")
def test_columns_of_narrower_types_are_taken() -> None:
    """Ints of any width, milliseconds, other layouts of text: wherever the values are the same."""
    serde = row("n: int64, f: double, at: timestamp[us, tz=UTC], s: string, l: list<int64>")
    kind = pa.struct(
        [
            ("l", pa.large_list(pa.int16())),
            ("s", pa.dictionary(pa.int8(), pa.large_string()).value_type),
            ("at", pa.timestamp("ms", tz="Europe/Berlin")),
            ("n", pa.uint16()),
            ("f", pa.float32()),
        ]
    )
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    value = {"n": 7, "f": 0.5, "at": moment, "s": "x", "l": [1, None]}

    column = serde.encode_array(pa.array([value, None], kind))

    assert [each and serde.decode(each) for each in column.to_pylist()] == [value, None]


@pytest.mark.spec("SRD-38")
def test_a_schema_is_given_as_text_or_by_arrow() -> None:
    """Spark's DDL is a text of one, too; the name is the same whichever it was."""
    serde = row(
        "id: int64 not null, tags: list<string>, at: timestamp[us, tz=UTC], m: map<string, float>"
    )
    fields = [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("tags", pa.large_list(pa.string())),
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("m", pa.map_(pa.string(), pa.float32())),
    ]

    assert row(pa.schema(fields)) == row(pa.struct(fields)) == serde
    assert row("id BIGINT NOT NULL, tags ARRAY<STRING>, at TIMESTAMP, m Map<string, REAL>") == serde
    assert row(serde.schema) == serde
    assert serde.name == (
        "row<id: int64 not null, tags: list<string>, at: timestamp[us, tz=UTC], "
        "m: map<string, float>>"
    )
    assert eval(repr(serde), {"row": row}) == serde  # noqa: S307  # what it is for


@pytest.mark.spec("SRD-38")
def test_what_is_no_schema_is_refused_with_its_place(subtests: pytest.Subtests) -> None:
    """At the time when the serde is made, long before there is a row."""
    for schema, words in (
        ("", "expected the name of a field"),
        ("a: int65", "expected a type at 'int65'"),
        ("a: int64,", "expected the name of a field"),
        ("a: int64 b", "expected the end at 'b'"),
        ("a: int64, A: string", "Spark cannot tell apart"),
        ("a: decimal128(39, 0)", "1 to 38 digits"),
        ("a: map<list<int8>, int8>", "the keys of a map"),
        ("a: map<double, int8>", "the keys of a map"),
        ("a: " + "list<" * 40 + "int8" + ">" * 40, "at most 32 deep"),
        ("a: timestamp[us, tz=Mars/Olympus]", "the zone 'Mars/Olympus' is not known"),
        (
            pa.schema([("a", pa.struct([("b", pa.uint8())]))]),
            "the field 'a.b' is of the type uint8",
        ),
        (pa.schema([("a", pa.timestamp("ns"))]), "the field 'a' is of the type timestamp[ns]"),
        (pa.int64(), "rows have a schema or a struct"),
        ({"a": "int64"}, "a schema is a text"),
    ):
        with subtests.test(words):
            with pytest.raises(InvalidArgumentError) as raised:
                row(schema)

            assert words in str(raised.value)


@pytest.mark.spec("SRD-38")
def test_a_name_has_one_form(subtests: pytest.Subtests) -> None:
    """Else one format would have two names, and stores of one schema would differ."""
    for name in (
        "row<a:int64>",
        "row<a: bigint>",
        "row<a: int64",
        "row<>",
    ):
        with subtests.test(name), pytest.raises(InvalidArgumentError):
            serde_by_name(name)


@pytest.mark.spec("SRD-37")
def test_an_instant_comes_back_in_the_zone_of_its_schema() -> None:
    """It is the same instant, wherever it was given; also where the zone has no such year."""
    serde = row("at: timestamp[us, tz=-05:30]")
    moment = datetime(2024, 1, 1, 12, tzinfo=UTC)
    first = datetime(1, 1, 1, tzinfo=UTC)

    found = serde.decode(serde.encode({"at": moment}))["at"]

    assert (found, found.utcoffset()) == (moment, -timedelta(hours=5, minutes=30))
    assert serde.decode(serde.encode({"at": first})) == {"at": first}
    assert read_schema("at: timestamp").fields[0].type.zone == "UTC"  # type: ignore[union-attr]


@pytest.mark.spec("SRD-35")
def test_rows_of_more_schemas_than_are_remembered_are_rows_of_their_own() -> None:
    """Each row looked for its schema by a hash of all fields, and now by the object.

    Identities of schemas that are gone come again, and what is remembered is forgotten once it is
    too much: a row is of the schema that it was given to all the same.
    """
    made: list[StructType] = []

    def make(schema: StructType) -> str:
        made.append(schema)
        return str(schema)

    found = found_by_identity(make)
    kept = RowSerde(read_schema("a: int64"))
    for number in range(_MOST_FOUND + 10):
        name = f"n{number}"
        serde = RowSerde(StructType((Field(name, PlainType("int64"), nullable=False),)))

        assert serde.decode(serde.encode({name: number})) == {name: number}
        assert found(serde.schema) == str(serde.schema)

    assert found(kept.schema) is found(kept.schema)
    assert len(made) == _MOST_FOUND + 11
    assert kept.decode(kept.encode({"a": 1})) == {"a": 1}
