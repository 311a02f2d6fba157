"""Columns of keys are sorted as their bytes are, whatever they have in common."""

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from statestores.arrow.keys.key_order import key_order

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
