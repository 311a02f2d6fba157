"""Versions from the rows of a versioned store of Kafka Streams (KIP-889).

The database has a *latest* row for each key that has a value, and *history* rows by segment: all
versions of a key that ended within one span of time, newest first, in one row. The versions of a
key are therefore spread over the database, and gathered here by merging its segments.
"""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TypeAlias

from statestores.migration.kafka.database import KafkaDatabase
from statestores.migration.kafka.rows import Row, refuse

LATEST = b"\xff" * 8
"""The segment of the latest rows: the number -1."""

SEGMENT = struct.Struct(">q")
_HEAD = struct.Struct(">qq")
_ENTRY = struct.Struct(">qi")
_TOMBSTONE = -1

_Version: TypeAlias = tuple[int, int | None, bytes | None]
"""Start, end and value."""

_MAX_SEGMENT = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """The versions of one key that ended within one segment."""

    next_ms: int
    """Where the newest of them ends; equal to its start for a lone deletion."""

    versions: tuple[tuple[int, bytes | None], ...]
    """Starts and values, newest first; ``None`` is a deletion."""


def parse_history(stored: bytes) -> HistoryRow | None:
    """Return what a history row's value says; ``None`` when it cannot be one."""
    if len(stored) < _HEAD.size + _ENTRY.size:
        return None
    next_ms, oldest_ms = _HEAD.unpack_from(stored)
    entries: list[tuple[int, int]] = []
    at = _HEAD.size
    upper = next_ms
    while True:
        if at + _ENTRY.size > len(stored):
            return None
        start_ms, size = _ENTRY.unpack_from(stored, at)
        at += _ENTRY.size
        is_lone_deletion = not entries and start_ms == next_ms == oldest_ms and size == _TOMBSTONE
        if start_ms < oldest_ms or size < _TOMBSTONE or oldest_ms < 0:
            return None
        if start_ms >= upper and not is_lone_deletion:
            return None
        entries.append((start_ms, size))
        upper = start_ms
        if start_ms == oldest_ms:
            break
    versions: list[tuple[int, bytes | None]] = []
    end = len(stored)
    for start_ms, size in entries:  # the newest value is the last one in the row
        if size == _TOMBSTONE:
            versions.append((start_ms, None))
            continue
        if end - size < at:
            return None
        versions.append((start_ms, stored[end - size : end]))
        end -= size
    return HistoryRow(next_ms, tuple(versions)) if end == at else None


def versions_of(database: KafkaDatabase, path: Path) -> Iterator[Row]:
    """Yield key, value, start and end of each version, by key and then by time.

    A deletion has the value ``None``, and one that only the end of a version tells of has a row of
    its own as well.

    Raises:
        StoreCorruptedError: A row cannot be one of a versioned store.
    """
    segments = [LATEST, *reversed(_segments(database, path))]
    streams = [_segment_rows(database, each, rank) for rank, each in enumerate(segments)]
    merged = merge(*streams, key=itemgetter(0, 1))
    for key, rows_of_key in groupby(merged, key=itemgetter(0)):
        yield from _versions(key, rows_of_key, path)


def _segments(database: KafkaDatabase, path: Path) -> list[bytes]:
    """Return the prefixes of the segments that hold history, the earliest first."""
    found: list[bytes] = []
    start = b""
    while True:
        pair = next(iter(database.rows(start=start, stop=LATEST)), None)
        if pair is None:
            return found
        prefix = pair[0][: SEGMENT.size]
        if len(prefix) < SEGMENT.size or SEGMENT.unpack(prefix)[0] < 0:
            refuse(path, pair[0], "it does not begin with the number of a segment")
        found.append(prefix)
        number = SEGMENT.unpack(prefix)[0]
        if number == _MAX_SEGMENT:
            return found
        start = SEGMENT.pack(number + 1)


def _segment_rows(
    database: KafkaDatabase, segment: bytes, rank: int
) -> Iterator[tuple[bytes, int, bytes]]:
    """Yield the rows of one segment without its prefix; a lower *rank* is a later time."""
    stop = None if segment == LATEST else SEGMENT.pack(SEGMENT.unpack(segment)[0] + 1)
    for stored, value in database.rows(start=segment, stop=stop):
        yield stored[SEGMENT.size :], rank, value


def _versions(key: bytes, rows: Iterable[tuple[bytes, int, bytes]], path: Path) -> Iterator[Row]:
    """Yield the versions of one key, whose *rows* come from the latest to the earliest."""
    found: list[_Version] = []
    for _, rank, stored in rows:
        if rank == 0:
            found.append(_latest(key, stored, path))
            continue
        row = parse_history(stored)
        if row is None:
            refuse(path, key, "a row of its history is malformed")
        if not found:
            # Nothing comes after it: the key is deleted where its newest version ends.
            found.append((row.next_ms, None, None))
        _add_history(found, row)
    for start_ms, end_ms, value in reversed(found):
        yield key, value, start_ms, end_ms


def _latest(key: bytes, stored: bytes, path: Path) -> _Version:
    if len(stored) < SEGMENT.size:
        refuse(path, key, "its latest row is too short for a timestamp")
    start_ms: int = SEGMENT.unpack_from(stored)[0]
    if start_ms < 0:
        refuse(path, key, f"its latest version starts at {start_ms}")
    return start_ms, None, stored[SEGMENT.size :]


def _add_history(found: list[_Version], row: HistoryRow) -> None:
    """Add the versions of *row*, all of which are earlier, to those *found* so far."""
    upper = found[-1][0]
    end_ms = row.next_ms
    for start_ms, value in row.versions:
        # What a later row has as well is left over from a crash between two writes.
        if start_ms < upper:
            end_ms = min(end_ms, upper)
            if end_ms < found[-1][0]:
                found.append((end_ms, found[-1][0], None))
            if start_ms < end_ms:  # else a lone deletion, which has just been added
                found.append((start_ms, end_ms, value))
        end_ms = start_ms
