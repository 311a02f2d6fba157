"""The bytes of the serdes that have one simple format: bytes, utf8, the integers and floats."""

import math
import struct
from enum import IntEnum
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statestores.errors import SerializationError
from statestores.serdes import float64, int64, int64_sorted, list_of, raw, utf8
from statestores.serdes.typed_stores.encoded_values import encode_values
from statestores.spi.serde import Serde
from statestores_conformance.many_cases import for_each

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


class Colour(IntEnum):
    RED = 7


@pytest.mark.spec("SRD-10", "SRD-11", "SRD-12", "SRD-13", "SRD-14")
@for_each(
    ("serde", "value", "encoded"),
    [
        (raw, b"\x00\xff", "00ff"),
        (raw, b"", ""),
        (utf8, "aé😀", "61c3a9f09f9880"),
        (utf8, "", ""),
        (utf8, "\ufeffx", "efbbbf78"),
        (int64, 1, "0000000000000001"),
        (int64, -1, "ffffffffffffffff"),
        (int64, -(1 << 63), "8000000000000000"),
        (int64_sorted, -(1 << 63), "0000000000000000"),
        (int64_sorted, 0, "8000000000000000"),
        (int64_sorted, (1 << 63) - 1, "ffffffffffffffff"),
        (float64, 1.0, "3ff0000000000000"),
        (float64, -0.0, "8000000000000000"),
        (float64, math.inf, "7ff0000000000000"),
        (float64, 1 << 60, "43b0000000000000"),
    ],
)
def test_the_bytes_are_the_documented_ones(serde: Serde[Any], value: Any, encoded: str) -> None:
    """The format of each serde is fixed, and equals Kafka's where there is one."""
    assert serde.encode(value).hex() == encoded
    assert serde.decode(bytes.fromhex(encoded)) == value


@pytest.mark.spec("SRD-1")
@for_each(
    ("serde", "values"),
    [
        (raw, st.binary()),
        (utf8, st.text()),
        (int64, INT64),
        (int64_sorted, INT64),
        (float64, st.floats(allow_nan=False)),
    ],
)
def test_values_come_back(serde: Serde[Any], values: st.SearchStrategy[Any]) -> None:
    """Decoding what was encoded gives the value, of the same type and sign."""

    @given(values)
    def check(value: Any) -> None:
        assert repr(serde.decode(serde.encode(value))) == repr(value)

    check()


@pytest.mark.spec("SRD-1")
def test_nan_comes_back_as_nan() -> None:
    """NaN equals nothing, and is a float all the same."""
    assert math.isnan(float64.decode(float64.encode(math.nan)))


@pytest.mark.spec("SRD-14")
def test_nan_is_one_key(subtests: pytest.Subtests) -> None:
    """It was as many as there are bits for it, and Java's Double serde writes one.

    On x86 what inf - inf, or Spark's sqrt(-1), gives has the sign bit, and the NaN of a literal has
    not: a store had two rows for them, in two partitions.
    """
    odd = [struct.unpack(">d", bytes.fromhex(bits))[0] for bits in _NANS]
    one = bytes.fromhex("7ff8000000000000")
    expected = [one, float64.encode(1.0), None]

    assert [float64.encode(each) for each in odd] == [one] * len(odd)
    for nan in (*odd, math.inf - math.inf):
        with subtests.test(struct.pack(">d", nan).hex()):
            values = [nan, 1.0, None]
            column = pa.array(values, pa.float64())

            assert float64.encode_array(column).to_pylist() == expected
            assert float64.encode_array(column.slice(1)).to_pylist() == expected[1:]
            assert encode_values(float64, "keys", values) == expected
            assert encode_values(float64, "keys", values[:2]) == expected[:2]
            assert list_of(float64).encode([nan]) == list_of(float64).encode([math.nan])
    assert encode_values(float64, "keys", [math.inf, -math.inf, 1e308, 1e308]) == [
        struct.pack(">d", each) for each in (math.inf, -math.inf, 1e308, 1e308)
    ]


_NANS = ("7ff8000000000000", "fff8000000000000", "7ff8000000000001", "ffffffffffffffff")
"""Some of the bits that are NaN, all quiet."""


@pytest.mark.spec("SRD-1")
@for_each("serde", [int64, int64_sorted])
def test_subclasses_come_back_as_int(serde: Serde[int]) -> None:
    """A subclass of int is written as the number that it is."""
    decoded = serde.decode(serde.encode(Colour.RED))

    assert (decoded, type(decoded)) == (7, int)


