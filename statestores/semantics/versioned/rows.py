"""The rows of a versioned store (layout F, spec/08).

The latest version of each key is one row in `DATA`: reading the latest, or as of now, is one get.
The versions that it superseded are rows in `HISTORY`, newest first, so that an as-of read is one
seek. A row's value is a header and the version's value. The header's top bit marks a deletion; the
rest is a time, which fits because times are not negative: when the version starts in a latest row,
when it ended in a history row (its start is in the key).

A *marker* is a history row that repeats a latest deletion, with an end that equals its start. The
vacuum walks only the history, and finds by markers the deletions that have expired.
"""

from struct import Struct
from typing import NamedTuple

from statestores.semantics.every_kind.arguments import MAX_TIME_MS
from statestores.semantics.rows.escaped_keys import escape, unescape
from statestores.semantics.rows.layout import DATA, HISTORY

DELETED = 1 << 63
"""The header's bit for a deletion."""

HEADER_BYTES = 8

_HEADER = Struct(">Q")

pack_header = _HEADER.pack
unpack_header = _HEADER.unpack_from

SUFFIX_BYTES = 10
"""After the key of a history row: its terminator, two zero bytes, and the eight of the inverted
start. As one number of ten bytes they take half the time of a ``Struct``."""


Latest = tuple[int, bytes | None]
"""The latest version of a key: when it starts, and its value, ``None`` for a deletion."""

Waiting = Latest | dict[int, bytes | None]
"""Pending versions of a key: the only one, as most are, or several by their starts."""


class Version(NamedTuple):
    """A version as it is stored: the value is ``None`` for a deletion."""

    valid_from_ms: int
    value: bytes | None
    valid_to_ms: int | None


def latest_row(valid_from_ms: int, value: bytes | None) -> bytes:
    """Return the row of a latest version."""
    if value is None:
        return pack_header(DELETED | valid_from_ms)
    return pack_header(valid_from_ms) + value


def history_row(valid_to_ms: int, value: bytes | None) -> bytes:
    """Return the row of a superseded version."""
    if value is None:
        return pack_header(DELETED | valid_to_ms)
    return pack_header(valid_to_ms) + value


def history_key(key: bytes, valid_from_ms: int) -> bytes:
    """Return the key of the history row of a version of *key*."""
    return HISTORY + escape(key) + (MAX_TIME_MS - valid_from_ms).to_bytes(SUFFIX_BYTES)


def history_bounds(key: bytes) -> tuple[bytes, bytes]:
    """Return the half-open bounds of the history rows of *key*, newest first."""
    prefix = HISTORY + escape(key)
    return prefix + b"\x00\x00", prefix + b"\x00\x01"


def history_from(key: bytes, as_of_ms: int) -> tuple[bytes, bytes]:
    """Return the half-open bounds of the history rows of *key* that start up to *as_of_ms*."""
    prefix = HISTORY + escape(key)
    return prefix + (MAX_TIME_MS - as_of_ms).to_bytes(SUFFIX_BYTES), prefix + b"\x00\x01"


def versions_of(waiting: Waiting) -> dict[int, bytes | None]:
    """Return pending versions by their starts."""
    return waiting if isinstance(waiting, dict) else {waiting[0]: waiting[1]}


def with_version(waiting: Waiting, start_ms: int, value: bytes | None) -> Waiting:
    """Return *waiting*, which may be changed by it, with one more version, or another value."""
    if isinstance(waiting, dict):
        waiting[start_ms] = value
        return waiting
    start, before = waiting
    return (start_ms, value) if start == start_ms else {start: before, start_ms: value}


def latest_of(row: bytes | None) -> Latest | None:
    """Return the latest version that *row* holds, if there is one."""
    if row is None:
        return None
    header: int = unpack_header(row)[0]
    return (header, row[HEADER_BYTES:]) if header < DELETED else (header - DELETED, None)


def read_latest(row: bytes) -> Version:
    """Return the latest version that *row* holds."""
    header: int = unpack_header(row)[0]
    if header >= DELETED:
        return Version(header - DELETED, None, None)
    return Version(header, row[HEADER_BYTES:], None)


def read_history(row_key: bytes, row: bytes) -> Version:
    """Return the superseded version, or the marker, of a history row."""
    header: int = unpack_header(row)[0]
    start = start_of(row_key)
    if header >= DELETED:
        return Version(start, None, header - DELETED)
    return Version(start, row[HEADER_BYTES:], header)


def start_of(row_key: bytes) -> int:
    """Return when the version of a history row starts."""
    return MAX_TIME_MS - int.from_bytes(row_key[-8:], "big")


def key_of(row_key: bytes) -> bytes:
    """Return the key of a history row."""
    return unescape(row_key[1:-SUFFIX_BYTES])


def data_key(key: bytes) -> bytes:
    """Return the key of the row of the latest version of *key*."""
    return DATA + key
