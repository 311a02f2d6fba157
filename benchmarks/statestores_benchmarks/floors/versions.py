"""The floor of putting versions: what any design must do, by the driver's own calls.

Of each key the stored latest version is looked up: from those that were put, and else by the
driver. The row of the new one and that of the one that it supersedes are made, in the order of
their keys, which the driver takes fastest, given to a batch, and written; and the new versions are
remembered. A key that lies before a time is escaped. Nothing is checked or counted, and the rows
that a commit has about itself are left out.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import compress, repeat
from operator import add
from pathlib import Path
from struct import Struct
from typing import Any

from statestores.semantics.every_kind.arguments import MAX_TIME_MS
from statestores.semantics.rows.layout import DATA, HISTORY
from statestores.semantics.versioned.rows import SUFFIX_BYTES
from statestores_benchmarks.cases import Outcome, Timed
from statestores_benchmarks.drivers import OPENED, content
from statestores_benchmarks.floors.batches import Begin, batches_of, beginner, escaped, getter

Versions = dict[bytes, tuple[int, bytes]]
"""When the latest version of a key starts, and its value."""

_HEADER = Struct(">Q")


@contextmanager
def put_versions(backend: str, columns: Sequence[list[Any]], path: Path) -> Iterator[Timed]:
    """Put columns of keys, values and times, in which the times of each key ascend.

    Batches have as many rows as commits do, but each key once, as the rows of a commit have.
    """
    batches = batches_of(columns)
    with OPENED["versioned"](backend, path) as store:
        get, begin = getter(backend, store), beginner(backend, store)

        def timed() -> Outcome:
            latest: Versions = {}
            for keys, values, times in batches:
                versions = zip(times, values, strict=True)
                commit_versions(get, begin, latest, dict(zip(keys, versions, strict=True)))
            return Outcome(answer=lambda: content(store))

        yield timed


def commit_versions(
    get: Callable[[list[bytes]], Any], begin: Begin, latest: Versions, pending: Versions
) -> None:
    """Write the rows of *pending* versions, and have them among the *latest*.

    Each of them is above the latest one of its key.
    """
    keys = sorted(pending)
    stored = stored_versions(get, latest, keys)
    starts, values = _parted(map(pending.__getitem__, keys))
    put, write = begin()
    deque(map(put, map(DATA.__add__, keys), _behind(starts, values)), maxlen=0)
    if None in stored:
        keys, starts = list(compress(keys, stored)), list(compress(starts, stored))
        stored = list(filter(None, stored))
    began, superseded = _parted(stored)
    if len(set(began)) == 1:
        suffixes: Iterable[bytes] = repeat((MAX_TIME_MS - began[0]).to_bytes(SUFFIX_BYTES))
    else:
        suffixes = ((MAX_TIME_MS - start).to_bytes(SUFFIX_BYTES) for start in began)
    names = map(b"".join, zip(repeat(HISTORY), escaped(keys), suffixes))
    deque(map(put, names, _behind(starts, superseded)), maxlen=0)
    write()
    latest.update(pending)


def stored_versions(
    get: Callable[[list[bytes]], Any], latest: Versions, keys: list[bytes]
) -> list[Any]:
    """Return the latest version of each of *keys*, or ``None``: remembered, or else stored."""
    stored: list[Any] = list(map(latest.get, keys))
    if None in stored:
        places = [place for place, version in enumerate(stored) if version is None]
        rows = get([DATA + keys[place] for place in places])
        for place, row in zip(places, rows, strict=True):
            if row is not None:
                stored[place] = _HEADER.unpack_from(row)[0], row[_HEADER.size :]
    return stored


def _parted(versions: Iterable[tuple[int, bytes]]) -> tuple[list[int], list[bytes]]:
    """Return starts and values of *versions*."""
    pairs = list(versions)
    return [start for start, _ in pairs], [value for _, value in pairs]


def _behind(times_ms: list[int], values: list[bytes]) -> Iterable[bytes]:
    """Return *values*, each behind its time."""
    if len(set(times_ms)) == 1:
        return map(_HEADER.pack(times_ms[0]).__add__, values)
    return map(add, map(_HEADER.pack, times_ms), values)
