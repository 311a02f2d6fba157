"""Content in batches of even size."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statestores.arrow.row_batches import batches_from_changes
from statestores.arrow.schemas import rows_from_changes
from statestores.spi import Changes


def _chunks(sizes: list[int]) -> list[Changes]:
    """Return consecutive content in chunks of *sizes*, three versions for each key."""
    rows = [(b"key-%05d" % (row // 3), b"%d" % row, row) for row in range(sum(sizes))]
    chunks = []
    for size in sizes:
        chunk, rows = rows[:size], rows[size:]
        chunks.append(Changes([r[0] for r in chunk], [r[1] for r in chunk], [r[2] for r in chunk]))
    return chunks


@pytest.mark.spec("SNP-9")
@given(st.lists(st.integers(0, 40), max_size=8), st.integers(1, 30))
def test_batches_do_not_depend_on_chunks(sizes: list[int], batch_rows: int) -> None:
    """All batches but the last are full, and the rows with their ends are those of one chunk."""
    whole = rows_from_changes("versioned", _chunks([sum(sizes)])[0])

    batches = list(batches_from_changes("versioned", _chunks(sizes), batch_rows=batch_rows))

    assert all(batch.num_rows == batch_rows for batch in batches[:-1])
    joined = pa.Table.from_batches(batches, schema=whole.schema)
    assert joined.equals(pa.Table.from_batches([whole]))


@pytest.mark.spec("SNP-16")
def test_large_values_make_small_batches() -> None:
    """Memory is bounded by bytes as well as by rows, and no row is too large."""
    chunk = Changes([b"%d" % row for row in range(8)], [b"x" * 1_000] * 8)

    batches = list(batches_from_changes("key-value", [chunk], batch_bytes=2_100))
    single = list(batches_from_changes("key-value", [chunk], batch_bytes=1))

    assert [batch.num_rows for batch in batches] == [2, 2, 2, 2]
    assert [batch.num_rows for batch in single] == [1] * 8


@pytest.mark.spec("SNP-16")
def test_a_batch_may_be_as_large_as_is_said() -> None:
    """Not cut because it fills it to the byte."""
    chunk = Changes([b"a", b"b"], [b"x", b"y"])
    (whole,) = batches_from_changes("key-value", [chunk])
    size = whole.nbytes

    for batch_bytes, rows in ((size, [2]), (size - 1, [1, 1])):
        batches = batches_from_changes("key-value", [chunk], batch_bytes=batch_bytes)
        assert [batch.num_rows for batch in batches] == rows


def test_no_rows_make_no_batches() -> None:
    """Neither no chunks nor empty ones."""
    assert list(batches_from_changes("key-value", [])) == []
    assert list(batches_from_changes("key-value", [Changes([], [])])) == []
