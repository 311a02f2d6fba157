"""Serdes on Arrow columns: for each row what the serde does with its value."""

import math
import mmap
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statestores.errors import InvalidTypeError, SerializationError
from statestores.serdes import float64, int64, int64_sorted, json, msgpack, raw, utf8
from statestores.spi.serde import Serde
from statestores_conformance.many_cases import for_each

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
FLOATS = st.floats(allow_nan=False)
# Built, because the order of the fields shows in MessagePack.
SMALL_OBJECTS = st.builds(
    lambda number, name: {"id": number, "name": name}, INT64, st.text() | st.none()
)

COLUMNS: list[Any] = [
    pytest.param(raw, st.binary(), pa.binary(), id="bytes"),
    pytest.param(raw, st.binary(), pa.large_binary(), id="bytes-large"),
    pytest.param(raw, st.binary(min_size=3, max_size=3), pa.binary(3), id="bytes-fixed"),
    pytest.param(utf8, st.text(), pa.string(), id="utf8"),
    pytest.param(utf8, st.text(), pa.large_string(), id="utf8-large"),
    pytest.param(utf8, st.text(), pa.string_view(), id="utf8-view"),
    pytest.param(int64, INT64, pa.int64(), id="int64"),
    pytest.param(int64, st.integers(0, 255), pa.uint8(), id="int64-of-uint8"),
    pytest.param(int64_sorted, INT64, pa.int64(), id="int64_sorted"),
    pytest.param(float64, FLOATS, pa.float64(), id="float64"),
    pytest.param(float64, st.floats(width=32, allow_nan=False), pa.float32(), id="float64-of-32"),
    pytest.param(float64, st.integers(-(1 << 53), 1 << 53), pa.int64(), id="float64-of-int64"),
    pytest.param(
        json,
        SMALL_OBJECTS,
        pa.struct([("id", pa.int64()), ("name", pa.string())]),
        id="json-of-struct",
    ),
    pytest.param(
        msgpack,
        SMALL_OBJECTS,
        pa.struct([("id", pa.int64()), ("name", pa.string())]),
        id="msgpack-of-struct",
    ),
    pytest.param(msgpack, st.text(), pa.string(), id="msgpack-of-text"),
]


def sliced(values: list[Any], arrow_type: Any, before: int, after: int) -> Any:
    """Return an array of *values* that does not begin or end where its buffers do."""
    padded = [*values[:before], *values, *values[-after:]] if values and after else values
    lead = len(values[:before]) if padded is not values else 0
    return pa.array(padded, arrow_type).slice(lead, len(values))


@pytest.mark.spec("SRD-6", "SRD-29")
@for_each(("serde", "values", "arrow_type"), COLUMNS)
def test_columns_are_encoded_and_decoded_as_values_are(
    serde: Serde[Any], values: st.SearchStrategy[Any], arrow_type: Any
) -> None:
    """With nulls, slices and empty columns; and what was decoded can be encoded again."""

    @given(st.lists(values | st.none()), st.integers(0, 9), st.integers(0, 9))
    def check(rows: list[Any], before: int, after: int) -> None:
        column = sliced(rows, arrow_type, before, after)
        expected = [None if row is None else serde.encode(row) for row in rows]

        encoded = serde.encode_array(column)
        assert encoded.type == pa.binary()
        assert encoded.to_pylist() == expected
        encoded.validate(full=True)

        decoded = serde.decode_array(sliced(expected, pa.binary(), before, after))
        assert decoded.type == serde.arrow_type()
        decoded.validate(full=True)
        assert serde.encode_array(decoded).to_pylist() == expected

    check()


@pytest.mark.spec("SRD-6")
@for_each("serde", [raw, utf8, int64, int64_sorted, float64, json, msgpack])
def test_what_columns_decode_to_are_the_values(serde: Serde[Any]) -> None:
    """Also where the bytes come in another layout of Arrow."""
    samples: dict[str, list[Any]] = {
        "bytes": [b"12345678", b""],
        "utf8": ["é", ""],
        "float64": [1.5, -0.0],
        "json": [{"a": 1}, "x"],
        "msgpack": [{"a": 1}, "x"],
    }
    values = samples.get(serde.name, [5, -5])
    rows = [serde.encode(values[0]), None, serde.encode(values[1])]

    encoded_text: dict[str, list[Any]] = {"json": ['{"a":1}', None, '"x"'], "msgpack": rows}
    expected = encoded_text.get(serde.name, [values[0], None, values[1]])
    for arrow_type in (pa.binary(), pa.large_binary(), pa.binary_view()):
        assert serde.decode_array(pa.array(rows, arrow_type)).to_pylist() == expected


