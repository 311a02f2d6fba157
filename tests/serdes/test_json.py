"""Canonical JSON: one text for each value, with orjson and without."""

import math
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statestores.errors import SerializationError
from statestores.serdes import json, json_serde
from statestores.serdes.canonical_json import MAX_DEPTH, is_plain, read, write
from statestores_conformance.many_cases import for_each

NUMBERS = (
    st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.floats(1e-6, 1e-3)
    | st.floats(1e14, 1e18)
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.booleans() | NUMBERS | st.text(),
    lambda children: (
        st.lists(children | st.none()) | st.dictionaries(st.text(), children | st.none())
    ),
)


class Colour(StrEnum):
    RED = "red"


@pytest.fixture(params=["orjson", "standard library"])
def implementation(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Run the test with orjson and as if it were not installed."""
    if request.param != "orjson":
        monkeypatch.setitem(sys.modules, "orjson", None)
    json_serde._codec.forget()
    json_serde._codec.choose()
    assert (json_serde._codec.loads is read) == (request.param != "orjson")
    json_serde._codec.forget()
    yield request.param
    json_serde._codec.forget()


def nested(levels: int) -> Any:
    """Return lists in lists."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.spec("SRD-15")
@pytest.mark.usefixtures("implementation")
@for_each(
    ("value", "text"),
    [
        ({"b": 1, "a": [True, None, "x"]}, '{"a":[true,null,"x"],"b":1}'),
        ({"é": 1, "z": 2, "😀": 3, "\uffff": 4}, '{"z":2,"é":1,"\uffff":4,"😀":3}'),
        (
            '"\\/\b\t\n\f\r\x00\x1f\x7f\u2028é😀',
            '"\\"\\\\/\\b\\t\\n\\f\\r\\u0000\\u001f\x7f\u2028é😀"',
        ),
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (0.1, "0.1"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (5e-324, "5e-324"),
        (9999999999999998.0, "9999999999999998.0"),
        (1e16, "1e+16"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        ((1 << 64) - 1, "18446744073709551615"),
        (-(1 << 63), "-9223372036854775808"),
        (False, "false"),
        ("", '""'),
        ({}, "{}"),
    ],
)
def test_each_value_has_one_text(value: Any, text: str) -> None:
    """The text is the documented one, whatever library writes it."""
    assert json.encode(value).decode() == text
    assert repr(json.decode(text.encode())) == repr(
        dict(sorted(value.items())) if isinstance(value, dict) else value
    )


@pytest.mark.spec("SRD-15", "SRD-21")
@given(VALUES)
def test_orjson_writes_what_the_standard_library_writes(value: Any) -> None:
    """Where orjson is let write, it gives the canonical text; both read it back."""
    canonical = write(value)

    assert json.encode(value) == canonical
    if is_plain(value):
        assert orjson.dumps(value, option=orjson.OPT_SORT_KEYS) == canonical
    assert repr(read(canonical)) == repr(orjson.loads(canonical))


@pytest.mark.spec("SRD-1")
@given(VALUES)
def test_values_come_back_with_their_types(value: Any) -> None:
    """Integers stay integers, floats floats, and nothing is lost in nested values."""
    decoded = json.decode(json.encode(value))

    assert decoded == value
    assert json.encode(decoded) == json.encode(value)


@pytest.mark.spec("SRD-9")
def test_numbers_of_different_types_are_two_keys() -> None:
    """1 and 1.0 are equal in Python and have different bytes."""
    assert json.encode(1) != json.encode(1.0)


@pytest.mark.spec("SRD-2", "SRD-17", "SRD-18")
@pytest.mark.usefixtures("implementation")
@for_each(
    "value",
    [
        None,
        math.nan,
        math.inf,
        {"a": [-math.inf]},
        {"a": None, "b": math.nan},
        1 << 64,
        [-(1 << 63) - 1],
        (1, 2),
        {"a": (1,)},
        {1: 2},
        {None: 1},
        {Colour.RED: 1},
        [Colour.RED],
        b"bytes",
        {1, 2},
        uuid.UUID(int=1),
        datetime(2013, 7, 4, tzinfo=UTC),
        "\ud800",
        {"\ud800": 1},
        pytest.param(object(), id="object"),
        nested(MAX_DEPTH + 1),
        {"a": 1e300, "b": (1,)},
        {"a": 1e300, "b": nested(MAX_DEPTH)},
    ],
)
def test_what_would_not_read_back_is_refused(value: Any) -> None:
    """The error names the serde and the type; nothing is turned into something else.

    What follows a float that libraries write each in their way is looked at as well: once it was
    not, and a tuple was written as a list.
    """
    with pytest.raises(SerializationError, match=r"the serde 'json' takes .* of type"):
        json.encode(value)


@pytest.mark.spec("SRD-17")
@pytest.mark.usefixtures("implementation")
def test_the_deepest_value_is_readable() -> None:
    """A value of the most levels goes in and comes back."""
    value = nested(MAX_DEPTH)

    assert json.decode(json.encode(value)) == value


@pytest.mark.spec("SRD-3", "SRD-18")
@pytest.mark.usefixtures("implementation")
@for_each(
    "data",
    [
        b"",
        b" ",
        b"null",
        b"NaN",
        b"Infinity",
        b"-Infinity",
        b"1e999",
        b"1" + b"0" * 400,
        b"01",
        b"1.",
        b"1 2",
        b"1\x00",
        b"{'a':1}",
        b'{"a":1,}',
        b'"\x01"',
        b'"\xff"',
        b'"\xed\xa0\x80"',
        b'"\\ud800"',
        b'{"\\udc00":1}',
        b"\xef\xbb\xbf1",
        b"\x0c1",
        b"[" * 1_025 + b"]" * 1_025,
        b"[" * 5_000 + b"]" * 5_000,
        b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    ],
)
def test_what_is_not_json_is_refused(data: bytes) -> None:
    """Both implementations refuse the same bytes, also those that only one of them would read.

    From Python 3.12 on the standard library reads thousands of levels, which orjson refuses: a
    value could be read, depending on what is installed, that cannot be written.
    """
    with pytest.raises(SerializationError, match=r"the serde 'json' cannot read"):
        json.decode(data)


@pytest.mark.spec("SRD-15")
@pytest.mark.usefixtures("implementation")
@for_each(
    ("data", "value"),
    [
        (b' {"b" : 1 ,\n"a":\t2}\r', {"b": 1, "a": 2}),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b'"\\ud83d\\ude00\\u00e9"', "😀é"),
        (b"-0", 0),
        (b"1E5", 100000.0),
        (b"1e-999", 0.0),
        (b"18446744073709551616", 18446744073709551616.0),
        (b"-9223372036854775809", -9223372036854775808.0),
    ],
)
def test_foreign_json_is_read_alike(data: bytes, value: Any) -> None:
    """Text that is JSON and not canonical gives the same value in both implementations."""
    assert repr(json.decode(data)) == repr(value)