@pytest.mark.spec("SRD-2", "SRD-4", "SRD-19")
@for_each(
    ("serde", "value", "type_name"),
    [
        (raw, "text", "str"),
        (raw, bytearray(b"x"), "bytearray"),
        (raw, None, "NoneType"),
        (utf8, b"bytes", "bytes"),
        (utf8, None, "NoneType"),
        (utf8, "\ud800", "str"),
        (int64, True, "bool"),
        (int64, 1.0, "float"),
        (int64, "1", "str"),
        (int64, None, "NoneType"),
        (int64, 1 << 63, "int"),
        (int64, -(1 << 63) - 1, "int"),
        (int64_sorted, False, "bool"),
        (int64_sorted, 1.0, "float"),
        (int64_sorted, 1 << 63, "int"),
        (int64_sorted, -(1 << 63) - 1, "int"),
        (float64, True, "bool"),
        (float64, "1.0", "str"),
        (float64, None, "NoneType"),
        (float64, (1 << 53) + 1, "int"),
        (float64, 1 << 2_000, "int"),
    ],
)
def test_other_values_are_refused(serde: Serde[Any], value: Any, type_name: str) -> None:
    """The message names the serde, the value and its type."""
    with pytest.raises(SerializationError) as caught:
        serde.encode(value)

    message = str(caught.value)
    assert repr(serde.name) in message
    assert repr(value)[:200] in message
    assert message.endswith(f"of type {type_name}")


@pytest.mark.spec("SRD-3", "SRD-4")
@for_each(
    ("serde", "data", "reason"),
    [
        (utf8, b"\xff", "not UTF-8"),
        (utf8, b"\xed\xa0\x80", "not UTF-8"),
        (int64, b"", "expected 8 bytes, got 0"),
        (int64, b"1234567", "expected 8 bytes, got 7"),
        (int64, b"123456789", "expected 8 bytes, got 9"),
        (int64_sorted, b"1234567", "expected 8 bytes, got 7"),
        (float64, b"1234", "expected 8 bytes, got 4"),
    ],
)
def test_other_bytes_are_refused(serde: Serde[Any], data: bytes, reason: str) -> None:
    """Bytes of another format are an error and never a value; the message says what is wrong."""
    with pytest.raises(SerializationError) as caught:
        serde.decode(data)

    message = str(caught.value)
    assert repr(serde.name) in message
    assert repr(data) in message
    assert reason in message


@pytest.mark.spec("SRD-4")
@for_each(
    ("serde", "value"),
    [(raw, "x" * 1_000_000), (int64, 10**5_000), (utf8, b"x" * 1_000_000)],
)
def test_messages_are_bounded(serde: Serde[Any], value: Any) -> None:
    """A large value does not make a large message, also one that Python refuses to print."""
    with pytest.raises(SerializationError) as caught:
        serde.encode(value)

    assert len(str(caught.value)) < 500


@pytest.mark.spec("SRD-7")
@for_each(("serde", "values"), [(raw, st.binary()), (utf8, st.text()), (int64_sorted, INT64)])
def test_sorted_serdes_keep_the_order(serde: Serde[Any], values: st.SearchStrategy[Any]) -> None:
    """The bytes of a sorted serde compare as the values do."""
    assert serde.sorted

    @given(values, values)
    def check(one: Any, other: Any) -> None:
        assert (serde.encode(one) < serde.encode(other)) == (one < other)

    check()


@pytest.mark.spec("SRD-7", "SRD-12", "SRD-14")
@for_each("serde", [int64, float64])
def test_serdes_of_kafka_do_not_claim_an_order(serde: Serde[Any]) -> None:
    """Negative numbers sort after positive ones, and the serde says that it is not sorted."""
    assert serde.encode(-1) > serde.encode(1)
    assert not serde.sorted


@pytest.mark.spec("SRD-9")
def test_zeros_of_different_sign_are_two_keys() -> None:
    """Equal floats need not have equal bytes."""
    assert float64.encode(0.0) != float64.encode(-0.0)


@pytest.mark.spec("SRD-12")
@given(INT64)
def test_int64_is_what_java_writes(value: int) -> None:
    """``DataOutputStream.writeLong`` writes big-endian two's complement."""
    assert int64.encode(value) == struct.pack(">q", value)
