"""Rows of key-value, window and session stores from the bytes that Kafka Streams keeps of them.

All integers are big-endian. A window's key is followed by its start (8 bytes) and a sequence number
(4), a session's by its end and its start (8 each); so both are taken apart from the right.
"""

import struct
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from statestores.errors import StoreCorruptedError, UnsupportedFormatError
from statestores.migration.kafka.database import KafkaDatabase
from statestores.migration.kafka.kinds import KafkaKind

Pair: TypeAlias = tuple[bytes, bytes]
Row: TypeAlias = tuple[Any, ...]

PLAIN_FAMILY = "default"
TIMESTAMPED_FAMILY = "keyValueWithTimestamp"
OFFSETS_FAMILY = "offsets"
KNOWN_FAMILIES = frozenset({PLAIN_FAMILY, TIMESTAMPED_FAMILY, OFFSETS_FAMILY})
"""Column families up to Kafka Streams 4.3, those of records with headers excepted."""

BASE_ROW = 0
INDEX_ROW = 1
"""First bytes of the two rows of a store that is sorted by time."""

TIME = struct.Struct(">q")
SEQUENCE = struct.Struct(">i")
WINDOW_TAIL = struct.Struct(">qi")
SESSION_TAIL = struct.Struct(">qq")

_UNKNOWN_TIMESTAMP = -1


def decoded_rows(database: KafkaDatabase, path: Path, kind: KafkaKind) -> Iterator[Row]:
    """Yield the rows of the *database* at *path*, with the columns of *kind*; not of versions.

    Raises:
        StoreCorruptedError: A row cannot be one of *kind*, or the files are damaged.
    """
    if kind is KafkaKind.KEY_VALUE:
        return database.rows()
    if kind is KafkaKind.TIMESTAMPED_KEY_VALUE:
        return _with_timestamps(database, path)
    if kind is KafkaKind.WINDOW:
        return _windows(database.rows(), path)
    if kind is KafkaKind.TIMESTAMPED_WINDOW:
        return _timestamped_windows(database, path)
    if kind is KafkaKind.SESSION:
        return _sessions(database.rows(), path)
    if kind is KafkaKind.TIME_FIRST_WINDOW:
        return _time_first_windows(database.rows(), path)
    return _time_first_sessions(database.rows(), path)


def check_families(database: KafkaDatabase, path: Path) -> None:
    """Accept a database that has no column families but the known ones.

    Raises:
        UnsupportedFormatError: A newer version has written it, or records with headers.
    """
    unknown = sorted(set(database.families) - KNOWN_FAMILIES)
    if unknown:
        raise UnsupportedFormatError(
            f"the database in {str(path)!r} has the column families {unknown}, which this release "
            "does not know: a newer version of Kafka Streams wrote it, or a store of records with "
            "headers; upgrade statestores"
        )


def _with_timestamps(
    database: KafkaDatabase, path: Path
) -> Iterator[tuple[bytes, bytes, int | None]]:
    """Yield key, value and timestamp, by key.

    A store that was upgraded has rows without timestamps in the plain family until they are read
    or written again. A row in the family with timestamps is the newer one.
    """
    if TIMESTAMPED_FAMILY not in database.families:
        raise StoreCorruptedError(
            f"the database in {str(path)!r} has no column family {TIMESTAMPED_FAMILY!r}, so its "
            "store has no timestamps; pass another kind"
        )
    newer = ((key, 0, value) for key, value in database.rows(TIMESTAMPED_FAMILY))
    older = ((key, 1, value) for key, value in database.rows(PLAIN_FAMILY))
    for key, rows in groupby(merge(newer, older, key=itemgetter(0, 1)), key=itemgetter(0)):
        _, is_older, value = next(rows)
        if is_older:
            yield key, value, None
        else:
            yield key, *_split_timestamp(key, value, path)


