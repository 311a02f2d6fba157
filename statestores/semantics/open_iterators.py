"""Which iterators of a store are open: each of them may hold a snapshot of the engine.

An iterator is open from the call that makes it until it is exhausted, closed or let go. Nothing is
wrapped around it: the interpreter knows whether a generator has ended.
"""

import threading
import time
import weakref
from collections.abc import Generator
from inspect import GEN_CLOSED, getgeneratorstate
from typing import Any, TypeVar

T = TypeVar("T")


class _Opened(weakref.ref["Generator[Any, None, None]"]):
    """An iterator that was opened, for as long as somebody has it."""

    __slots__ = ("number", "since_ms")

    number: int
    since_ms: int


class OpenIterators:
    """The iterators of one store and its facades. Any thread may use it."""

    __slots__ = ("_lock", "_opened", "total")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened: dict[int, _Opened] = {}
        self.total = 0

    def add(self, iterator: Generator[T, None, None]) -> Generator[T, None, None]:
        """Return *iterator*, and count it."""
        opened = _Opened(iterator, self._forget)
        opened.since_ms = time.time_ns() // 1_000_000
        with self._lock:
            self.total = opened.number = self.total + 1
        self._opened[opened.number] = opened
        return iterator

    def _forget(self, opened: weakref.ref[Generator[Any, None, None]]) -> None:
        # Without the lock: it may be called within any allocation, also of one who holds it.
        self._opened.pop(opened.number, None)  # type: ignore[attr-defined]  # it is an _Opened

    def count_and_oldest_ms(self) -> tuple[int, int | None]:
        """Return how many are open, and when the oldest of them was opened."""
        count, oldest_ms = 0, None
        # dict.copy is one step of the interpreter; a loop over the live dict would not be.
        for opened in self._opened.copy().values():
            iterator = opened()
            if iterator is not None and getgeneratorstate(iterator) != GEN_CLOSED:
                count += 1
                if oldest_ms is None or opened.since_ms < oldest_ms:
                    oldest_ms = opened.since_ms
        return count, oldest_ms
