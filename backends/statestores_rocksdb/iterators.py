"""Iterators that end with an error when what they belong to is closed.

A driver's iterator keeps the database and its lock alive for as long as it exists, so closing must
drop the ones that a caller still holds. Each is therefore the frame of a generator, which can be
closed from outside, and a chain puts after it the error that its holder meets next. The chain costs
a tenth of a bare iteration; a Python object with ``__next__`` costs half.
"""

import time
from collections.abc import Generator, Iterator
from itertools import chain
from typing import Self
from weakref import ref

from statestores.errors import StoreClosedError

Pair = tuple[bytes, bytes]

_CROWD = 64
"""This many references are kept before those to finished iterators are sorted out. A ``WeakSet``
would cost more than a short scan itself."""


class OpenIterators:
    """The iterators of one engine or snapshot that may still be running."""

    __slots__ = ("_crowd", "_generators", "_owner", "is_open")

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._generators: list[ref[Generator[Pair, None, None]]] = []
        self._crowd = _CROWD
        self.is_open = True

    def add(self, rows: Generator[Pair, None, None]) -> Iterator[Pair]:
        """Return an iterator over *rows* that raises `StoreClosedError` after `close`.

        Requires: no `close` meanwhile; the engine's lock ensures it.
        """
        self._generators.append(ref(rows))
        if len(self._generators) > self._crowd:
            self._generators = [each for each in self._generators if each() is not None]
            self._crowd = 2 * len(self._generators) + _CROWD
        return chain(rows, _End(self))

    def close(self) -> None:
        """End all iterators, and drop what they hold of the driver. Idempotent.

        Requires: the engine's lock is not held: a running iterator may be waiting for it.
        """
        self.is_open = False
        for each in self._generators:
            while (rows := each()) is not None:
                try:
                    rows.close()
                    break
                except ValueError:
                    # It is running in another thread, for the duration of one step.
                    time.sleep(0.0001)

    def check_open(self) -> None:
        """Raise `StoreClosedError` after `close`."""
        if not self.is_open:
            raise StoreClosedError(f"{self._owner} is closed; open it again and scan anew")


class _End:
    """What follows the rows: nothing, or the error."""

    __slots__ = ("_iterators",)

    def __init__(self, iterators: OpenIterators) -> None:
        self._iterators = iterators

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Pair:
        self._iterators.check_open()
        raise StopIteration
