"""Pending versions become rows: who is the latest, who is superseded, and until when (LAY-7).

Puts are blind, and this is where they meet what is stored: one `get_many` of the latest rows for
all keys of a commit. A version above the stored latest, the common case, needs no more. A late one
needs a seek for its neighbours.
"""

from collections.abc import Mapping
from itertools import pairwise

from statestores.semantics.arguments import MAX_TIME_MS
from statestores.semantics.escaped_keys import escape
from statestores.semantics.layout import DATA, HISTORY
from statestores.semantics.progress import Progress
from statestores.semantics.versioned_rows import (
    DELETED,
    HEADER_BYTES,
    Version,
    history_bounds,
    history_from,
    history_key,
    history_row,
    latest_row,
    pack_header,
    pack_suffix,
    read_history,
    read_latest,
    start_of,
    unpack_header,
)
from statestores.spi.engine import EngineReader

Rows = dict[bytes, bytes | None]


def resolve(
    reader: EngineReader,
    pending: Mapping[bytes, Mapping[int, bytes | None]],
    progress: Progress,
    horizon_ms: int,
) -> Rows:
    """Return the rows that *pending* changes, and lower the floor of *progress* by them.

    A version that has expired already, *horizon_ms* being as it will be, is not written.
    """
    rows: Rows = {}
    keys = list(pending)
    stored = reader.get_many([DATA + key for key in keys])
    floor = MAX_TIME_MS
    for key, row in zip(keys, stored, strict=True):
        versions = pending[key]
        if len(versions) == 1:
            ((start, value),) = versions.items()
            if row is not None:
                header: int = unpack_header(row)[0]
                stored_start = header & ~DELETED
                if start <= stored_start:
                    floor = min(floor, _resolve_late(reader, rows, key, versions, row, horizon_ms))
                    continue
                # The stored latest is superseded: the same bytes under another header.
                if start > horizon_ms:
                    superseded = HISTORY + escape(key) + pack_suffix(0, MAX_TIME_MS - stored_start)
                    rows[superseded] = pack_header(header & DELETED | start) + row[HEADER_BYTES:]
                    floor = min(floor, start)
                elif header >= DELETED:
                    rows[history_key(key, stored_start)] = None
            if value is None:
                floor = min(floor, _put_deletion(rows, key, start))
            else:
                rows[DATA + key] = pack_header(start) + value
        elif row is None or min(versions) > unpack_header(row)[0] & ~DELETED:
            floor = min(floor, _resolve_newer(rows, key, versions, row, horizon_ms))
        else:
            floor = min(floor, _resolve_late(reader, rows, key, versions, row, horizon_ms))
    progress.lower(floor)
    return rows


def _put_deletion(rows: Rows, key: bytes, start_ms: int) -> int:
    """Make a deletion the latest of *key*, with its marker; return the end of the marker."""
    rows[DATA + key] = latest_row(start_ms, None)
    rows[history_key(key, start_ms)] = history_row(start_ms, None)
    return start_ms


def _put_chain(
    rows: Rows, key: bytes, chain: list[tuple[int, bytes | None]], horizon_ms: int
) -> int:
    """Write versions of *key* of which the last is the latest; return the lowest end."""
    floor = MAX_TIME_MS
    for (start, value), (end, _) in pairwise(chain):
        if end > horizon_ms:
            rows[history_key(key, start)] = history_row(end, value)
            floor = min(floor, end)
        else:
            # It may be stored: a deletion's marker, or a version that this commit replaces.
            rows[history_key(key, start)] = None
    start, value = chain[-1]
    if value is None:
        return min(floor, _put_deletion(rows, key, start))
    rows[DATA + key] = latest_row(start, value)
    return floor


def _resolve_newer(
    rows: Rows,
    key: bytes,
    versions: Mapping[int, bytes | None],
    row: bytes | None,
    horizon_ms: int,
) -> int:
    """Write *versions*, all of them above the stored latest; return the lowest end."""
    chain = sorted(versions.items())
    if row is not None:
        latest = read_latest(row)
        chain.insert(0, (latest.valid_from_ms, latest.value))
    return _put_chain(rows, key, chain, horizon_ms)


def _resolve_late(
    reader: EngineReader,
    rows: Rows,
    key: bytes,
    versions: Mapping[int, bytes | None],
    row: bytes,
    horizon_ms: int,
) -> int:
    """Write *versions*, some of them up to the stored latest; return the lowest end."""
    latest = read_latest(row)
    newest = latest.valid_from_ms
    starts = sorted(versions)
    floor = MAX_TIME_MS
    for index, start in enumerate(starts):
        if start >= newest:
            break
        following = starts[index + 1] if index + 1 < len(starts) else newest
        previous = _stored_up_to(reader, key, start)
        if previous is None or previous.valid_to_ms is None or previous.valid_to_ms <= start:
            end = _stored_after(reader, key, start, newest)
        else:
            end = previous.valid_to_ms
            covered = previous.valid_from_ms < start
            if covered and (index == 0 or starts[index - 1] < previous.valid_from_ms):
                # The stored version before this one now ends where this one starts.
                rows[history_key(key, previous.valid_from_ms)] = history_row(start, previous.value)
                floor = min(floor, start)
        end = min(end, following)
        rows[history_key(key, start)] = history_row(end, versions[start])
        floor = min(floor, end)
    # What is at or above the stored latest makes a chain with it.
    chain = [(start, versions[start]) for start in starts if start >= newest]
    if chain and chain[0][0] == newest and latest.value is None:
        rows[history_key(key, newest)] = None  # the marker of the deletion that is replaced
    if chain:
        if chain[0][0] != newest:
            chain.insert(0, (newest, latest.value))
        floor = min(floor, _put_chain(rows, key, chain, horizon_ms))
    return floor


def _stored_up_to(reader: EngineReader, key: bytes, start_ms: int) -> Version | None:
    """Return the superseded version of *key* with the highest start up to *start_ms*."""
    found = reader.first(*history_from(key, start_ms))
    return None if found is None else read_history(*found)


def _stored_after(reader: EngineReader, key: bytes, start_ms: int, newest_ms: int) -> int:
    """Return the lowest stored start of *key* above *start_ms*, at most *newest_ms*."""
    found = reader.last(history_bounds(key)[0], history_key(key, start_ms))
    return newest_ms if found is None else min(newest_ms, start_of(found[0]))
