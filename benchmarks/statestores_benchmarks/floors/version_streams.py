"""The floor of putting versions as they come: several of a key in one commit, and late ones.

As `versions`, with what these need besides. Versions of a key in one commit make a chain, each of
which ends where the next one begins. A late one, which begins before the stored latest, is put
between its neighbours: a search finds the one before it, which now ends where it begins, and whose
end is its own; before the first of all it ends where that begins.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, pairwise, starmap
from pathlib import Path
from struct import Struct
from typing import Any

from statestores.semantics.every_kind.arguments import MAX_TIME_MS
from statestores.semantics.rows.layout import DATA, HISTORY
from statestores.semantics.versioned.rows import SUFFIX_BYTES
from statestores_benchmarks.cases import Outcome, Timed
from statestores_benchmarks.data import COMMIT_ROWS
from statestores_benchmarks.drivers import OPENED, content
from statestores_benchmarks.floors.batches import Begin, Seek, beginner, getter, seeker
from statestores_benchmarks.floors.versions import Versions, stored_versions

Pending = dict[bytes, tuple[int, bytes] | list[tuple[int, bytes]]]
"""What was put of each key since the last commit: one version, or several as they came."""

_HEADER = Struct(">Q")
_pack = _HEADER.pack

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

    def commit(rows: Iterable[tuple[bytes, bytes, int]]) -> None:
        pending: Pending = {}
        for key, value, time_ms in rows:
            version = (time_ms, value)
            others = pending.setdefault(key, version)
            if isinstance(others, list):
                others.append(version)
            elif others is not version:  # it has come before
                pending[key] = [others, version]
        _commit(get, begin, search, latest, pending)

    return commit


def _commit(
    get: Callable[[list[bytes]], Any],
    begin: Begin,
    search: Callable[[], tuple[Seek, Seek]],
    latest: Versions,
    pending: Pending,
) -> None:
    keys = sorted(pending)
    before = stored_versions(get, latest, keys)
    rows: list[tuple[bytes, bytes]] = []
    superseded: list[tuple[bytes, bytes]] = []
    seeks: tuple[Seek, Seek] | None = None
    for key, waiting, stored in zip(keys, map(pending.__getitem__, keys), before, strict=True):
        if type(waiting) is tuple and (stored is None or stored[0] < waiting[0]):
            header = _pack(waiting[0])
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
            seeks = seeks or search()
            late = [version for version in versions if version[0] < newest]
            superseded += _late_rows(seeks, key, late, newest)
            versions = versions[len(late) :]
        if not versions:
            continue
        if stored is not None and versions[0][0] != newest:
            versions.insert(0, stored)
        superseded += [
            (_name(key, start), _pack(end) + value)
            for (start, value), (end, _) in pairwise(versions)
        ]
        latest[key] = start, value = versions[-1]
        rows.append((DATA + key, _pack(start) + value))
    put, write = begin()
    deque(starmap(put, chain(rows, superseded)), maxlen=0)
    write()


def _name(key: bytes, start_ms: int) -> bytes:
    prefix = HISTORY + key.replace(b"\x00", b"\x00\xff")
    return prefix + (MAX_TIME_MS - start_ms).to_bytes(SUFFIX_BYTES)


def _late_rows(
    seeks: tuple[Seek, Seek], key: bytes, late: list[tuple[int, bytes]], newest_ms: int
) -> Iterator[tuple[bytes, bytes]]:
    """Yield rows of versions of *key* that begin before the stored latest, and of what they end."""
    up, down = seeks
    after_ms = _NEVER_MS
    ends = [start for start, _ in late[1:]] + [newest_ms]
    for (start, value), following_ms in zip(late, ends, strict=True):
        name = _name(key, start)
        prefix = name[: -_HEADER.size]
        end = following_ms
        found = up(name)
        if found is not None and found[0].startswith(prefix):
            stored_end: int = _HEADER.unpack_from(found[1])[0]
            begun = MAX_TIME_MS - int.from_bytes(found[0][-_HEADER.size :])
            if stored_end > start:
                end = min(end, stored_end)
                if after_ms < begun < start:
                    yield found[0], _pack(start) + found[1][_HEADER.size :]
        else:
            found = down(name)
            if found is not None and found[0].startswith(prefix):
                end = min(end, MAX_TIME_MS - int.from_bytes(found[0][-_HEADER.size :]))
        yield name, _pack(end) + value
        after_ms = start