def _split_timestamp(key: bytes, stored: bytes, path: Path) -> tuple[bytes, int | None]:
    if len(stored) < TIME.size:
        refuse(path, key, f"a value of {len(stored)} bytes is too short for a timestamp")
    (timestamp,) = TIME.unpack_from(stored)
    if timestamp < _UNKNOWN_TIMESTAMP:
        refuse(path, key, f"{timestamp} is no timestamp")
    return stored[TIME.size :], None if timestamp == _UNKNOWN_TIMESTAMP else timestamp


def _windows(rows: Iterable[Pair], path: Path) -> Iterator[Row]:
    for stored, value in rows:
        yield *_split_window(stored, path), value


def _timestamped_windows(database: KafkaDatabase, path: Path) -> Iterator[Row]:
    for stored, value, timestamp in _with_timestamps(database, path):
        yield *_split_window(stored, path), value, timestamp


def _split_window(stored: bytes, path: Path) -> tuple[bytes, int, int]:
    """Return key, start and sequence number."""
    if len(stored) < WINDOW_TAIL.size:
        refuse(path, stored, "it is too short for a window's key")
    start, sequence = WINDOW_TAIL.unpack_from(stored, len(stored) - WINDOW_TAIL.size)
    if start < 0 or sequence < 0:
        refuse(path, stored, "it is not a window's key")
    return stored[: -WINDOW_TAIL.size], start, sequence


def _sessions(rows: Iterable[Pair], path: Path) -> Iterator[Row]:
    for stored, value in rows:
        if len(stored) < SESSION_TAIL.size:
            refuse(path, stored, "it is too short for a session's key")
        end, start = SESSION_TAIL.unpack_from(stored, len(stored) - SESSION_TAIL.size)
        if not 0 <= start <= end:
            refuse(path, stored, "it is not a session's key")
        yield stored[: -SESSION_TAIL.size], start, end, value


def _time_first_windows(rows: Iterable[Pair], path: Path) -> Iterator[Row]:
    for stored, value in _base_rows(rows, path):
        if len(stored) < 1 + WINDOW_TAIL.size:
            refuse(path, stored, "it is too short for a window's key")
        (start,) = TIME.unpack_from(stored, 1)
        (sequence,) = SEQUENCE.unpack_from(stored, len(stored) - SEQUENCE.size)
        if start < 0 or sequence < 0:
            refuse(path, stored, "it is not a window's key")
        key = stored[1 + TIME.size : -SEQUENCE.size]
        bare, timestamp = _split_timestamp(stored, value, path)
        yield key, start, sequence, bare, timestamp


def _time_first_sessions(rows: Iterable[Pair], path: Path) -> Iterator[Row]:
    for stored, value in _base_rows(rows, path):
        if len(stored) < 1 + SESSION_TAIL.size:
            refuse(path, stored, "it is too short for a session's key")
        end, start = SESSION_TAIL.unpack_from(stored, 1)
        if not 0 <= start <= end:
            refuse(path, stored, "it is not a session's key")
        yield stored[1 + SESSION_TAIL.size :], start, end, value


def _base_rows(rows: Iterable[Pair], path: Path) -> Iterator[Pair]:
    """Yield the rows that carry data. An index row without one is left over from a crash."""
    for stored, value in rows:
        if stored[:1] == bytes([BASE_ROW]):
            yield stored, value
        elif stored[:1] != bytes([INDEX_ROW]):
            refuse(path, stored, "it is neither a row nor an index row of a store sorted by time")


def refuse(path: Path, key: bytes, problem: str) -> NoReturn:
    """Raise that the row *key* in the database at *path* is not what it should be."""
    shown = key if len(key) <= 64 else key[:64] + b"..."  # noqa: PLR2004  # for people
    raise StoreCorruptedError(
        f"the row {shown!r} in {str(path)!r} does not fit the store's kind: {problem}; pass "
        "another kind, or let Kafka Streams restore the store"
    )
