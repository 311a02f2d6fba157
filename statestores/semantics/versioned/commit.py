"""Pending versions become rows: which is the latest, which are superseded, and until when (LAY-7).

Puts are blind, and this is where they meet what is stored: the latest rows of all keys of a commit,
from the cache, and in one `get_many` those that are not there. A version above the stored latest,
the common case, needs nothing more. A late one needs a seek for its neighbours.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from statestores.semantics.every_kind.arguments import MAX_TIME_MS
from statestores.semantics.rows.escaped_keys import escape
from statestores.semantics.rows.layout import DATA, HISTORY
from statestores.semantics.rows.progress import Progress
from statestores.semantics.versioned.rows import (
    DELETED,
    HEADER_BYTES,
    SUFFIX_BYTES,
    data_key,
    history_key,
    history_row,
    latest_row,
    pack_header,
    read_latest,
    start_of,
    unpack_header,
)
from statestores.semantics.versioned.view import stored_start_after
from statestores.spi.engine import EngineReader

Rows = dict[bytes, bytes | None]

_NEVER_MS = -1
"""Before every start."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a commit changes."""

    rows: Rows = field(default_factory=dict)
    """The rows as they lie in the engine."""

    latest: Rows = field(default_factory=dict)
    """The latest rows among them, by key: what a cache of latest rows must learn."""


def resolve(  # noqa: C901, PLR0912  # a loop over all that a commit has: a call costs a tenth
    reader: EngineReader,
    cached: Mapping[bytes, bytes | None],
    pending: Mapping[bytes, Mapping[int, bytes | None]],
    progress: Progress,
    horizon_ms: int,
) -> Resolved:
    """Return the rows that *pending* changes, and lower the floor of *progress* by them.

    A version that has already expired at the coming *horizon_ms* is not written. *cached* has
    latest rows by key, ``None`` where there is none, and need not have them all.
    """
    resolved = Resolved()
    rows, latest = resolved.rows, resolved.latest
    unknown = [key for key in pending if key not in cached]
    read = reader.get_many([DATA + key for key in unknown]) if unknown else []
    stored = dict(zip(unknown, read, strict=True))
    floor = MAX_TIME_MS
    for key, versions in pending.items():
        row = stored[key] if key in stored else cached[key]
        chain = iter(sorted(versions.items()) if len(versions) > 1 else versions.items())
        start, value = next(chain)
        # `escape`, `history_key` and `history_row`, written out: a call costs a tenth of a put.
        prefix = HISTORY + key.replace(b"\x00", b"\x00\xff")
        if row is not None:
            header: int = unpack_header(row)[0]
            stored_start = header & ~DELETED
            if start <= stored_start:
                floor = min(floor, _resolve_late(reader, resolved, key, versions, row, horizon_ms))
                continue
            superseded = prefix + (MAX_TIME_MS - stored_start).to_bytes(SUFFIX_BYTES)
            if start > horizon_ms:
                # The stored latest is superseded: the same bytes under another header.
                ended = header & DELETED | start
                rows[superseded] = ended.to_bytes(HEADER_BYTES) + row[HEADER_BYTES:]
                if start < floor:  # noqa: PLR1730  # likewise
                    floor = start
            elif header >= DELETED:
                rows[superseded] = None
        for end, following in chain:
            superseded = prefix + (MAX_TIME_MS - start).to_bytes(SUFFIX_BYTES)
            if end <= horizon_ms:
                rows[superseded] = None
            elif value is None:
                rows[superseded] = pack_header(DELETED | end)
                floor = min(floor, end)
            else:
                rows[superseded] = end.to_bytes(HEADER_BYTES) + value
                if end < floor:  # noqa: PLR1730  # likewise
                    floor = end
            start, value = end, following
        if value is None:
            floor = min(floor, _put_deletion(resolved, key, start))
        else:
            rows[DATA + key] = latest[key] = start.to_bytes(HEADER_BYTES) + value
    progress.lower(floor)
    return resolved


