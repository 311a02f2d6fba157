"""Columns that become rows at once, by the row that each of them would become."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import statestores as ss
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.retained.rows import RetainedRows

_keys = st.sampled_from([b"", b"\x00", b"a", b"a\x00\xff", b"k" * 300]) | st.binary(max_size=4)
_times = st.sampled_from([0, 1, 2, (1 << 63) - 1])
_rows = st.lists(st.tuples(_keys, _times, _times), max_size=5)
_stamped = st.lists(st.tuples(_keys, st.none() | _keys, st.none() | st.integers(0, 5)), max_size=6)


@pytest.mark.spec("LAY-20")
@given(rows=_rows, has_number=st.booleans())
def test_many_rows_lie_where_each_one_does(
    rows: list[tuple[bytes, int, int]], *, has_number: bool
) -> None:
    """With a number after the time, or without."""
    of = RetainedRows(has_number=has_number)
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]

    assert of.data_keys(*columns) == [of.data_key(*row) for row in rows]


@pytest.mark.spec("KVS-3", "TKV-5")
@given(rows=_stamped)
@example(rows=[(b"a", b"v", 5), (b"b", None, 9)])  # the highest time is that of a deletion
def test_many_values_are_stamped_as_each_one(
    rows: Sequence[tuple[bytes, bytes | None, int | None]],
) -> None:
    """Deletions among them, with a timestamp that moves no time, or without any."""
    given_rows = [row for row in rows if row[1] is None or row[2] is not None]
    specification = ss.TimestampedKeyValue("s")
    stores = [open_on_engine(load_backend("memory").open("unused"), specification) for _ in "ab"]
    columns = [list(column) for column in zip(*given_rows, strict=True)] or [[], [], []]
    stores[0].put_many(*columns)
    for key, value, time_ms in given_rows:
        stores[1].put(key, value, time_ms)
    found = [
        (store.stream_time_ms, store.uncommitted_bytes, store.pending_changes()) for store in stores
    ]

    assert found[0] == found[1]
