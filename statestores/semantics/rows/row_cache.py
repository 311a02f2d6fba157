"""Committed rows that were read or written recently: reading them again asks no engine.

Invariants:

* a row that is here is as the engine has it, and ``None`` where the engine has none: what is
  pending never comes here, and whatever changes the engine without `take` calls `forget`;
* only the owner of the store touches it: facades read the engine.

It is a plain dictionary in the order in which keys arrived, and the older half is dropped when it
is full. What is hot comes back with the next commit or read, so nothing need be moved at a hit.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import ClassVar, Generic, TypeVar

from statestores.spi.memory_budget import MemoryBudget

DEFAULT_READ_CACHE_BYTES = 16 * 1024 * 1024
"""Rows of 100 bytes: about 60,000. A process with very many stores gives each of them less, or all
of them one `MemoryBudget`."""

ROW_OVERHEAD_BYTES = 160
"""What a row takes in addition to the bytes of its key and value: two objects' headers, and its
place in a dictionary that may be one third full. Measured: 120 to 170."""

KEEP_ONE_IN = 8
"""Of the rows that are read from the engine, one in this many is kept. Keeping a row costs a third
of reading it, and most rows of a large store are not read again soon; those that are, come by
often."""


R = TypeVar("R")


class RecentRows(ABC, Generic[R]):
    """The rows, in whatever form, and how much memory they take."""

    __slots__ = ("_capacity_bytes", "_held_bytes", "_is_filled", "rows")

    overhead_bytes: ClassVar[int] = ROW_OVERHEAD_BYTES
    """What a row takes in addition to its key and what `_size` says."""

    def __init__(self, capacity_bytes: int, budget: MemoryBudget | None = None) -> None:
        """Begin with none; with a capacity of 0 it stays so. *budget* may lower the capacity."""
        self.rows: dict[bytes, R | None] = {}
        """By key. Readers look here directly: that is the hot path. It is never replaced."""

        self._capacity_bytes = (
            capacity_bytes if budget is None else min(capacity_bytes, budget.cache_bytes)
        )
        self._held_bytes = 0  # at least what they take: what was replaced is still counted
        self._is_filled = False  # whether there was ever no room

    @staticmethod
    @abstractmethod
    def _size(rows: Iterable[R]) -> int:
        """Return the bytes of *rows* without their keys."""

    def keep(self, key: bytes, row: R | None) -> None:
        """Take a row that was read from the engine."""
        size = self.overhead_bytes + len(key) + (0 if row is None else self._size([row]))
        if size <= self._capacity_bytes:
            self.rows[key] = row
            self._held_bytes += size
            if self._held_bytes > self._capacity_bytes:
                self._make_room()

    def take(self, rows: Mapping[bytes, R | None], size_bytes: int) -> None:
        """Take all rows of a commit; *size_bytes* is the length of keys and values, or more.

        A commit that is larger than the cache is a load, and empties it.
        """
        size = size_bytes + self.overhead_bytes * len(rows)
        if size > self._capacity_bytes:
            self.forget()
            return
        self.rows.update(rows)
        self._held_bytes += size
        if self._held_bytes > self._capacity_bytes:
            self._make_room()

    def forget(self) -> None:
        """Forget everything: the engine may have changed by other means."""
        self.rows.clear()
        self._held_bytes = 0
        self._is_filled = False

    def _make_room(self) -> None:
        """Drop the oldest rows down to half of the capacity, if it really is exceeded."""
        rows = self.rows
        self._held_bytes = self._taken()
        if self._held_bytes > self._capacity_bytes * 3 // 4:
            self._is_filled = True
            while self._held_bytes > self._capacity_bytes // 2:
                kept = list(islice(rows.items(), len(rows) // 2 + 1, None))
                rows.clear()
                rows.update(kept)
                self._held_bytes = self._taken()

    def _taken(self) -> int:
        """Return what the rows take."""
        rows = self.rows
        present = [row for row in rows.values() if row is not None]
        return self.overhead_bytes * len(rows) + sum(map(len, rows)) + self._size(present)


class RowCache(RecentRows[bytes]):
    """Rows as the engine has them."""

    __slots__ = ()

    @staticmethod
    def _size(rows: Iterable[bytes]) -> int:
        return sum(map(len, rows))

    def refresh(
        self, rows: Mapping[bytes, bytes | None], size_bytes: int, *, is_read: bool
    ) -> None:
        """Bring the rows up to a commit; *size_bytes* is the length of keys and values, or more.

        If the store *is_read*, the cache takes all of them until it is full. Otherwise it updates
        only what it has: most rows that are only written would cost time, and push out others.
        """
        if is_read and not self._is_filled:
            size = size_bytes + ROW_OVERHEAD_BYTES * len(rows)
            if self._held_bytes + size <= self._capacity_bytes:
                self.rows.update(rows)
                self._held_bytes += size
                return
            self._is_filled = True
        if rows.keys() <= self.rows.keys():  # who counts the same words again changes them all
            self.rows.update(rows)
            self._held_bytes += size_bytes
        else:
            changed = {key: rows[key] for key in rows.keys() & self.rows.keys()}
            self.rows.update(changed)
            self._held_bytes += sum(map(len, filter(None, changed.values())))
        if self._held_bytes > self._capacity_bytes:
            self._make_room()