def _put_latest(resolved: Resolved, key: bytes, start_ms: int, value: bytes | None) -> None:
    resolved.rows[data_key(key)] = resolved.latest[key] = latest_row(start_ms, value)


def _put_deletion(resolved: Resolved, key: bytes, start_ms: int) -> int:
    """Make a deletion the latest of *key*, with its marker; return the end of the marker."""
    _put_latest(resolved, key, start_ms, None)
    resolved.rows[history_key(key, start_ms)] = history_row(start_ms, None)
    return start_ms


def _put_chain(
    resolved: Resolved, key: bytes, chain: list[tuple[int, bytes | None]], horizon_ms: int
) -> int:
    """Write versions of *key*, the last of which is the latest; return the lowest end."""
    rows, floor = resolved.rows, MAX_TIME_MS
    prefix = HISTORY + escape(key)
    for (start, value), (end, _) in pairwise(chain):
        superseded = prefix + (MAX_TIME_MS - start).to_bytes(SUFFIX_BYTES)
        if end <= horizon_ms:
            # It may be stored: a deletion's marker, or a version that this commit replaces.
            rows[superseded] = None
            continue
        rows[superseded] = history_row(end, value)
        if end < floor:  # noqa: PLR1730  # a call costs a tenth
            floor = end
    start, value = chain[-1]
    if value is None:
        return min(floor, _put_deletion(resolved, key, start))
    _put_latest(resolved, key, start, value)
    return floor


def _resolve_late(
    reader: EngineReader,
    resolved: Resolved,
    key: bytes,
    versions: Mapping[int, bytes | None],
    row: bytes,
    horizon_ms: int,
) -> int:
    """Write *versions*, some of them up to the stored latest; return the lowest end."""
    rows = resolved.rows
    latest = read_latest(row)
    newest = latest.valid_from_ms
    starts = sorted(versions)
    floor = MAX_TIME_MS
    after = _NEVER_MS
    for index, start in enumerate(starts):
        if start >= newest:
            break
        following = min(starts[index + 1], newest) if index + 1 < len(starts) else newest
        floor = min(floor, _put_late(reader, rows, key, (start, versions[start]), after, following))
        after = start
    # What is at or above the stored latest makes a chain with it.
    chain = [(start, versions[start]) for start in starts if start >= newest]
    if chain and chain[0][0] == newest and latest.value is None:
        rows[history_key(key, newest)] = None  # the marker of the deletion that is replaced
    if chain:
        if chain[0][0] != newest:
            chain.insert(0, (newest, latest.value))
        floor = min(floor, _put_chain(resolved, key, chain, horizon_ms))
    return floor


def _put_late(
    reader: EngineReader,
    rows: Rows,
    key: bytes,
    version: tuple[int, bytes | None],
    after_ms: int,
    following_ms: int,
) -> int:
    """Write a *version* of *key* that starts before the stored latest; return the lowest end.

    The version of the same commit before it starts at *after_ms*. The one after it, or the stored
    latest if that is earlier, starts at *following_ms*.
    """
    start, value = version
    prefix = HISTORY + key.replace(b"\x00", b"\x00\xff")
    row_key = prefix + (MAX_TIME_MS - start).to_bytes(SUFFIX_BYTES)
    found = reader.first(row_key, prefix + b"\x00\x01")
    end = floor = 0
    if found is not None:
        previous_key, previous = found
        header: int = unpack_header(previous)[0]
        end = header & ~DELETED
        if end > start and previous_key != row_key and start_of(previous_key) > after_ms:
            # The stored version before this one now ends where this one starts.
            ended = header & DELETED | start
            rows[previous_key] = ended.to_bytes(HEADER_BYTES) + previous[HEADER_BYTES:]
            floor = start
    if end <= start:
        end = stored_start_after(reader, key, start, following_ms)
    end = min(end, following_ms)
    rows[row_key] = history_row(end, value)
    return floor or end
