"""Options are read in one place, and nothing that was said is ignored."""

from decimal import Decimal
from typing import Any

import pytest

import statestores as ss
from statestores.arrow.keys.key_selection import KeySelection
from statestores.errors import InvalidOptionError
from statestores.serdes import row_sorted
from statestores.spark.options.keys import selection_from_options
from statestores.spark.options.read_and_write import SourceOptions
from statestores.spi import Serde
from statestores_conformance.many_cases import for_each

NOON_MS = 1_372_939_200_000  # 2013-07-04T12:00:00Z


def reading(**options: str) -> SourceOptions:
    return SourceOptions.for_reading({"path": "state", **options})


def test_names_are_compared_without_regard_to_case() -> None:
    """Spark folds them, and users write them as they like."""
    assert reading(STORENAME="a", readchangefeed="TRUE").store_name == "a"


@for_each(
    "text",
    [
        str(NOON_MS),
        "2013-07-04T12:00:00Z",
        "2013-07-04T14:00:00+02:00",
        "2013-07-04 12:00:00",
        "2013-07-04T12:00",
    ],
)
def test_a_time_is_milliseconds_or_iso_8601(text: str) -> None:
    """Without a zone it is in UTC."""
    assert reading(asOf=text).as_of_ms == NOON_MS


@for_each(
    ("text", "milliseconds"),
    [("0", 0), ("1500", 1500), ("500ms", 500), ("7d", 604_800_000), ("2 h", 7_200_000)],
)
def test_a_duration_has_a_unit_or_is_milliseconds(text: str, milliseconds: int) -> None:
    """The units are those of Spark's intervals, in short."""
    options = SourceOptions.for_writing({"path": "state", "historyRetention": text})

    assert options.history_retention_ms == milliseconds


def test_an_offset_is_for_all_partitions_or_for_each() -> None:
    """As Kafka's source has it."""
    assert reading(offset="41").offset == 41
    assert reading(offset='{"0": 41, "3": 7}').offset == {0: 41, 3: 7}


@for_each(
    ("name", "text", "expected"),
    [
        ("asOf", "yesterday", "ISO 8601"),
        ("asOf", "-1", "ISO 8601"),
        ("offset", "-1", "an offset"),
        ("offset", "{}", "an offset"),
        ("offset", '{"0": "x"}', "an offset"),
        ("offset", "true", "an offset"),
        ("history", "yes", "true or false"),
        ("columns", "key,,value", "column names"),
        ("columns", "key,key", "column names"),
        ("partitions", "1,x", "partition numbers"),
        ("partitions", "-1", "partition numbers"),
        ("keys", "a,b", "a JSON list"),
        ("keys", '"a"', "a JSON list"),
        ("keys", "[1]", "a JSON list"),
        ("keys", "[" * 5_000, "a JSON list"),
        ("storeName", "", "the name of a store"),
    ],
)
def test_a_value_that_cannot_be_read_is_an_error(name: str, text: str, expected: str) -> None:
    """The message says what was expected, and what was given."""
    with pytest.raises(InvalidOptionError, match=expected) as caught:
        reading(**{name: text})

    assert repr(text) in str(caught.value)
    assert repr(name) in str(caught.value)


@for_each("name", ["asof_", "snapshotStartBatchId", "numPartitions"])
def test_an_option_that_is_not_for_reading_is_an_error(name: str) -> None:
    """Also one of writing, and one of Spark's own source."""
    with pytest.raises(InvalidOptionError, match=rf"{name}.*readChangeFeed.*keyPrefix"):
        reading(**{name: "1"})


def test_an_option_of_reading_is_an_error_in_writing() -> None:
    """It would have no effect."""
    with pytest.raises(InvalidOptionError, match="'asOf' is not for writing"):
        SourceOptions.for_writing({"path": "state", "asOf": "1"})


def test_a_path_is_needed() -> None:
    """Spark loses the options of a table, so the message says what to do there."""
    with pytest.raises(InvalidOptionError, match="WITH"):
        SourceOptions.for_reading({})


@for_each(
    "options",
    [
        {"asOf": "1", "history": "true"},
        {"readChangeFeed": "true", "asOf": "1"},
        {"readChangeFeed": "true", "offset": "1"},
        {"key": "a", "keyPrefix": "a"},
        {"keyPrefix": "a", "keyTo": "b"},
        {"keys": '["a"]', "keyFrom": "a"},
        {"startingOffset": "1"},
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, str]) -> None:
    """Rather than that one of them wins."""
    with pytest.raises(InvalidOptionError):
        reading(**options)


