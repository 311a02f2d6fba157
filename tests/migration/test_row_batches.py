"""Rows of another program become batches that are small, whatever is in them."""

import pyarrow as pa
import pytest

from statestores.arrow.row_batches import BATCH_BYTES
from statestores.migration.partition_import import in_order
from statestores.migration.peers.source import PEER_ROW_SCHEMAS
from statestores.migration.row_batches import BATCH_ROWS, as_batches
from statestores.spi.kinds import KEY_VALUE, WINDOW

MIB = 1 << 20


@pytest.mark.spec("MIG-11", "MIG-16")
def test_rows_of_more_than_two_gibibytes_are_read() -> None:
    """A batch had 16,384 rows, and a column of more than 2 GiB was a `TypeError` of Arrow's.

    That is what values of 130 KB each come to, and the import of such a store ended with a
    traceback. A batch ends with its bytes, too.
    """
    value = bytes(128 * MIB)
    rows = ((b"%02d" % number, value) for number in range(17))

    lengths = [batch.num_rows for batch in as_batches(rows, PEER_ROW_SCHEMAS[KEY_VALUE])]

    assert lengths == [1] * 17


def test_small_rows_share_a_batch() -> None:
    """What ends a batch is its rows or its bytes, whichever comes first; nulls have none."""
    schema = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("time", pa.int64())])
    small = [(b"k", None, 1)] * (BATCH_ROWS + 1)
    large = [(b"k", bytes(BATCH_BYTES // 2), 1)] * 3

    assert [batch.num_rows for batch in as_batches(small, schema)] == [BATCH_ROWS, 1]
    assert [batch.num_rows for batch in as_batches(large, schema)] == [2, 1]


@pytest.mark.spec("MIG-14", "MIG-17")
def test_rows_in_their_order_are_put_by_bytes_as_well() -> None:
    """One commit, a frame of the changelog, had 16,384 rows however large they were."""
    schema = PEER_ROW_SCHEMAS[WINDOW]
    value = bytes(3 * MIB)
    starts = [7, 3, 9, 1, 8, 2, 6, 0, 5, 4]
    batches = list(as_batches([(b"k", each, 0, value) for each in starts], schema))

    tables = list(in_order(WINDOW, schema, batches))

    assert [time for table in tables for time in table["window_start"].to_pylist()] == list(
        range(10)
    )
    assert {table.schema for table in tables} == {schema}
    assert all(table.nbytes <= BATCH_BYTES for table in tables)


@pytest.mark.soak
@pytest.mark.spec("MIG-14", "MIG-17")
def test_windows_of_more_than_two_gibibytes_are_sorted() -> None:
    """`take` of a table with more in a column raised `ArrowInvalid`, also for a few rows of it."""
    schema = PEER_ROW_SCHEMAS[WINDOW]
    [batch] = as_batches([(b"k", each, 0, bytes(MIB)) for each in range(10)], schema)

    rows = sum(table.num_rows for table in in_order(WINDOW, schema, [batch] * 210))

    assert rows == 2_100
