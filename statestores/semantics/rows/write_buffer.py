"""Uncommitted rows, merged into reads and scans of an engine.

Rows are keyed as in the engine, so the buffer is the batch of the next commit. ``None`` marks a
deletion. Invariant: `rows` only grows between two commits, which is what lets `slice` keep its
sorted keys: dictionaries remember insertion order, so the keys that it has not sorted are the
last ones.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from itertools import islice
from operator import itemgetter

_INSERT_RATIO = 50
"""Insert new keys one by one below this fraction of the sorted ones, else sort again: timsort
merges two runs, but touches every key."""


class WriteBuffer:
    """An overlay of changed rows with a sorted view that is built when a scan asks for it."""

    __slots__ = ("_sorted", "rows")

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes | None] = {}
        """The changed rows. Writers assign to it directly: that is the hot path."""

        self._sorted: list[bytes] = []

    def slice(
        self, start: bytes, stop: bytes | None, *, reverse: bool
    ) -> list[tuple[bytes, bytes | None]]:
        """Return a copy of the rows with ``start <= key < stop`` in order."""
        keys = self._sort()
        low = bisect_left(keys, start)
        high = len(keys) if stop is None else bisect_left(keys, stop)
        chosen = keys[low:high]
        if reverse:
            chosen.reverse()
        rows = self.rows
        return [(key, rows[key]) for key in chosen]

    def _sort(self) -> list[bytes]:
        """Return the sorted keys, bringing in those that came since the last time."""
        keys, unsorted = self._sorted, len(self.rows) - len(self._sorted)
        if unsorted:
            fresh = list(islice(reversed(self.rows), unsorted))
            if unsorted * _INSERT_RATIO < len(keys):
                for key in fresh:
                    insort(keys, key)
            else:
                keys.extend(fresh)
                keys.sort()
        return keys


def total_bytes(values: list[bytes | None]) -> int:
    """Return the length of all *values* together; ``None`` has none.

    Looking for ``None`` first would take longer than the sum.
    """
    try:
        return sum(map(len, values))  # type: ignore[arg-type]  # `None` is what the error is for
    except TypeError:
        return sum(map(len, filter(None, values)))


def rows_between(
    rows: Mapping[bytes, bytes | None], start: bytes, stop: bytes | None, *, reverse: bool
) -> list[tuple[bytes, bytes | None]]:
    """Return those of *rows*, in any order, with ``start <= key < stop`` in order."""
    chosen = [row for row in rows.items() if start <= row[0] and (stop is None or row[0] < stop)]
    chosen.sort(key=itemgetter(0), reverse=reverse)
    return chosen


def merge(
    stored: Iterator[tuple[bytes, bytes]],
    overlay: list[tuple[bytes, bytes | None]],
    *,
    reverse: bool,
) -> Iterator[tuple[bytes, bytes]]:
    """Iterate over *stored* with the changes of *overlay* applied; both in the same order."""
    if not overlay:
        return stored
    return _merge(stored, overlay, reverse=reverse)


def _merge(
    stored: Iterator[tuple[bytes, bytes]],
    overlay: list[tuple[bytes, bytes | None]],
    *,
    reverse: bool,
) -> Iterator[tuple[bytes, bytes]]:
    pair = next(stored, None)
    for key, value in overlay:
        while pair is not None and (pair[0] > key if reverse else pair[0] < key):
            yield pair
            pair = next(stored, None)
        if pair is not None and pair[0] == key:
            pair = next(stored, None)
        if value is not None:
            yield key, value
    if pair is not None:
        yield pair
        yield from stored
