"""Pending versions become rows: which is the latest, which are superseded, and until when (LAY-7).

Puts are blind, and this is where they meet what is stored: the latest rows of all keys of a commit,
from the cache, and in one `get_many` those that are not there. A version above the stored latest,
the common case, needs nothing more: a commit of many of them, and of nothing else, stays columns. A
late one needs a seek for its neighbours.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import cast

from statestores.semantics.every_kind.arguments import MAX_TIME_MS
from statestores.semantics.rows.escaped_keys import escape
from statestores.semantics.rows.layout import DATA, HISTORY
from statestores.semantics.rows.progress import Progress
from statestores.semantics.versioned.following_versions import FollowingVersions
from statestores.semantics.versioned.rows import (
    DELETED,
    HEADER_BYTES,
    SUFFIX_BYTES,
    Latest,
    Waiting,
    data_key,
    history_from,
    history_key,
    history_row,
    latest_of,
    latest_row,
    pack_header,
    start_of,
    unpack_header,
    versions_of,
)
from statestores.semantics.versioned.view import stored_start_before_row
from statestores.spi.engine import EngineReader

Rows = dict[bytes, bytes | None]

COLUMNS_FROM = 256
"""So many keys of a commit are looked at as columns first. Fewer gain nothing by it: they are still
in the processor's cache when their rows are joined."""

_NEVER_MS = -1
"""Before every start."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a commit changes."""

    rows: Rows = field(default_factory=dict)
    """The rows as they lie in the engine."""

    superseded: Rows = field(default_factory=dict)
    """Those of superseded versions, until they are added to the others: so that all of them come
    in the order of their keys, which engines take in two thirds of the time."""

    latest: dict[bytes, Latest | None] = field(default_factory=dict)
    """The latest versions among them, by key: what a cache of these must learn. Of columns they are
    the pending ones themselves, and not to be changed."""

    columns: FollowingVersions | None = None
    """The rows in place of all others, where none is looked up."""


def resolve(
    reader: EngineReader,
    cached: Mapping[bytes, Latest | None],
    pending: Mapping[bytes, Waiting],
    progress: Progress,
    horizon_ms: int,
    *,
    in_columns: bool = False,
) -> Resolved:
    """Return the rows that *pending* changes, and lower the floor of *progress* by them.

    A version that has already expired at the coming *horizon_ms* is not written. *cached* has
    latest versions by key, ``None`` where there is none, and need not have them all. *in_columns*
    says that nobody looks single rows up: then they may be columns.
    """
    keys = sorted(pending)
    stored = _stored_latest(reader, cached, keys)
    if in_columns:
        columns = FollowingVersions.of(keys, pending, stored, horizon_ms)
        if columns is not None:
            progress.lower(columns.floor_ms)
            return Resolved(latest=cast("dict[bytes, Latest | None]", pending), columns=columns)
    resolved = Resolved()
    rows, superseded, latest = resolved.rows, resolved.superseded, resolved.latest
    floor = MAX_TIME_MS
    last_start = last_stored = _NEVER_MS
    header = suffix = b""
    for key, waiting, before in zip(keys, map(pending.__getitem__, keys), stored, strict=True):
        # One value that is above the latest one, if there is any: a call costs a tenth of a put.
        if type(waiting) is tuple and (value := waiting[1]) is not None:
            start = waiting[0]
            if start != last_start:  # most of a commit have few times
                last_start, header = start, start.to_bytes(HEADER_BYTES)
            if before is None:
                rows[DATA + key] = header + value
                latest[key] = waiting
                continue
            stored_start, stored_value = before
            if stored_start < start and start > horizon_ms and stored_value is not None:
                rows[DATA + key] = header + value
                latest[key] = waiting
                # `escape` and `history_key`, written out. The latest one ends where this begins.
                if stored_start != last_stored:
                    last_stored = stored_start
                    suffix = (MAX_TIME_MS - stored_start).to_bytes(SUFFIX_BYTES)
                superseded[HISTORY + key.replace(b"\x00", b"\x00\xff") + suffix] = (
                    header + stored_value
                )
                if start < floor:  # noqa: PLR1730  # likewise
                    floor = start
                continue
        versions = versions_of(waiting)
        floor = min(floor, _resolve_key(reader, resolved, key, versions, before, horizon_ms))
    rows.update(superseded)
    progress.lower(floor)
    return resolved


