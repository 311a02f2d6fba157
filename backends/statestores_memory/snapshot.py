"""A view of a memory engine frozen at one instant."""

from collections.abc import Iterator

from statestores.errors import StoreClosedError
from statestores.spi import EngineSnapshot
from statestores_memory.content import Content
from statestores_memory.iterators import Owner, rows


class MemorySnapshot(EngineSnapshot):
    """The content that the engine had at the call, which it copies before changing it.

    Reads take no lock, because nobody changes what they read.
    """

    def __init__(self, engine: Owner, content: Content) -> None:
        self._engine = engine
        self._content: Content | None = content

    def get(self, key: bytes) -> bytes | None:
        return self._readable().values.get(key)

    def first(self, start: bytes, stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        content = self._readable()
        bounds = content.bounds(start, stop)
        return content.pair(bounds[0]) if bounds else None

    def last(self, start: bytes, stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        content = self._readable()
        bounds = content.bounds(start, stop)
        return content.pair(bounds[-1]) if bounds else None

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        return rows(self, self._readable(), start, stop, reverse=reverse)

    def close(self) -> None:
        self._content = None

    def check_open(self) -> None:
        """Raise `StoreClosedError` when the snapshot or its engine has been closed."""
        self._readable()

    def _readable(self) -> Content:
        """Return the content, of an open snapshot of an open engine."""
        self._engine.check_open()
        content = self._content
        if content is None:
            raise StoreClosedError("the snapshot is closed; take a new one with snapshot()")
        return content
