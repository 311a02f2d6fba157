"""Rows in a key-value store in the order of a time: what waits for stream time to come."""

from collections.abc import Iterator
from itertools import takewhile
from typing import Any

from statestores.processing.serdes import time_bytes
from statestores.spi import KeyValueStore

NEVER = 1 << 63
"""Later than every time."""

_TIME_BYTES = 8


class TimeQueue:
    """A queue over a store of bytes. Rows of one time are in the order of their names.

    Invariant: no row is earlier than `head_ms`. Two queues of one store have different prefixes.
    """

    def __init__(self, store: KeyValueStore[bytes, bytes], prefix: bytes = b"q") -> None:
        """Go on with what the store holds."""
        self._store = store
        self._prefix = prefix
        self._last = prefix + b"\xff" * _TIME_BYTES
        self.head_ms = 0
        self.look()

    def look(self) -> None:
        """Find the time of the first row anew."""
        self.head_ms = next((time_ms for time_ms, _, _ in self.rows()), NEVER)

    def put(self, time_ms: int, name: bytes, content: bytes) -> None:
        """Add a row, or replace the one of that time and name."""
        self._store.put(self._prefix + time_bytes(time_ms) + name, content)
        self.head_ms = min(self.head_ms, time_ms)

    def get(self, time_ms: int, name: bytes) -> bytes | None:
        """Return the content of a row; ``None`` when there is none."""
        return self._store.get(self._prefix + time_bytes(time_ms) + name)

    def remove(self, time_ms: int, name: bytes) -> None:
        """Remove a row, if it is there."""
        self._store.put(self._prefix + time_bytes(time_ms) + name, None)

    def rows(self) -> Iterator[tuple[int, bytes, bytes]]:
        """Yield time, name and content of each row in order; rows may be removed meanwhile.

        It begins at the head: an engine has to step over what was removed before that, and of a
        queue that is all that has ever been in it.
        """
        if self.head_ms == NEVER:
            return
        start = len(self._prefix) + _TIME_BYTES
        first = self._prefix + time_bytes(self.head_ms)
        for key, content in self._store.range(first, self._last):
            yield int.from_bytes(key[len(self._prefix) : start], "big"), key[start:], content

    def named(self, time_ms: int, beginning: bytes, size: int) -> Iterator[bytes]:
        """Yield the names of *size* bytes that begin so, at one time."""
        start = self._prefix + time_bytes(time_ms)
        for key, _ in self._store.prefix_scan(start + beginning):
            name = key[len(start) :]
            if len(name) == size:
                yield name

    def until(self, last_ms: int) -> list[tuple[int, bytes, bytes]]:
        """Return the rows up to *last_ms*, inclusive."""
        if last_ms < self.head_ms:
            return []
        return list(takewhile(lambda row: row[0] <= last_ms, self.rows()))

    def pop_until(self, last_ms: int) -> list[tuple[int, bytes, bytes]]:
        """Remove and return the rows up to *last_ms*, inclusive."""
        if last_ms < self.head_ms:
            return []
        popped: list[tuple[int, bytes, bytes]] = []
        head_ms = NEVER
        for row in self.rows():
            if row[0] > last_ms:
                head_ms = row[0]
                break
            popped.append(row)
        self.head_ms = head_ms
        for time_ms, name, _ in popped:
            self.remove(time_ms, name)
        return popped

    def last_ms(self) -> int | None:
        """Return the time of the last row; ``None`` when there is none."""
        first = self._prefix + time_bytes(min(self.head_ms, NEVER - 1))
        rows: Any = self._store.range(first, self._last, reverse=True)
        for key, _ in rows:
            start = len(self._prefix)
            return int.from_bytes(key[start : start + _TIME_BYTES], "big")
        return None
