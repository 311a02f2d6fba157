"""Which pending rows one key has, found without sorting the others.

Who merges sessions, or looks at the windows of a key, puts after each look: a sorted view of all
pending rows would have to take in a row or two each time. Invariant: the pending rows only grow
between two commits, so those that are not known here yet are the last ones.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from itertools import islice

PendingRow = tuple[bytes, bytes | None]

MOST_FRESH = 4_096
"""More new rows are a load, which is read as a whole if at all, and not worth the memory."""


class RowsOfKeys:
    """The pending rows of one commit, by the beginning of their keys."""

    __slots__ = ("_by_prefix", "_known", "_rows", "_suffix_bytes")

    def __init__(self, rows: dict[bytes, bytes | None], suffix_bytes: int) -> None:
        """Look at *rows*, live. The last *suffix_bytes* of each key are not its beginning."""
        self._rows = rows
        self._suffix_bytes = suffix_bytes
        self._known = 0
        self._by_prefix: dict[bytes, list[bytes]] = {}

    def slice(
        self, prefix: bytes, start: bytes, stop: bytes, *, reverse: bool
    ) -> list[PendingRow] | None:
        """Return a copy of the rows with *prefix* and ``start <= key < stop`` in order.

        ``None`` if too many rows are new: sort them instead.
        """
        if fresh := len(self._rows) - self._known:
            if fresh > MOST_FRESH:
                return None
            self._take(fresh)
        known = self._by_prefix.get(prefix)
        if known is None:
            return []
        keys = known[bisect_left(known, start) : bisect_left(known, stop)]
        if reverse:
            keys.reverse()
        rows = self._rows
        # Each once: an interrupt may have come before new rows were known to be known.
        return [(key, rows[key]) for key in dict.fromkeys(keys)]

    def _take(self, fresh: int) -> None:
        """Take in the last *fresh* rows."""
        end, by_prefix = -self._suffix_bytes, self._by_prefix
        for data_key in islice(reversed(self._rows), fresh):
            prefix = data_key[:end]
            known = by_prefix.get(prefix)
            if known is None:
                by_prefix[prefix] = [data_key]
            else:
                insort(known, data_key)
        self._known += fresh


def overlaid(
    stored: Sequence[tuple[bytes, bytes]], overlay: list[PendingRow], *, reverse: bool
) -> list[tuple[bytes, bytes]]:
    """Return a few *stored* rows with the changes of *overlay* applied; both in the same order."""
    if not stored:
        return [(key, row) for key, row in overlay if row is not None]
    rows: dict[bytes, bytes | None] = dict(stored)
    rows.update(overlay)
    return [(key, row) for key, row in sorted(rows.items(), reverse=reverse) if row is not None]
