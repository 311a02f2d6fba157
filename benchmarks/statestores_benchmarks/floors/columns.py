"""The floors of putting rows that need nothing of what is stored, by the kind of store.

What was put is found by its key until it is committed, since a read between the two finds it, and
the last value of a key counts: so rows wait in a dictionary. Then their keys are made, as each kind
has them, and they are given to the driver's batch in their order, and written. Rows of windows and
sessions are named in one more row for each commit, and what was named is remembered, so that it is
not named again. A key that lies before a time is escaped. Nothing is checked or counted, and the
rows that a commit has about itself are left out.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count, repeat
from operator import add
from pathlib import Path
from struct import Struct
from typing import Any

from statestores.semantics.retained.name_groups import group_key, pack_names
from statestores.semantics.retained.rows import (
    SUFFIX_BYTES,
    TIME_BYTES,
    pack_suffix_and_number,
)
from statestores.semantics.rows.layout import DATA
from statestores_benchmarks.cases import Outcome, Timed
from statestores_benchmarks.drivers import OPENED, content
from statestores_benchmarks.floors.batches import Begin, batches_of, beginner, by_key, escaped

Batch = list[list[Any]]

Commit = Callable[[Batch], object]
"""Puts the columns of a batch, and commits them."""

_pack_stamp = Struct(">q").pack


@contextmanager
def put_rows(backend: str, kind: str, columns: Sequence[list[Any]], path: Path) -> Iterator[Timed]:
    """Put columns of *kind*, in the order in which its store takes them."""
    batches = batches_of(columns)
    with OPENED[kind](backend, path) as store:
        commit = COMMITS[kind](beginner(backend, store))

        def timed() -> Outcome:
            for batch in batches:
                commit(batch)
            return Outcome(answer=lambda: content(store))

        yield timed


def _key_values(begin: Begin) -> Commit:
    def commit(batch: Batch) -> None:
        keys, values = batch
        names, rows = by_key(dict(zip(keys, values, strict=True)))
        put, write = begin()
        deque(map(put, map(DATA.__add__, names), rows), maxlen=0)
        write()

    return commit


def _timestamped(begin: Begin) -> Commit:
    def commit(batch: Batch) -> None:
        keys, values, times = batch
        rows = map(add, map(_pack_stamp, times), values)
        pending = dict(zip(map(DATA.__add__, keys), rows, strict=True))
        put, write = begin()
        deque(map(put, *by_key(pending)), maxlen=0)
        write()

    return commit


def _windows(begin: Begin) -> Commit:
    """Return what puts windows, those of each batch with one start."""
    known: dict[int, dict[bytes, bytes]] = {}
    numbers = count()

    def commit(batch: Batch) -> None:
        keys, values, starts = batch
        start_ms = starts[0]
        pending = dict(zip(keys, values, strict=True))
        suffix = start_ms.to_bytes(SUFFIX_BYTES)
        ordered, rows = by_key(pending)
        names = [DATA + key + suffix for key in escaped(ordered)]
        put, write = begin()
        deque(map(put, names, rows), maxlen=0)
        theirs = known.setdefault(start_ms, pending)
        if theirs is not pending:
            if not theirs.keys().isdisjoint(pending):
                pairs = zip(names, ordered, strict=True)
                names = [name for name, key in pairs if key not in theirs]
            theirs.update(pending)
        if names:
            put(group_key(start_ms.to_bytes(TIME_BYTES), next(numbers)), pack_names(names))
        write()

    return commit


def _sessions(begin: Begin) -> Commit:
    known: set[bytes] = set()
    numbers = count()

    def commit(batch: Batch) -> None:
        keys, starts, ends, values = batch
        suffixes = map(pack_suffix_and_number, repeat(0), ends, starts)
        names = list(map(b"".join, zip(repeat(DATA), escaped(keys), suffixes)))
        pending = dict(zip(names, values, strict=True))
        put, write = begin()
        deque(map(put, *by_key(pending)), maxlen=0)
        if not known.isdisjoint(names):
            names = [name for name in names if name not in known]
        if names:
            put(group_key(max(ends).to_bytes(TIME_BYTES), next(numbers)), pack_names(names))
        known.update(names)
        write()

    return commit


COMMITS: dict[str, Callable[[Begin], Commit]] = {
    "key-value": _key_values,
    "timestamped": _timestamped,
    "window": _windows,
    "session": _sessions,
}
"""What commits batches of each kind, by the driver."""
