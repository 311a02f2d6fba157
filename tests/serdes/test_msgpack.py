"""MessagePack values."""

from collections import OrderedDict
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statestores.errors import SerializationError
from statestores.serdes import msgpack
from statestores_conformance.many_cases import for_each

driver: Any = pytest.importorskip("msgpack", reason="the serde needs the package msgpack")

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda children: (
        st.lists(children | st.none())
        | st.dictionaries(st.text() | st.integers(0, 99) | st.binary(), children | st.none())
    ),
)


@pytest.mark.spec("SRD-1", "SRD-16")
@given(VALUES)
def test_values_come_back_with_their_types(value: Any) -> None:
    """Also bytes, keys that are not text, and the order of dicts."""
    assert repr(msgpack.decode(msgpack.encode(value))) == repr(value)


@pytest.mark.spec("SRD-1", "SRD-16")
@for_each("value", [driver.Timestamp(1_372_939_200, 5), driver.ExtType(5, b"x")])
def test_types_of_the_format_come_back(value: Any) -> None:
    """MessagePack's own types are values like others."""
    assert msgpack.decode(msgpack.encode(value)) == value


@pytest.mark.spec("SRD-16")
@for_each(
    ("value", "encoded"),
    [({"a": 1}, "81a16101"), (b"a", "c40161"), ("a", "a161"), (1.5, "cb3ff8000000000000")],
)
def test_the_bytes_are_the_documented_ones(value: Any, encoded: str) -> None:
    """Bytes and text are told apart; floats have 64 bits."""
    assert msgpack.encode(value).hex() == encoded


@pytest.mark.spec("SRD-9", "SRD-16")
def test_dicts_keep_their_order() -> None:
    """Equal dicts of another order have other bytes: as keys they are two."""
    one, other = {"a": 1, "b": 2}, {"b": 2, "a": 1}

    assert one == other
    assert msgpack.encode(one) != msgpack.encode(other)
    assert list(msgpack.decode(msgpack.encode(other))) == ["b", "a"]


@pytest.mark.spec("SRD-2", "SRD-18")
def test_what_would_not_read_back_is_refused(subtests: pytest.Subtests) -> None:
    """The error names the serde and the type; nothing is turned into something else."""
    for value in (
        None,
        (1, 2),
        [{"a": (1,)}],
        {(1, 2): 3},
        OrderedDict(a=1),
        1 << 64,
        -(1 << 63) - 1,
        "\ud800",
        {1, 2},
        datetime(2013, 7, 4, tzinfo=UTC),
        object(),
    ):
        refused = pytest.raises(SerializationError, match=r"the serde 'msgpack' takes .* of type")
        with subtests.test(repr(value)), refused:
            msgpack.encode(value)


@pytest.mark.spec("SRD-2")
def test_endless_values_are_refused() -> None:
    """A list that contains itself is an error of ours, not a crash."""
    value: list[Any] = []
    value.append(value)

    with pytest.raises(SerializationError):
        msgpack.encode(value)


@pytest.mark.spec("SRD-3", "SRD-18")
@for_each(
    "data",
    [
        b"",
        b"\xc0",
        b"\xc1",
        b"\x01\x01",
        b"\xa1\xff",
        b"\xa5ab",
        b"\xdb\xff\xff\xff\xff",
        b"\x81\x91\x01\x01",
        b"\xc7\x0c\xff" + b"\xff" * 12,
        b"\x91" * 5_000,
        b'{"a":1}',
    ],
)
def test_what_is_not_messagepack_is_refused(data: bytes) -> None:
    """Truncated, followed by something, of an unknown type, nested too deep, or nil."""
    with pytest.raises(SerializationError, match=r"the serde 'msgpack' cannot read"):
        msgpack.decode(data)
