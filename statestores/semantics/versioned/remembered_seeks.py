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


class RememberedSeeks(EngineReader):
    """A reader that remembers what `first` has found."""

    def __init__(self, reader: EngineReader) -> None:
        """Read from *reader*."""
        self._reader = reader
        self._found: dict[bytes, Row | None] = {}
        self._held_bytes = 0

    def get(self, key: bytes) -> bytes | None:
        return self._reader.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return self._reader.get_many(keys)

    def first(self, start: bytes, stop: bytes | None = None) -> Row | None:
        """Return what the reader's `first` returns. Requires: *start* goes with one *stop* only."""
        if start in self._found:
            return self._found[start]
        found = self._reader.first(start, stop)
        if self._held_bytes < MOST_BYTES:
            self._found[start] = found
            self._held_bytes += ROW_OVERHEAD_BYTES + (0 if found is None else len(found[1]))
        return found

    def last(self, start: bytes, stop: bytes | None = None) -> Row | None:
        return self._reader.last(start, stop)

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Row]:
        return self._reader.scan(start, stop, reverse=reverse)

    def forget(self) -> None:
        """Forget everything: the engine has changed, or may have."""
        if self._held_bytes:
            self._found = {}
            self._held_bytes = 0