@pytest.mark.spec("SRD-6")
@for_each("serde", [raw, utf8, int64, int64_sorted, float64, json, msgpack])
def test_shape_follows_the_column(serde: Serde[Any]) -> None:
    """A chunked array keeps its chunks, an array stays one, and null columns have the type."""
    data = serde.encode(b"x" if serde is raw else "x" if serde is utf8 else 1)
    chunked = pa.chunked_array([[data, None], [], [data]], pa.binary())

    decoded = serde.decode_array(chunked)
    assert [len(chunk) for chunk in decoded.chunks] == [2, 0, 1]
    encoded = serde.encode_array(decoded)
    assert [len(chunk) for chunk in encoded.chunks] == [2, 0, 1]
    assert encoded.to_pylist() == [data, None, data]

    nothing = pa.chunked_array([], pa.binary())
    assert serde.decode_array(nothing).type == serde.arrow_type()
    assert serde.encode_array(pa.nulls(3)).equals(pa.nulls(3, pa.binary()))
    assert serde.decode_array(pa.nulls(3)).equals(pa.nulls(3, serde.arrow_type()))
    assert serde.decode_array(pa.nulls(2, pa.binary())).type == serde.arrow_type()
    assert serde.decode_array(pa.array([], pa.binary())).type == serde.arrow_type()


@pytest.mark.spec("SRD-6")
def test_bytes_under_nulls_do_not_count() -> None:
    """Arrow allows anything below a null; it is neither read nor refused."""
    offsets = pa.py_buffer(memoryview(b"".join(n.to_bytes(4, "little") for n in (0, 8, 11, 19))))
    data = pa.py_buffer(int64.encode(1) + b"\xff\xfe\xfd" + int64.encode(2))
    column = pa.Array.from_buffers(
        pa.binary(), 3, [pa.py_buffer(b"\x05"), offsets, data], null_count=1
    )

    assert int64.decode_array(column).to_pylist() == [1, None, 2]
    texts = pa.Array.from_buffers(
        pa.binary(), 3, [pa.py_buffer(b"\x05"), offsets, pa.py_buffer(b"a" * 8 + b"\xff" * 11)]
    ).slice(0, 2)
    assert utf8.decode_array(texts).to_pylist() == ["a" * 8, None]


@pytest.mark.spec("SRD-6")
def test_encodings_that_save_memory_make_no_difference() -> None:
    """A dictionary-encoded or run-end-encoded column is the column of its values."""
    texts = pa.array(["a", "b", None, "a"])
    numbers = pa.array([7, 7, 7, None])

    assert utf8.encode_array(texts.dictionary_encode()).to_pylist() == [b"a", b"b", None, b"a"]
    run_ends = pa.compute.run_end_encode(numbers)
    assert int64.encode_array(run_ends).equals(int64.encode_array(numbers))


@pytest.mark.spec("SRD-1", "SRD-6")
def test_nan_in_a_column_is_not_null() -> None:
    """NaN is a value, in both directions and next to nulls."""
    column = pa.array([math.nan, None, 1.0], pa.float64())

    encoded = float64.encode_array(column)
    assert encoded.to_pylist() == [float64.encode(math.nan), None, float64.encode(1.0)]
    decoded = float64.decode_array(encoded)
    assert decoded.is_null().to_pylist() == [False, True, False]
    assert decoded.is_null(nan_is_null=True).to_pylist() == [True, True, False]


@pytest.mark.spec("SRD-6", "SRD-14")
def test_columns_of_large_whole_numbers_are_floats_if_they_are_exact() -> None:
    """As for one value: 2**60 is a float, 2**53 + 1 is not."""
    exact = pa.array([1 << 60, None], pa.int64())

    assert float64.encode_array(exact).to_pylist() == [float64.encode(1 << 60), None]
    with pytest.raises(SerializationError, match=str((1 << 53) + 1)):
        float64.encode_array(pa.array([1, (1 << 53) + 1]))


