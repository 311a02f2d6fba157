"""Rows as they were at a moment: Redis has no snapshots, and the owner is the only one who writes.

So the owner tells everything that still reads an earlier moment what a commit is about to replace.
A page is what the server has now, with what has been told put back. Pending writes that belong to
the moment are told at the beginning, and win over what comes later.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from statestores_redis import scripts

Pair = tuple[bytes, bytes]

Ask = Callable[..., Any]
"""Runs a script of `scripts` for the owner."""


class FrozenRows:
    """The rows with ``start <= key < stop`` at a moment; the caller holds the store's lock."""

    def __init__(
        self,
        ask: Ask,
        start: bytes,
        stop: bytes | None,
        pending: Mapping[bytes, bytes | None],
        *,
        reverse: bool,
    ) -> None:
        """Freeze them, with those of *pending* that are between the two."""
        self._ask = ask
        self._start, self._stop = start, stop
        self._reverse = reverse
        self._told = {key: value for key, value in pending.items() if self._awaits(key)}
        self._keys = sorted(self._told)
        self._kept: list[Pair] = []
        self._at_end = stop is not None and stop <= start

    def _awaits(self, key: bytes) -> bool:
        """Return whether *key* is in what has not been read yet."""
        return self._start <= key and (self._stop is None or key < self._stop)

    def awaited(self, keys: Iterable[bytes]) -> list[bytes]:
        """Return those of *keys* whose rows have to be told before a commit replaces them."""
        if self._at_end:
            return []
        return [key for key in keys if self._awaits(key) and key not in self._told]

    def tell(self, key: bytes, value: bytes | None) -> None:
        """Note what *key* had at the moment."""
        self._told[key] = value
        insort(self._keys, key)

    def keep_everything(self) -> None:
        """Read what is left, since the server is about to forget it."""
        while not self._at_end:
            self._kept += self._next_page()

    def page(self) -> list[Pair]:
        """Return the next rows in order; an empty list only at the end."""
        if self._kept:
            kept, self._kept = self._kept, []
            return kept
        while not self._at_end:
            rows = self._next_page()
            if rows:
                return rows
        return []

    def _next_page(self) -> list[Pair]:
        low = b"[" + self._start
        high = b"+" if self._stop is None else b"(" + self._stop
        flat, is_last = self._ask(scripts.PAGE, low, high, int(self._reverse))
        rows: dict[bytes, bytes | None] = dict(zip(flat[::2], flat[1::2], strict=True))
        start, stop = self._start, self._stop
        if is_last:
            self._at_end = True
        elif self._reverse:
            start = self._stop = flat[-2]
        else:
            stop = self._start = flat[-2] + b"\x00"
        first = bisect_left(self._keys, start)
        last = len(self._keys) if stop is None else bisect_left(self._keys, stop)
        rows |= {key: self._told[key] for key in self._keys[first:last]}
        return [
            (key, value)
            for key, value in sorted(rows.items(), reverse=self._reverse)
            if value is not None
        ]


def one_by_one(
    rows: FrozenRows, next_page: Callable[[FrozenRows], list[Pair]], check_open: Callable[[], None]
) -> Iterator[Pair]:
    """Yield *rows*; *next_page* takes the lock. A closed store raises before the next, or the end.

    Raises:
        StoreClosedError: The store has been closed.
    """
    while page := next_page(rows):
        for row in page:
            check_open()
            yield row
