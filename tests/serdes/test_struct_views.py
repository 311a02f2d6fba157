"""Rows as JSON: keys on the command line, what it shows, and values read by a schema."""

import json as plain_json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import statestores as ss
from statestores.errors import InvalidArgumentError, SerializationError
from statestores.reading.key_text import parse_key
from statestores.serdes import json, msgpack, row, row_sorted
from statestores.serdes.rows.row_serde import read_schema
from statestores.serdes.rows.struct_views import struct_view
from statestores.text.values import as_json

EVERYTHING = row(
    "n: int8, f: float, d: double, p: decimal128(5, 2), day: date32, at: timestamp[us, tz=UTC], "
    "s: string, b: binary, l: list<int32>, m: map<int16, bool>"
)


@pytest.mark.spec("SRD-41")
def test_a_row_comes_back_from_what_is_shown_of_it() -> None:
    """Through JSON, which has no dates, decimals, bytes or NaN."""
    value = {
        "n": -1,
        "f": 0.5,
        "d": float("-inf"),
        "p": Decimal("-1.50"),
        "day": date(2024, 2, 29),
        "at": datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC),
        "s": "né\n",
        "b": b"\xff\x00",
        "l": [1, None],
        "m": {1: True, -2: None},
    }
    shown = plain_json.dumps(as_json(value))

    assert EVERYTHING.decode(EVERYTHING.encode_plain(plain_json.loads(shown))) == value
    assert plain_json.loads(shown)["p"] == "-1.50"
    assert plain_json.loads(shown)["day"] == "2024-02-29"


@pytest.mark.spec("SRD-41")
def test_json_that_is_no_row_is_refused_with_the_field(subtests: pytest.Subtests) -> None:
    """It names the field, as a dict that is no row is."""
    for text, words in (
        ('{"day": "2024-13-01"}', "in 'day': expected a date of ISO 8601"),
        ('{"at": 5}', "in 'at': expected a time of ISO 8601, as text"),
        ('{"n": 300}', "in 'n': expected an int of 8 bits"),
        ('{"p": "x"}', "in 'p': expected a decimal number"),
        ('{"b": {"hex": "0"}}', "in 'b': expected hexadecimal bytes"),
        ('{"m": {"x": true}}', "in 'm': expected a int16"),
        ('{"x": 1}', "there is no field 'x'"),
        ("[1]", "expected an object"),
    ):
        with subtests.test(text):
            with pytest.raises(SerializationError) as raised:
                EVERYTHING.encode_plain(plain_json.loads(text))

            assert words in str(raised.value)


@pytest.mark.spec("SRD-41")
def test_a_decimal_that_a_float_has_rounded_is_refused() -> None:
    """A value read by a schema had 1234567890123456.8000 where its JSON had 1234567890123456.7891.

    What has parsed JSON gives a float for a number. Up to 15 digits are those that were written;
    of more nobody knows, and a text has as many as one likes.
    """
    stored, schema = json, read_schema("p decimal(20,4)")
    view = struct_view(stored, schema)

    assert view.decode(b'{"p": 99999999999.9999}') == {"p": Decimal("99999999999.9999")}
    assert view.decode(b'{"p": "1234567890123456.7891"}') == {"p": Decimal("1234567890123456.7891")}
    with pytest.raises(SerializationError, match="of up to 15 digits, or a longer one as text"):
        view.decode(b'{"p": 1234567890123456.7891}')


@pytest.mark.spec("SRD-41")
def test_a_key_has_no_time_below_a_microsecond() -> None:
    """A lookup of 12:00:00.1234567 was one of .123456, which is another key.

    Java's clocks write nine digits, so what is only read by a schema is cut off, as Spark does.
    """
    schema = read_schema("at timestamp not null")
    keys, view = row_sorted(schema), struct_view(json, schema)
    written = '{"at": "2013-07-04T12:00:00.%sZ"}'
    cut = datetime(2013, 7, 4, 12, microsecond=123456, tzinfo=UTC)

    assert view.decode((written % "123456789").encode()) == {"at": cut}
    assert keys.encode_plain(plain_json.loads(written % "123456000")) == keys.encode({"at": cut})
    for digits in ("1234567", "123456001"):
        with pytest.raises(SerializationError, match="in 'at': expected a time of whole microsec"):
            keys.encode_plain(plain_json.loads(written % digits))


@pytest.mark.spec("SRD-41")
def test_a_key_is_given_as_an_object() -> None:
    """On the command line and to whoever asks over HTTP."""
    keys = row_sorted("city: string not null, day: date32")
    specification = ss.KeyValue("s", key=keys)

    found = parse_key('{"city": "Oslo", "day": "2024-01-01"}', specification, is_hex=False)

    assert keys.decode(found) == {"city": "Oslo", "day": date(2024, 1, 1)}
    with pytest.raises(InvalidArgumentError, match="as a JSON object") as raised:
        parse_key("{}", specification, is_hex=False)
    assert "the field 'city' is missing" in str(raised.value.__cause__)


@pytest.mark.spec("SRD-41")
@pytest.mark.parametrize("serde", [json, msgpack], ids=lambda each: each.name)
@pytest.mark.parametrize("schema", ["id BIGINT NOT NULL, l ARRAY<INT>", "id: int64, day: date32"])
def test_json_is_read_by_a_schema(serde: Any, schema: str) -> None:
    """All at once or one by one: what the schema lacks is left out, what a value lacks is null."""
    view = struct_view(serde, read_schema(schema))
    values = [{"id": 1, "l": [1, None], "x": {"y": [1]}}, {"id": 2, "day": "2024-01-01"}]
    names = [each.name for each in view.schema.fields]
    expected: list[Any] = [{name: value.get(name) for name in names} for value in values]
    for each in expected:
        if each.get("day"):
            each["day"] = date(2024, 1, 1)
    data = [serde.encode(values[0]), None, serde.encode(values[1])]

    column = view.decode_array(pa.array(data, pa.binary()))

    assert column.type == view.arrow_type()
    assert column.to_pylist() == [expected[0], None, expected[1]]
    assert view.decode(data[0]) == expected[0]
    with pytest.raises(SerializationError, match="only read"):
        view.encode(expected[0])


@pytest.mark.spec("SRD-41")
def test_json_that_the_schema_does_not_fit_is_refused(subtests: pytest.Subtests) -> None:
    """In a column as alone, beside values that fit, and with line breaks in them."""
    for text in (
        '{"id": "1"}',
        '{"id": 1.0}',
        '{"id": 1, "l": [1.5]}',
        '{"l": []}',
        "[1]",
        '{"id": 1e30}',
    ):
        with subtests.test(text):
            view = struct_view(json, read_schema("id BIGINT NOT NULL, l ARRAY<INT>"))
            fits = b'{\n"id": 1}'
            column = pa.array([fits, text.encode()], pa.binary())

            with pytest.raises(SerializationError, match="does not fit"):
                view.decode_array(column)
            with pytest.raises(SerializationError, match="does not fit"):
                view.decode_array(column[1:])
            assert view.decode_array(column[:1]).to_pylist() == [{"id": 1, "l": None}]


@pytest.mark.spec("SRD-41")
def test_rows_and_text_are_not_read_by_another_schema() -> None:
    """Rows have one, and of the rest nobody knows fields."""
    for serde in (EVERYTHING, ss.utf8, None):
        with pytest.raises(InvalidArgumentError, match="values of json or msgpack"):
            struct_view(serde, EVERYTHING.schema)
