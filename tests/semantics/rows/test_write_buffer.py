"""The overlay of uncommitted rows: its order, and its merge with stored rows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statestores.semantics.rows.write_buffer import WriteBuffer, merge

KEYS = st.binary(max_size=3)
ROWS = st.dictionaries(KEYS, st.none() | st.binary(max_size=2), max_size=20)


@pytest.mark.spec("COM-11")
@given(steps=st.lists(ROWS, max_size=5), start=KEYS, stop=st.none() | KEYS, reverse=st.booleans())
def test_a_slice_is_sorted_and_current(
    steps: list[dict[bytes, bytes | None]], start: bytes, stop: bytes | None, reverse: bool
) -> None:
    """Rows written between two slices show up in the second, in their place."""
    buffer = WriteBuffer()
    for rows in steps:
        buffer.rows.update(rows)
        chosen = [key for key in buffer.rows if start <= key and (stop is None or key < stop)]
        expected = [(key, buffer.rows[key]) for key in sorted(chosen)]

        sliced = buffer.slice(start, stop, reverse=reverse)

        assert sliced == (expected[::-1] if reverse else expected)


@pytest.mark.spec("COM-11")
@given(stored=st.dictionaries(KEYS, st.binary(max_size=2), max_size=20), overlay=ROWS)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_merge_is_what_the_commit_will_leave(
    stored: dict[bytes, bytes], overlay: dict[bytes, bytes | None], *, reverse: bool
) -> None:
    """The merge of stored rows and overlay equals the rows after the overlay is applied."""
    rows = merge(
        iter(sorted(stored.items(), reverse=reverse)),
        sorted(overlay.items(), key=lambda row: row[0], reverse=reverse),
        reverse=reverse,
    )

    applied: dict[bytes, bytes | None] = {**stored, **overlay}
    expected = {key: value for key, value in applied.items() if value is not None}
    assert list(rows) == sorted(expected.items(), reverse=reverse)
