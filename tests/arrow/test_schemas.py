"""Rows as Arrow columns."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statestores.arrow.schemas import (
    KEY_VALUE_ROWS,
    VERSIONED_ROWS,
    changes_from_rows,
    end_validity,
    first_disorder,
    row_schema,
    rows_from_changes,
    valid_at,
)
from statestores.errors import InvalidArgumentError, UnsupportedFormatError
from statestores.spi import Changes
from statestores_conformance.many_cases import for_each

_VERSIONS = st.lists(
    st.tuples(st.binary(max_size=3), st.integers(0, 50), st.none() | st.binary(max_size=3)),
    unique_by=lambda version: (version[0], version[1]),
).map(lambda versions: sorted(versions, key=lambda version: version[:2]))


def _changes(versions: list[tuple[bytes, int, bytes | None]]) -> Changes:
    return Changes(
        [key for key, _, _ in versions],
        [value for _, _, value in versions],
        [start for _, start, _ in versions],
    )


@pytest.mark.spec("SNP-9")
def test_key_value_changes_survive_the_way_to_arrow_and_back() -> None:
    """Keys and values are bytes, empty ones too."""
    changes = Changes([b"", b"a", b"a\x00"], [b"", b"\xff", b"1"])

    rows = rows_from_changes("key-value", changes)

    assert rows.schema.equals(KEY_VALUE_ROWS)
    assert changes_from_rows(rows) == changes


@pytest.mark.spec("SNP-9")
@given(_VERSIONS)
def test_versions_survive_the_way_to_arrow_and_back(
    versions: list[tuple[bytes, int, bytes | None]],
) -> None:
    """Keys, values with deletions, and times."""
    rows = rows_from_changes("versioned", _changes(versions))

    assert rows.schema.equals(VERSIONED_ROWS)
    assert changes_from_rows(rows) == _changes(versions)


@pytest.mark.spec("SNP-9")
@given(_VERSIONS, st.data())
def test_ends_follow_from_the_next_row_wherever_batches_are_cut(
    versions: list[tuple[bytes, int, bytes | None]], data: st.DataObject
) -> None:
    """A version ends where the next row of its key starts, also in the next batch."""
    cut = data.draw(st.integers(0, len(versions)))
    head = rows_from_changes("versioned", _changes(versions[:cut]))
    tail = rows_from_changes("versioned", _changes(versions[cut:]))
    expected = [
        following[1] if following[0] == version[0] else None
        for version, following in zip(versions, [*versions[1:], (b"none", 0, None)], strict=False)
    ]

    ends = end_validity(head, tail).column("valid_to").to_pylist()
    ends += end_validity(tail, None).column("valid_to").to_pylist()

    assert ends == expected


def test_changes_of_another_kind_are_refused() -> None:
    """Times where there are none, none where there are some, and deletions in content."""
    with pytest.raises(
        InvalidArgumentError, match="carry times_ms, and this kind of store has none"
    ):
        rows_from_changes("key-value", Changes([b"a"], [b"1"], [1]))
    with pytest.raises(InvalidArgumentError, match="carry no times"):
        rows_from_changes("versioned", Changes([b"a"], [b"1"]))
    with pytest.raises(InvalidArgumentError, match="delete a key"):
        rows_from_changes("key-value", Changes([b"a"], [None]))


def test_values_that_are_not_bytes_are_refused() -> None:
    """Arrow's own complaint becomes ours."""
    wrong: Any = [1]
    with pytest.raises(InvalidArgumentError, match="not binary"):
        rows_from_changes("key-value", Changes(wrong, [b"1"]))


def test_an_unknown_kind_is_refused() -> None:
    """A newer release may know it."""
    with pytest.raises(UnsupportedFormatError, match="'graph'"):
        row_schema("graph")


@pytest.mark.spec("VRS-9", "VRS-11")
@for_each(
    ("as_of_ms", "horizon_ms", "expected"),
    [
        (None, 0, [b"a2", b"c"]),
        (9, 0, []),
        (10, 0, [b"a1"]),
        (19, 0, [b"a1"]),
        (20, 0, [b"a2", b"b"]),
        (30, 0, [b"a2"]),
        (45, 0, [b"a2", b"c"]),
        (19, 25, []),
        (24, 25, [b"a2"]),
        (25, 25, [b"a2", b"b"]),
    ],
)
def test_rows_valid_at_a_time(as_of_ms: int | None, horizon_ms: int, expected: list[bytes]) -> None:
    """Start inclusive, end exclusive, no deletions, and below the horizon latest ones only."""
    rows = rows_from_changes(
        "versioned",
        Changes(
            [b"a", b"a", b"b", b"b", b"c"],
            [b"a1", b"a2", b"b", None, b"c"],
            [10, 20, 20, 30, 40],
        ),
    )

    assert valid_at(rows, as_of_ms, horizon_ms).column("value").to_pylist() == expected


@for_each(
    ("keys", "times", "expected"),
    [
        ([], [], None),
        ([b"b"], [5], None),
        ([b"a"], [5], 0),
        ([b"a\xff"], [9], None),
        ([b"a"], [11], None),
        ([b"a"], [10], 0),
        ([b"b", b"b", b"b"], [1, 2, 2], 2),
        ([b"b", b"\xff", b"\x7f"], [1, 2, 3], 2),
    ],
)
def test_the_first_row_out_of_order_is_found(
    keys: list[bytes], times: list[int], expected: int | None
) -> None:
    """Bytes are unsigned, times ascend within a key, and the batch before counts."""
    previous = rows_from_changes("versioned", Changes([b"a"], [b"1"], [10]))
    rows = rows_from_changes("versioned", Changes(keys, [b"1"] * len(keys), times))

    assert first_disorder(rows, previous) == expected


def test_rows_of_a_slice_end_as_rows_of_a_copy() -> None:
    """Arrow's slices share buffers with an offset; the ends must not depend on it."""
    whole = rows_from_changes("versioned", Changes([b"a", b"b", b"b"], [b"1"] * 3, [1, 2, 3]))
    part = whole.slice(1)

    assert end_validity(part, None).column("valid_to").to_pylist() == [3, None]
    assert isinstance(part, pa.RecordBatch)
