"""Records as the rows of a log, and back (PRC-48)."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat

import pyarrow as pa

from statestores.changelog import Frame
from statestores.changelog.rows import RECORD_ROWS
from statestores.errors import InvalidArgumentError
from statestores.processing.record import Headers, RawRecord, Record, RecordFields
from statestores.processing.serdes import Pieces, header_bytes, next_header


def record_batch(
    records: Sequence[RecordFields],
) -> pa.RecordBatch:
    """Return *records*, or the fields of such, as columns.

    Raises:
        InvalidArgumentError: A record is none that a topic can hold.
    """
    keys, values, times, headers = zip(*records, strict=True) if records else ((), (), (), ())
    packed = [header_bytes(each) if each else None for each in headers] if any(headers) else None
    try:
        columns = [
            pa.nulls(len(records), field.type) if column is None else pa.array(column, field.type)
            for column, field in zip((keys, values, times, packed), RECORD_ROWS, strict=True)
        ]
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise InvalidArgumentError(
            f"a record of a topic has bytes or None as key and value, and an int of 64 bits as "
            f"time: {error}"
        ) from error
    return pa.RecordBatch.from_arrays(columns, schema=RECORD_ROWS)


def records_of(frame: Frame) -> Iterator[tuple[int, RawRecord]]:
    """Iterate over the records of *frame*, each with its offset."""
    return zip(frame.offsets, batch_records(frame.batch), strict=True)


def batch_records(batch: pa.RecordBatch) -> Iterator[RawRecord]:
    """Iterate over the records of *batch*, which has the columns of `RECORD_ROWS`."""
    return map(Record._make, fields_of(batch))


def fields_of(
    batch: pa.RecordBatch,
) -> Iterator[RecordFields]:
    """Iterate over the fields of the records of *batch*, which are not made for it."""
    keys, values, times = (column.to_pylist() for column in batch.columns[:3])
    return zip(keys, values, times, headers_of(batch.column(3), batch.num_rows), strict=False)


def headers_of(packed: pa.Array | None, count: int) -> Iterable[Headers]:
    """Return the headers of *count* records; ``None`` stands for no headers at all."""
    if packed is None or packed.null_count == count:
        return repeat((), count)
    return [() if each is None else _unpacked(each) for each in packed.to_pylist()]


def _unpacked(data: bytes) -> Headers:
    pieces = Pieces(data)
    found = []
    while pieces.at < len(data):
        found.append(next_header(pieces))
    return tuple(found)