@pytest.mark.spec("SRD-2", "SRD-6", "SRD-19")
@for_each(
    ("serde", "column", "words"),
    [
        (raw, pa.array(["text"]), "a column of binary, got one of string"),
        (utf8, pa.array([b"bytes"]), "a column of string, got one of binary"),
        (int64, pa.array([1.0]), "a column of whole numbers, got one of double"),
        (int64, pa.array([True]), "a column of whole numbers, got one of bool"),
        (int64, pa.array([1, 1 << 63], pa.uint64()), "9223372036854775808"),
        (int64_sorted, pa.array([1 << 63], pa.uint64()), "9223372036854775808"),
        (int64, pa.array([0], pa.timestamp("ms")), "got one of timestamp"),
        (float64, pa.array(["1"]), "a column of numbers, got one of string"),
        (float64, pa.array([False]), "a column of numbers, got one of bool"),
        (json, pa.array([0], pa.timestamp("ms")), "of type datetime.datetime"),
        (json, pa.array([b"x"]), "of type bytes"),
        (json, pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())), "'tuple'"),
        (json, pa.array(["{"]), "cannot read"),
        (json, pa.array(["null"]), "null"),
        (msgpack, pa.array([b"\xc1"]), "cannot read"),
        (msgpack, pa.array([0], pa.timestamp("ms")), "of type datetime.datetime"),
    ],
)
def test_columns_of_other_values_are_refused(serde: Serde[Any], column: Any, words: str) -> None:
    """The message names the serde, and the type of the column or the value."""
    with pytest.raises(SerializationError) as caught:
        serde.encode_array(column)

    assert repr(serde.name) in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.spec("SRD-3", "SRD-6")
@for_each(
    ("serde", "bad"),
    [
        (utf8, b"\xff"),
        (int64, b"1234567"),
        (int64_sorted, b"123456789"),
        (float64, b""),
        (json, b"{"),
        (json, b"\xff"),
        (json, b"null"),
        (msgpack, b"\xc1"),
        (msgpack, b"\xc0"),
    ],
)
def test_columns_with_other_bytes_are_refused_by_value(serde: Serde[Any], bad: bytes) -> None:
    """One bad value among good ones is named, as it is when it is read alone."""
    good = serde.encode("x" if serde is utf8 else 1)
    with pytest.raises(SerializationError) as alone:
        serde.decode(bad)
    with pytest.raises(SerializationError) as in_column:
        serde.decode_array(pa.array([good, None, bad, good]))

    assert str(in_column.value) == str(alone.value)


@pytest.mark.spec("SRD-3")
def test_widths_that_only_agree_on_average_are_refused() -> None:
    """Seven and nine bytes are not two numbers of eight."""
    with pytest.raises(SerializationError, match="expected 8 bytes, got 7"):
        int64.decode_array(pa.array([b"1234567", b"123456789"]))


@pytest.mark.spec("SRD-2")
@for_each(("serde", "arrow_type"), [(raw, pa.large_binary()), (utf8, pa.large_string())])
def test_chunks_that_are_too_large_are_refused(serde: Serde[Any], arrow_type: Any) -> None:
    """The bytes of one chunk have 32-bit offsets; the message says what to do."""
    size = (1 << 31) + 5
    zeros = pa.py_buffer(mmap.mmap(-1, size))  # address space only: nobody reads it
    offsets = pa.py_buffer(struct.pack("<qq", 0, size))
    column = pa.Array.from_buffers(arrow_type, 1, [None, offsets, zeros])

    with pytest.raises(SerializationError, match="smaller chunks") as caught:
        serde.encode_array(column)
    assert isinstance(caught.value.__cause__, pa.ArrowInvalid)


@pytest.mark.spec("SRD-20")
def test_text_columns_are_json() -> None:
    """Text is made canonical, and is not taken for a string of text."""
    column = pa.array(['{"b": 1, "a": "\\u00e9"}', None, "[1, 2]"])

    assert json.encode_array(column).to_pylist() == ['{"a":"é","b":1}'.encode(), None, b"[1,2]"]


@pytest.mark.spec("SRD-20")
def test_binary_columns_are_messagepack() -> None:
    """Bytes are taken as they are."""
    column = pa.array([msgpack.encode({"b": 1, "a": 2}), None], pa.large_binary())

    assert msgpack.encode_array(column).to_pylist() == column.to_pylist()


@pytest.mark.spec("SRD-6")
@for_each("serde", [raw, utf8, int64, int64_sorted, float64, json, msgpack])
@for_each("not_a_column", [[b"x"], None, "x"])
def test_what_is_no_column_is_refused(serde: Serde[Any], not_a_column: Any) -> None:
    """A list is not an Arrow column; the message says how to make one."""
    for method in (serde.encode_array, serde.decode_array):
        with pytest.raises(InvalidTypeError, match=r"pyarrow\.array"):
            method(not_a_column)
