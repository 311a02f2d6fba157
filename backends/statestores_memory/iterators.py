"""An iteration over content that nobody changes while it runs."""

from collections.abc import Iterator
from typing import Protocol

from statestores_memory.content import Content


class Owner(Protocol):
    """The engine or snapshot that an iteration belongs to."""

    def check_open(self) -> None:
        """Raise `StoreClosedError` when it has been closed."""


def rows(
    owner: Owner, content: Content, start: bytes, stop: bytes | None, *, reverse: bool
) -> Iterator[tuple[bytes, bytes]]:
    """Return an iterator over the range, each step of which checks that *owner* is open.

    The range is found here, at the call, and not at the first ``next``. *content* is the caller's
    to keep as it is: `MemoryEngine` copies content that an iterator still holds before it changes.
    """
    bounds = content.bounds(start, stop)
    return _walk(owner, content, reversed(bounds) if reverse else iter(bounds))


def _walk(owner: Owner, content: Content, indexes: Iterator[int]) -> Iterator[tuple[bytes, bytes]]:
    for index in indexes:
        owner.check_open()
        yield content.pair(index)
    # A closed engine is an error even for an iterator that has just run out.
    owner.check_open()
