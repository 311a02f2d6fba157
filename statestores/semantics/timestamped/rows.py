"""The rows of a timestamped key-value store: a timestamp in front of the value (TKV-7)."""

from collections.abc import Iterator
from struct import Struct

from statestores.spi.records import TimestampedValue

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
            yield key[1:], TimestampedValue(row[HEADER_BYTES:], None)
        elif timestamp > horizon_ms:
            yield key[1:], TimestampedValue(row[HEADER_BYTES:], timestamp)