@for_each(
    ("serde", "options", "selection"),
    [
        (ss.utf8, {"key": "é"}, KeySelection(first="é".encode(), last="é".encode())),
        (None, {"key": "0x00ff"}, KeySelection(first=b"\x00\xff", last=b"\x00\xff")),
        (None, {"key": "abc"}, KeySelection(first=b"abc", last=b"abc")),
        (ss.utf8, {"keyPrefix": "N1"}, KeySelection(first=b"N1", stop=b"N2")),
        (ss.int64, {"key": "-1"}, KeySelection(first=b"\xff" * 8, last=b"\xff" * 8)),
        (
            ss.json,
            {"key": '{"b":1,"a":2}'},
            KeySelection(first=b'{"a":2,"b":1}', last=b'{"a":2,"b":1}'),
        ),
        (ss.utf8, {"keyFrom": "a", "keyTo": "b"}, KeySelection(first=b"a", last=b"b")),
        (ss.int64_sorted, {"keyFrom": "0"}, KeySelection(first=b"\x80" + b"\x00" * 7)),
        (ss.utf8, {"keys": '["é", "", "é"]'}, KeySelection(points=(b"", "é".encode()))),
        (
            ss.int64,
            {"keys": '["1", "-1"]'},
            KeySelection(points=(b"\x00" * 7 + b"\x01", b"\xff" * 8)),
        ),
        (None, {"keys": '["0x00", "a"]'}, KeySelection(points=(b"\x00", b"a"))),
        (ss.utf8, {"keys": "[]"}, KeySelection(points=())),
        (ss.utf8, {}, None),
    ],
)
def test_keys_are_text_in_the_words_of_the_serde(
    serde: Any, options: dict[str, str], selection: KeySelection | None
) -> None:
    """The bytes are those under which the store has the key."""
    assert selection_from_options(reading(**options), serde) == selection


@for_each(
    ("serde", "options", "reason"),
    [
        (ss.int64, {"key": "x"}, "must be a key of the serde 'int64'"),
        (None, {"key": "0xZZ"}, "must be a key of the serde 'bytes'"),
        (ss.int64, {"keys": '["1", "x"]'}, "'keys' must be a key of the serde 'int64', got 'x'"),
        (ss.int64, {"keyPrefix": "1"}, "needs keys of text or bytes"),
        (ss.int64, {"keyFrom": "1"}, "bytes sort as they do"),
        (ss.json, {"keyTo": "1"}, "bytes sort as they do"),
    ],
)
def test_a_selection_that_would_select_something_else_is_refused(
    serde: Any, options: dict[str, str], reason: str
) -> None:
    """A range of bytes is a range of keys only where the serde keeps the order."""
    with pytest.raises(InvalidOptionError, match=reason):
        selection_from_options(reading(**options), serde)


SUMS = row_sorted("sum: decimal128(20, 4), at: double")


@for_each(
    ("serde", "text", "words"),
    [
        (ss.float64, "1_000", ""),
        (ss.float64, " 1", ""),
        (ss.float64, "\u0661", ""),
        (SUMS, '{"sum": 1, "sum": 2}', "the field 'sum' twice"),
        (SUMS, '{"at": 1e400}', "in 'at': expected a number that a float holds"),
        (SUMS, '{"sum": 1e99999999999999999999}', "too large a number"),
        (SUMS, "[" * 5_000, "nested too deeply"),
        (ss.int64, "[" * 5_000, ""),
        (ss.json, "[" * 5_000, ""),
    ],
)
def test_a_text_that_could_be_another_key_is_refused(
    serde: Serde[Any], text: str, words: str
) -> None:
    """Python takes `1_000` for 1000, and the last of two fields; `get` had refused the former.

    Brackets ended the query with a `RecursionError`.
    """
    with pytest.raises(InvalidOptionError, match="the option 'key' must be a key of") as raised:
        selection_from_options(reading(key=text), serde)

    assert words in str(raised.value)


def test_a_decimal_number_in_a_key_is_the_one_that_is_written() -> None:
    """A read of the key with the sum 1234567890123456.7891 was one of 1234567890123456.8.

    JSON was parsed into floats, which hold some 15 digits, and there was no row.
    """
    exact = Decimal("1234567890123456.7891")
    for text in (f'{{"sum": {exact}, "at": 0.5}}', f'{{"sum": "{exact}", "at": 0.5}}'):
        found = selection_from_options(reading(key=text), SUMS)

        assert found is not None
        assert found.first == SUMS.encode({"sum": exact, "at": 0.5})
