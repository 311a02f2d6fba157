"""Seeks that are not done twice between two commits: a late put and its commit ask for the same.

Invariant: what is remembered is as the engine has it. Between two commits nothing changes there;
whatever changes the engine calls `forget`.
"""

from collections.abc import Iterator, Sequence

from statestores.spi.engine import EngineReader

MOST_BYTES = 4 * 1024 * 1024
"""Memory for rows that are remembered. A commit with more late puts seeks again for the others."""

ROW_OVERHEAD_BYTES = 400
"""What a row takes in addition to its value: its key, the key that was sought, a pair and a
place."""

Row = tuple[bytes, bytes]
Found = dict[bytes | None, Row | None]
"""What was found, by the bound that was sought from."""


class RememberedSeeks(EngineReader):
    """A reader that remembers what `first` and `last` have found."""

    def __init__(self, reader: EngineReader) -> None:
        """Read from *reader*."""
        self._reader = reader
        self._first: Found = {}
        self._last: Found = {}
        self._held_bytes = 0

    def get(self, key: bytes) -> bytes | None:
        return self._reader.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return self._reader.get_many(keys)

    def first(self, start: bytes, stop: bytes | None = None) -> Row | None:
        """Return what the reader's `first` returns. Requires: *start* goes with one *stop* only."""
        if start in self._first:
            return self._first[start]
        return self._kept(self._first, start, self._reader.first(start, stop))

    def last(self, start: bytes, stop: bytes | None = None) -> Row | None:
        """Return what the reader's `last` returns. Requires: *stop* goes with one *start* only."""
        if stop in self._last:
            return self._last[stop]
        return self._kept(self._last, stop, self._reader.last(start, stop))

    def _kept(self, rows: Found, bound: bytes | None, found: Row | None) -> Row | None:
        """Return *found*, and remember it in *rows*, if there is room."""
        if self._held_bytes < MOST_BYTES:
            rows[bound] = found
            self._held_bytes += ROW_OVERHEAD_BYTES + (0 if found is None else len(found[1]))
        return found

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Row]:
        return self._reader.scan(start, stop, reverse=reverse)

    def forget(self) -> None:
        """Forget everything: the engine has changed, or may have."""
        if self._held_bytes:
            self._first, self._last = {}, {}
            self._held_bytes = 0
