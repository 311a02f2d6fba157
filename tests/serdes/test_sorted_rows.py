"""Keys of several fields, whose bytes sort as the fields do."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from row_schemas import schemas, values_of

import statestores as ss
from statestores.errors import InvalidArgumentError, SerializationError
from statestores.serdes import serde_by_name
from statestores.serdes.rows import SortedRowSerde, row_sorted
from statestores.serdes.rows.schema import Field, PlainType, StructType

EVERYTHING = (
    "good: bool not null, small: int16, big: int64, ratio: float, exact: double, "
    "price: decimal128(10, 2), day: date32, at: timestamp[us, tz=UTC], name: string, "
    "data: binary not null, inner: struct<a: string not null, b: int8>"
)

KEY: dict[str, Any] = {
    "good": True,
    "small": -2,
    "big": 1 << 40,
    "ratio": -0.5,
    "exact": 1.5,
    "price": Decimal("-12.30"),
    "day": date(1969, 12, 31),
    "at": datetime(2024, 2, 29, 12, tzinfo=UTC),
    "name": None,
    "data": b"a\x00b\x01\xff",
    "inner": {"a": "", "b": None},
}

GOLDEN = (
    "01017ffe0180000100000000000140ffffff01bff8000000000000017ffffffffffffffffffffffffffffb3201"
    "7fffffff0180061283ffaff000006100ff6201ff000101000100"
)
"""The bytes of `KEY`; see `test_the_bytes_stay`."""


def _rank(schema: StructType, key: Any) -> tuple[Any, ...]:
    """Return *key* as Python would sort it: nulls first."""
    ranks = []
    for field in schema.fields:
        value = key[field.name]
        if isinstance(field.type, StructType) and value is not None:
            value = _rank(field.type, value)
        ranks.append((0,) if value is None else (1, value))
    return tuple(ranks)


@pytest.mark.spec("SRD-42", "SRD-6", "SRD-7")
@given(st.data())
def test_keys_sort_as_their_fields_do_and_come_back(data: st.DataObject) -> None:
    """One by one and as columns; nulls first, and by the first field that differs."""
    schema = data.draw(schemas(nested=False))
    if data.draw(st.booleans()):
        schema = StructType((*schema.fields[:1], *_inner(data)))
    serde = SortedRowSerde(schema)
    keys = data.draw(st.lists(values_of(schema), min_size=2, max_size=4))
    column = pa.array([*keys, None], serde.arrow_type())

    written = [serde.encode(key) for key in keys]
    encoded = serde.encode_array(column)
    ranked = sorted(keys, key=lambda key: _rank(schema, key))
    decoded = serde.decode_array(encoded.slice(1))
    decoded.validate(full=True)

    assert [serde.decode(each) for each in sorted(written)] == ranked
    assert encoded.to_pylist() == [*written, None]
    assert decoded.to_pylist() == [*keys[1:], None]
    assert all(
        (one == other) == (serde.encode(one) == serde.encode(other))
        for one in keys
        for other in keys
    )
    assert serde_by_name(serde.name) == serde


def _inner(data: st.DataObject) -> Any:
    """Return a struct between other fields, whose end nothing marks."""
    inner = data.draw(schemas(nested=False).map(lambda kind: kind.fields[:2]))
    return (
        Field("inner", StructType(inner), nullable=data.draw(st.booleans())),
        Field("last", PlainType("binary"), nullable=True),
    )


@pytest.mark.spec("SRD-42")
def test_floats_have_one_order() -> None:
    """-0.0 is 0.0, and NaN is one value behind all others: keys that are equal have equal bytes."""
    serde = row_sorted("f: double")
    ordered = [None, -math.inf, -1.5, -5e-324, 0.0, 5e-324, 1.5, math.inf, math.nan]

    written = [serde.encode({"f": each}) for each in ordered]
    column = serde.encode_array(pa.array([{"f": each} for each in ordered], serde.arrow_type()))

    assert written == sorted(set(written))
    assert column.to_pylist() == written
    assert serde.encode({"f": -0.0}) == serde.encode({"f": 0.0})
    assert math.isnan(serde.decode(written[-1])["f"])


@pytest.mark.spec("SRD-42", "SRD-8")
def test_the_bytes_stay() -> None:
    """These were written when the serde was new: a release that reads them otherwise is wrong."""
    serde = row_sorted(EVERYTHING)

    assert serde.encode(KEY).hex() == GOLDEN
    assert serde.decode(bytes.fromhex(GOLDEN)) == KEY


@pytest.mark.spec("SRD-42", "SRD-3", "SRD-6")
@given(st.data())
def test_bytes_of_anybody_are_refused_or_are_a_key(data: st.DataObject) -> None:
    """What is read is written again as it was: two keys never become one."""
    serde = row_sorted(EVERYTHING)
    whole = bytearray(serde.encode(KEY))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)) | st.just(len(whole)))
    given_bytes = bytes(whole[:cut]) + data.draw(st.sampled_from([b"", b"\x00"]))
    column = pa.array([serde.encode(KEY), given_bytes], pa.binary())
    try:
        value = serde.decode(given_bytes)
    except SerializationError:
        with pytest.raises(SerializationError):
            serde.decode_array(column)
        return
    found = serde.decode_array(column)
    found.validate(full=True)
    assert serde.encode(value) == given_bytes
    assert serde.encode_array(found)[1].as_py() == given_bytes


@pytest.mark.spec("SRD-42")
def test_what_has_no_order_is_no_key(subtests: pytest.Subtests) -> None:
    """It is found when the serde is made, and in a name that somebody has written."""
    for schema, words in (
        ("a: int64, tags: list<string>", "the field 'tags' is list<string>, which has no order"),
        ("a: struct<m: map<string, int8>>", "the field 'a.m' is map<string, int8>, which has no"),
    ):
        with subtests.test(schema):
            with pytest.raises(InvalidArgumentError) as raised:
                row_sorted(schema)
            with pytest.raises(InvalidArgumentError, match="no order"):
                serde_by_name(f"row_sorted<{schema}>")

            assert words in str(raised.value)


@pytest.mark.spec("SRD-43")
def test_keys_are_found_by_their_first_fields(tmp_path: Any) -> None:
    """A prefix is of whole fields: no other name begins with that of Oslo."""
    keys = row_sorted("city: string not null, number: int32, at: date32")
    with ss.open_store(
        tmp_path / "s", ss.KeyValue("s", key=keys, value=ss.utf8), backend="memory"
    ) as store:
        for city, number in [("Oslo", 1), ("Oslo", -1), ("Oslofjord", 0), ("Os", 2)]:
            store.put({"city": city, "number": number, "at": None}, f"{city} {number}")

        def found(**leading: Any) -> list[str]:
            return [value for _, value in store.prefix_scan(keys.prefix(leading))]

        assert found(city="Oslo") == ["Oslo -1", "Oslo 1"]
        assert found(city="Oslo", number=1) == ["Oslo 1"]
    with pytest.raises(InvalidArgumentError, match="the first fields of city, number, at"):
        keys.prefix({"number": 1})
    with pytest.raises(SerializationError, match="in 'city'"):
        keys.prefix({"city": 1})
