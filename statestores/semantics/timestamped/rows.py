"""The rows of a timestamped key-value store: a timestamp in front of the value (TKV-7).

Many rows are packed and unpacked without a call of Python's for each: of a batch, that is half of
what its store takes.
"""

import sys
from array import array
from collections.abc import Iterator
from itertools import repeat
from operator import add
from struct import Struct, error

from statestores.spi.records import TimestampedValue, new_tuple

HEADER_BYTES = 8
"""The length of the timestamp in front of each value."""

NO_TIMESTAMP = -1
"""The stored form of no timestamp."""

_HEADER = Struct(">q")

pack_timestamp = _HEADER.pack
"""Return the stored form of a timestamp."""

unpack_timestamp = _HEADER.unpack_from
"""Return a tuple of the timestamp with which a row begins."""


def stamped_row(value: bytes, timestamp_ms: int | None) -> bytes:
    """Return the row of a value."""
    return pack_timestamp(NO_TIMESTAMP if timestamp_ms is None else timestamp_ms) + value


def stamped_rows(values: list[bytes | None], timestamps_ms: list[int | None]) -> list[bytes | None]:
    """Return the rows of *values*; ``None`` where there is no value."""
    try:  # looking for `None` first takes half as long as all of this
        return list(map(add, map(pack_timestamp, timestamps_ms), values))
    except (error, TypeError):
        return [
            None if value is None else stamped_row(value, time_ms)
            for value, time_ms in zip(values, timestamps_ms, strict=True)
        ]


def timestamps_of(rows: list[bytes]) -> list[int | None]:
    """Return the timestamp of each row."""
    numbers = array("q", b"".join([row[:HEADER_BYTES] for row in rows]))
    if sys.byteorder == "little":
        numbers.byteswap()
    timestamps: list[int | None] = numbers.tolist()  # type: ignore[assignment]  # none is None yet
    if min(numbers, default=0) < 0:
        return [None if number < 0 else number for number in numbers]
    return timestamps


_NO_ROW = pack_timestamp(NO_TIMESTAMP)


def stamped_columns(
    rows: list[bytes | None],
) -> tuple[list[bytes | None], list[int | None]]:
    """Return the values of *rows* and their timestamps; ``None`` where there is none."""
    values = [None if row is None else row[HEADER_BYTES:] for row in rows]
    return values, timestamps_of([_NO_ROW if row is None else row for row in rows])


def stamped_values(rows: list[bytes | None]) -> list[TimestampedValue[bytes] | None]:
    """Return what each row holds; ``None`` where there is none."""
    values, timestamps = stamped_columns(rows)
    parts = zip(values, timestamps, strict=True)
    if None in values:
        return [None if each[0] is None else new_tuple(TimestampedValue, each) for each in parts]
    return list(map(new_tuple, repeat(TimestampedValue), parts))


def stamped_value(row: bytes) -> TimestampedValue[bytes]:
    """Return what a row holds."""
    timestamp: int = unpack_timestamp(row)[0]
    return TimestampedValue(row[HEADER_BYTES:], None if timestamp < 0 else timestamp)


def living(row: bytes | None, horizon_ms: int) -> TimestampedValue[bytes] | None:
    """Return what a row holds unless it has expired: its timestamp is up to *horizon_ms*."""
    if row is None or 0 <= unpack_timestamp(row)[0] <= horizon_ms:
        return None
    return stamped_value(row)


def living_pairs(
    rows: Iterator[tuple[bytes, bytes]], horizon_ms: int
) -> Iterator[tuple[bytes, TimestampedValue[bytes]]]:
    """Turn rows into pairs of key and value, without those that have expired."""
    for key, row in rows:
        timestamp: int = unpack_timestamp(row)[0]
        if timestamp < 0:
            yield key[1:], new_tuple(TimestampedValue, (row[HEADER_BYTES:], None))
        elif timestamp > horizon_ms:
            yield key[1:], new_tuple(TimestampedValue, (row[HEADER_BYTES:], timestamp))
