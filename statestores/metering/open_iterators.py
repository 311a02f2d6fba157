"""Which iterators of a store are open: each of them may hold a snapshot of the engine.

An iterator is open from the call that makes it until it is exhausted, closed or let go. Nothing is
wrapped around it and nothing is called at its end: the interpreter knows whether a generator has
ended, and is asked when somebody wants to know.
"""

import threading
from collections import deque
from collections.abc import Generator
from time import time_ns
from typing import Any, TypeAlias, TypeVar
from weakref import ref

from statestores.spi.forking import renew_after_fork

T = TypeVar("T")

_Opened: TypeAlias = tuple["ref[Generator[Any, None, None]]", int]
"""An iterator, if it is still there, and when it was opened, in nanoseconds since the epoch."""

_FORGET_FROM = 64
"""From this many entries on, those of iterators that have ended are dropped."""


def _is_open(opened: _Opened) -> bool:
    iterator = opened[0]()
    # What `inspect.getgeneratorstate` asks, in a tenth of its time; every generator has it.
    return iterator is not None and iterator.gi_frame is not None  # type: ignore[attr-defined]


class OpenIterators:
    """The iterators of one store and its facades. Any thread may use it.

    Entries are appended without the lock, which a deque allows; whoever removes or counts them
    holds it.
    """

    __slots__ = ("__weakref__", "_forget_from", "_forgotten", "_lock", "_opened")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened: deque[_Opened] = deque()
        self._forgotten = 0
        self._forget_from = _FORGET_FROM
        renew_after_fork(self)

    def renew_after_fork(self) -> None:
        """Have a free lock, in a forked child (ENG-43)."""
        self._lock = threading.Lock()

    def add(self, iterator: Generator[T, None, None]) -> Generator[T, None, None]:
        """Return *iterator*, and count it."""
        opened = self._opened
        opened.append((ref(iterator), time_ns()))
        if len(opened) >= self._forget_from:
            self._forget_ended()
        return iterator

    def _forget_ended(self) -> None:
        """Drop the entries of iterators that have ended, unless somebody is already doing so."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            entries = self._opened
            for _ in range(len(entries)):
                opened = entries.popleft()
                # `_is_open`, written out: its call is a tenth of a short range.
                iterator = opened[0]()
                if iterator is not None and iterator.gi_frame is not None:  # type: ignore[attr-defined]  # see there
                    entries.append(opened)
                else:
                    self._forgotten += 1
            self._forget_from = max(_FORGET_FROM, 2 * len(entries))
        finally:
            self._lock.release()

    @property
    def total(self) -> int:
        """How many were ever opened."""
        with self._lock:
            return self._forgotten + len(self._opened)

    def count_and_oldest_ms(self) -> tuple[int, int | None]:
        """Return how many are open, and when the oldest of them was opened."""
        with self._lock:
            # deque.copy is one step of the interpreter; a loop over the live one would not be.
            times = [opened[1] for opened in self._opened.copy() if _is_open(opened)]
        return len(times), min(times) // 1_000_000 if times else None
