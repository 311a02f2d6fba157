"""The floor of putting versions as they come: several of a key in one commit, and late ones.

As `versions`, with what these need besides. Versions of a key in one commit make a chain, each of
which ends where the next one begins. A late one, which begins before the stored latest, is put
between its neighbours: a search finds the one before it, which now ends where it begins, and whose
end is its own; before the first of all it ends where that begins. A put says until when its version
is valid (VRS-1), so the search is the put's, and what it finds is remembered for the commit.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, pairwise, starmap
from pathlib import Path
from typing import Any

from statestores.semantics.every_kind.arguments import MAX_TIME_MS
from statestores.semantics.rows.layout import DATA, HISTORY
from statestores.semantics.versioned.rows import (
    HEADER_BYTES,
    SUFFIX_BYTES,
    pack_header,
    start_of,
    unpack_header,
)
from statestores_benchmarks.cases import Outcome, Timed
from statestores_benchmarks.data import COMMIT_ROWS
from statestores_benchmarks.drivers import OPENED, content
from statestores_benchmarks.floors.batches import Begin, Seek, beginner, getter, seeker
from statestores_benchmarks.floors.versions import Versions, stored_versions

Pending = dict[bytes, tuple[int, bytes] | list[tuple[int, bytes]]]
"""What was put of each key since the last commit: one version, or several as they came."""

Neighbour = tuple[tuple[bytes, bytes] | None, int]
"""The row of the stored version that is valid when one starts, and when the next one starts."""

Neighbours = dict[bytes, Neighbour]
"""The same by the name of the one that starts, for all late ones since the last commit."""

_NEVER_MS = -1
"""Before every start."""


@contextmanager
def put_stream(
    backend: str,
    rows: Sequence[tuple[bytes, int]],
    value_of: Callable[[int], bytes],
    path: Path,
) -> Iterator[Timed]:
    """Put a version for each key and time of *rows*, with a commit every 1,000."""
    with OPENED["versioned"](backend, path) as store:
        commit = stream_commits(backend, store)

        def timed() -> Outcome:
            for start in range(0, len(rows), COMMIT_ROWS):
                commit(
                    [
                        (key, value_of(time_ms), time_ms)
                        for key, time_ms in rows[start : start + COMMIT_ROWS]
                    ]
                )
            return Outcome(answer=lambda: content(store))

        yield timed


def stream_commits(
    backend: str, store: Any
) -> Callable[[Iterable[tuple[bytes, bytes, int]]], None]:
    """Return what puts and commits rows of key, value and time in *store*, by its driver."""
    get, begin, search = getter(backend, store), beginner(backend, store), seeker(backend, store)
    latest: Versions = {}
    reached_ms = _NEVER_MS

    def commit(rows: Iterable[tuple[bytes, bytes, int]]) -> None:
        nonlocal reached_ms
        pending: Pending = {}
        neighbours: Neighbours = {}
        seeks: tuple[Seek, Seek] | None = None
        for key, value, time_ms in rows:
            version = (time_ms, value)
            others = pending.setdefault(key, version)
            if time_ms >= reached_ms:
                reached_ms = time_ms
            else:
                seeks = seeks or search()
                _until(get, latest, seeks, neighbours, key, time_ms, others)
            if isinstance(others, list):
                others.append(version)
            elif others is not version:  # it has come before
                pending[key] = [others, version]
        _commit(get, begin, latest, neighbours, pending)

    return commit


def _until(
    get: Callable[[list[bytes]], Any],
    latest: Versions,
    seeks: tuple[Seek, Seek],
    neighbours: Neighbours,
    key: bytes,
    time_ms: int,
    others: tuple[int, bytes] | list[tuple[int, bytes]],
) -> int | None:
    """Return until when a late version of *key* is valid, ``None`` if it is the latest.

    What is found of the stored versions around it goes into *neighbours*.
    """
    stored = latest.get(key)
    if stored is None:
        (stored,) = stored_versions(get, latest, [key])
        if stored is not None:
            latest[key] = stored
    waiting = others if isinstance(others, list) else (others,)
    later = [start for start, _ in waiting if start > time_ms]
    if stored is not None and stored[0] > time_ms:
        name = _name(key, time_ms)
        neighbours[name] = found = _found(seeks, name)
        later.append(min(found[1], stored[0]))
    return min(later, default=None)


def _commit(
    get: Callable[[list[bytes]], Any],
    begin: Begin,
    latest: Versions,
    neighbours: Neighbours,
    pending: Pending,
) -> None:
    keys = sorted(pending)
    before = stored_versions(get, latest, keys)
    rows: list[tuple[bytes, bytes]] = []
    superseded: list[tuple[bytes, bytes]] = []
    for key, waiting, stored in zip(keys, map(pending.__getitem__, keys), before, strict=True):
        if type(waiting) is tuple and (stored is None or stored[0] < waiting[0]):
            header = pack_header(waiting[0])
            rows.append((DATA + key, header + waiting[1]))
            latest[key] = waiting
            if stored is not None:
                superseded.append((_name(key, stored[0]), header + stored[1]))
            continue
        # Of several at one time the last one counts.
        several = waiting if isinstance(waiting, list) else [waiting]
        versions = sorted(dict(several).items())
        newest = _NEVER_MS if stored is None else stored[0]
        if versions[0][0] < newest:
            late = [version for version in versions if version[0] < newest]
            superseded += _late_rows(neighbours, key, late, newest)
            versions = versions[len(late) :]
        if not versions:
            continue
        if stored is not None and versions[0][0] != newest:
            versions.insert(0, stored)
        superseded += [
            (_name(key, start), pack_header(end) + value)
            for (start, value), (end, _) in pairwise(versions)
        ]
        latest[key] = start, value = versions[-1]
        rows.append((DATA + key, pack_header(start) + value))
    put, write = begin()
    deque(starmap(put, chain(rows, superseded)), maxlen=0)
    write()


def _name(key: bytes, start_ms: int) -> bytes:
    prefix = HISTORY + key.replace(b"\x00", b"\x00\xff")
    return prefix + (MAX_TIME_MS - start_ms).to_bytes(SUFFIX_BYTES)


def _found(seeks: tuple[Seek, Seek], name: bytes) -> Neighbour:
    """Return what is stored around the version with *name*."""
    up, down = seeks
    prefix, start = name[:-HEADER_BYTES], start_of(name)
    found = up(name)
    if found is not None and found[0].startswith(prefix):
        end: int = unpack_header(found[1])[0]
        if end > start:
            return found, end
    found = down(name)
    if found is not None and found[0].startswith(prefix):
        return None, start_of(found[0])
    return None, MAX_TIME_MS


def _late_rows(
    neighbours: Neighbours, key: bytes, late: list[tuple[int, bytes]], newest_ms: int
) -> Iterator[tuple[bytes, bytes]]:
    """Yield rows of versions of *key* that begin before the stored latest, and of what they end."""
    after_ms = _NEVER_MS
    ends = [start for start, _ in late[1:]] + [newest_ms]
    for (start, value), following_ms in zip(late, ends, strict=True):
        name = _name(key, start)
        valid, end = neighbours[name]
        if valid is not None and after_ms < start_of(valid[0]) < start:
            yield valid[0], pack_header(start) + valid[1][HEADER_BYTES:]
        yield name, pack_header(min(end, following_ms)) + value
        after_ms = start
