"""Columns of keys are sorted as their bytes are, whatever they have in common."""

from itertools import pairwise, takewhile
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from statestores.arrow.keys.key_order import _sorted_bytes, _sorted_words, key_order

_ALPHABETS = [b"\x00\x01", b"ab", b"\xff\x00", bytes(range(256))]


@st.composite
def _keys(draw: st.DrawFn) -> list[bytes]:
    """Return keys of equal or differing lengths, with or without a common beginning."""
    letter = st.sampled_from(draw(st.sampled_from(_ALPHABETS)))
    shared = bytes(draw(st.lists(letter, max_size=9)))
    length = draw(st.none() | st.integers(0, 12))
    rest = st.lists(letter, min_size=length or 0, max_size=12 if length is None else length)
    return [shared + bytes(each) for each in draw(st.lists(rest, max_size=12))]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()], ids=str)
@pytest.mark.parametrize("row_bits", [32, 2], ids=["", "more rows than half a word counts"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(keys=_keys(), skipped=st.integers(0, 2))
def test_rows_come_in_the_order_of_bytes(
    kind: pa.DataType,
    row_bits: int,
    monkeypatch: pytest.MonkeyPatch,
    keys: list[bytes],
    skipped: int,
) -> None:
    """Equal keys in their own order; a slice of a longer column as a column of its own."""
    monkeypatch.setattr("statestores.arrow.keys.key_order._ROW_BITS", row_bits)
    column = pa.array([b"before"] * skipped + keys, kind)[skipped:]
    expected = sorted(range(len(keys)), key=lambda row: keys[row])
    following = [keys[row] for row in expected[1:]]

    order = key_order(column)

    assert order.rows.tolist() == expected
    assert order.is_last.tolist() == [
        place == len(following) or keys[row] != following[place]
        for place, row in enumerate(expected)
    ]


def _shared(keys: list[bytes]) -> int:
    """Return how many first bytes all *keys* have in common."""
    alike = takewhile(lambda column: len(set(column)) == 1, zip(*keys, strict=False))
    return len(list(alike))


def _words(keys: list[bytes]) -> list[bytes]:
    """Return the bytes of each of *keys* that are compared as one number."""
    first = _shared(keys)
    return [key[first : first + 8].ljust(8, b"\0") for key in keys]


def _compared_as_bytes(keys: list[bytes]) -> list[int]:
    """Return the rows that only their bytes put in order: no number tells them apart."""
    if len({len(key) for key in keys}) == 1 and len(keys[0]) <= _shared(keys) + 8:
        return []  # the number says everything
    words = _words(keys)
    return [row for row, word in enumerate(words) if words.count(word) > 1 and any(keys)]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()], ids=str)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(keys=_keys())
@example(keys=[b"prefix-a-long-one-%d" % number for number in (2, 3, 1)])
@example(keys=[b"a", b"b", b"a"])
@example(keys=[b"same-%08d" % number for number in (20_000_000, 30_000_000, 30_000_000)])
@example(keys=[b"longer-%09d" % number for number in (2, 20, 23, 20)])
@example(keys=[b"", b""])
def test_bytes_are_compared_where_no_number_tells_keys_apart(
    kind: pa.DataType, monkeypatch: pytest.MonkeyPatch, keys: list[bytes]
) -> None:
    """What the order costs a restore: keys whose numbers ascend are not sorted at all."""
    sorted_rows: list[int] = []
    compared: list[int] = []

    def words_of(words: Any) -> Any:
        sorted_rows.extend(range(len(words)))
        return _sorted_words(words)

    def bytes_of(column: pa.Array, rows: Any) -> Any:
        compared.extend(rows.tolist())
        return _sorted_bytes(column, rows)

    monkeypatch.setattr("statestores.arrow.keys.key_order._sorted_words", words_of)
    monkeypatch.setattr("statestores.arrow.keys.key_order._sorted_bytes", bytes_of)
    words = _words(keys)

    key_order(pa.array(keys, kind))

    ascend = all(one < other for one, other in pairwise(words))
    assert sorted_rows == ([] if ascend else list(range(len(keys))))
    assert sorted(compared) == ([] if ascend else _compared_as_bytes(keys))


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()], ids=str)
def test_a_column_of_nothing_needs_no_offsets(kind: pa.DataType) -> None:
    """Arrow lets an empty column come without them, as other libraries write it."""
    column = pa.Array.from_buffers(kind, 0, [None, None, pa.py_buffer(b"")])

    order = key_order(column)

    assert (order.rows.tolist(), order.is_last.tolist()) == ([], [])