def _stored_latest(
    reader: EngineReader, cached: Mapping[bytes, Latest | None], keys: list[bytes]
) -> list[Latest | None]:
    """Return the latest version of each of *keys*, from *cached* or else from *reader*."""
    found = list(map(cached.get, keys))
    if None in found:
        places = [
            place for place, key in enumerate(keys) if found[place] is None and key not in cached
        ]
        if places:
            rows = reader.get_many([DATA + keys[place] for place in places])
            for place, row in zip(places, rows, strict=True):
                found[place] = latest_of(row)
    return found


def _resolve_key(
    reader: EngineReader,
    resolved: Resolved,
    key: bytes,
    versions: Mapping[int, bytes | None],
    before: Latest | None,
    horizon_ms: int,
) -> int:
    """Write *versions*, whatever they are; return the lowest end."""
    superseded, floor = resolved.superseded, MAX_TIME_MS
    starts = sorted(versions)
    prefix = HISTORY + escape(key)
    if before is not None:
        stored_start, stored_value = before
        if starts[0] < stored_start:
            late = bisect_left(starts, stored_start)
            floor = _put_late(reader, superseded, key, versions, [*starts[:late], stored_start])
            if late == len(starts):
                return floor
            del starts[:late]
        first = starts[0]
        row_key = prefix + (MAX_TIME_MS - stored_start).to_bytes(SUFFIX_BYTES)
        if first > horizon_ms and first != stored_start:
            superseded[row_key] = history_row(first, stored_value)
            floor = min(floor, first)
        elif stored_value is None:  # its marker has expired, or what it marks is replaced
            superseded[row_key] = None
    return min(floor, _put_chain(resolved, key, prefix, versions, starts, horizon_ms))


def _put_chain(
    resolved: Resolved,
    key: bytes,
    prefix: bytes,
    versions: Mapping[int, bytes | None],
    starts: list[int],
    horizon_ms: int,
) -> int:
    """Write those of *versions* with *starts*, the last of which is the latest of *key*.

    Each ends where the next one starts. *prefix* is that of the key's rows of history. Return the
    lowest end.
    """
    superseded, floor = resolved.superseded, MAX_TIME_MS
    ends = iter(starts)
    start = next(ends)
    value = versions[start]
    for end in ends:
        if end > horizon_ms:  # else it is not written, and the store has no row of it
            row_key = prefix + (MAX_TIME_MS - start).to_bytes(SUFFIX_BYTES)
            if value is None:
                superseded[row_key] = pack_header(DELETED | end)
            else:
                superseded[row_key] = end.to_bytes(HEADER_BYTES) + value
            if end < floor:  # noqa: PLR1730  # a call costs a tenth
                floor = end
        start, value = end, versions[end]
    if value is None:
        return min(floor, _put_deletion(resolved, key, start))
    _put_latest(resolved, key, start, value)
    return floor


def _put_late(
    reader: EngineReader,
    rows: Rows,
    key: bytes,
    versions: Mapping[int, bytes | None],
    starts: list[int],
) -> int:
    """Write those of *versions* that start before the stored latest; return the lowest end.

    *starts* are theirs, ascending, and that of the stored latest behind them.
    """
    floor = MAX_TIME_MS
    after = _NEVER_MS
    for start, following in pairwise(starts):
        row_key, stop = history_from(key, start)
        found = reader.first(row_key, stop)
        end = _NEVER_MS
        if found is not None:
            previous_key, previous = found
            header: int = unpack_header(previous)[0]
            end = header & ~DELETED
            if end > start and previous_key != row_key and start_of(previous_key) > after:
                # The stored version before this one now ends where this one starts.
                ended = header & DELETED | start
                rows[previous_key] = ended.to_bytes(HEADER_BYTES) + previous[HEADER_BYTES:]
                floor = min(floor, start)
        if end <= start:  # none is valid then: it ends where the next one starts
            end = stored_start_before_row(reader, key, row_key, following)
        end = min(end, following)
        rows[row_key] = history_row(end, versions[start])
        floor = min(floor, end)
        after = start
    return floor


def _put_latest(resolved: Resolved, key: bytes, start_ms: int, value: bytes | None) -> None:
    resolved.rows[data_key(key)] = latest_row(start_ms, value)
    resolved.latest[key] = start_ms, value


def _put_deletion(resolved: Resolved, key: bytes, start_ms: int) -> int:
    """Make a deletion the latest of *key*, with its marker; return the end of the marker."""
    _put_latest(resolved, key, start_ms, None)
    resolved.superseded[history_key(key, start_ms)] = history_row(start_ms, None)
    return start_ms
