"""One instant of the database, for as long as somebody reads it.

A driver's raw iterator sees the database as it was when the iterator was made. Making one costs as
much as reading, so all reads between two batches share it: the engine's `first` and `last`, the
snapshots that were taken, and the ends of scans.

Three faults of rocksdict (seen in 0.3.29) shape this module:

* The iterators of a driver's *snapshot* show the database as it is when they are made, not as it
  was at the snapshot. Only the snapshot's point reads are right. So a scan of a view that is no
  longer the latest steps the shared raw iterator.
* ``items()`` ends in the same way at the end of its range and at damage or an I/O error. So when
  ``items()`` has ended, each scan looks for more with the raw iterator, which tells which it was.
* ``set_iterate_lower_bound`` does not bound an iterator from below, so the scan compares.
"""

from collections.abc import Generator, Iterator
from itertools import islice
from threading import Lock
from typing import cast

from rocksdict import Rdict, RdictIter, ReadOptions

from statestores_rocksdb.failures import fail
from statestores_rocksdb.iterators import OpenIterators, Pair

_FIRST_CHUNK = 32
_LARGEST_CHUNK = 1024
"""Pairs that are read while the lock is held, about half a millisecond."""

_CACHED_ROWS = 10_000
"""A scan goes through the block cache for this many rows. What it reads beyond them is left out of
the cache: it would drive out what is read again, and entering it costs a fifth of the scan."""

_READAHEAD_BYTES = 1024 * 1024
"""What such a scan reads from a file at a time."""


_SPENT = -1
"""The number of no change."""


class FrozenView:
    """The content at one instant.

    `first`, `last`, `read` and `scan` require that the engine's lock is held. The raw iterator has
    a position, which one reader at a time may move.

    No local variable holds the raw iterator when an error leaves: its traceback would keep it, and
    with it RocksDB's lock, after the engine is closed.
    """

    __slots__ = ("__weakref__", "_cursor", "_database", "_lock", "is_latest", "sequence")

    def __init__(self, database: Rdict, lock: Lock) -> None:
        self._database = database
        self._lock = lock
        self.sequence = _SPENT
        """The number of the last change that the view shows; after a failure `_SPENT`: RocksDB's
        iterator tells of damage once more at its next seek, wherever that is, so the engine's next
        reader gets a view of its own."""
        self.is_latest = True
        """Whether the engine still reads through the view; the engine resets it."""
        while self.sequence != database.latest_sequence_number():
            # A batch that is applied meanwhile may be in the iterator or not: try again.
            self.sequence = database.latest_sequence_number()
            self._cursor: RdictIter = database.iter()

    def first(self, start: bytes, stop: bytes | None) -> Pair | None:
        """Return the lowest pair with ``start <= key < stop``."""
        try:
            self._cursor.seek(start)
            key = self._cursor.key()
            if key is None:
                self._cursor.status()
                return None
            return None if stop is not None and key >= stop else (key, self._cursor.value())
        except Exception as error:  # noqa: BLE001  # the driver raises the class itself
            self.sequence = _SPENT
            fail(error, f"read from key {start!r} on")

    def last(self, start: bytes, stop: bytes | None) -> Pair | None:
        """Return the highest pair with ``start <= key < stop``."""
        try:
            if stop is None:
                self._cursor.seek_to_last()
            else:
                self._cursor.seek_for_prev(stop)
                if self._cursor.key() == stop:
                    self._cursor.prev()
            key = self._cursor.key()
            if key is None:
                self._cursor.status()
                return None
            return None if key < start else (key, self._cursor.value())
        except Exception as error:  # noqa: BLE001  # the driver raises the class itself
            self.sequence = _SPENT
            fail(error, f"read back to key {start!r}")

    def read(self, start: bytes, stop: bytes | None, limit: int, *, reverse: bool) -> list[Pair]:
        """Return up to *limit* pairs from the range's beginning, or in reverse from its end."""
        if reverse:
            return self._read_back(start, stop, limit)
        pairs: list[Pair] = []
        cursor = self._cursor
        try:
            cursor.seek(start)
            key = cursor.key()
            while key is not None and (stop is None or key < stop):
                pairs.append((key, cursor.value()))
                if len(pairs) == limit:
                    return pairs
                cursor.next()
                key = cursor.key()
            if key is None:
                cursor.status()
        except Exception as error:  # noqa: BLE001  # the driver raises the class itself
            self.sequence = _SPENT
            fail(error, f"read from key {start!r} on")
        finally:
            del cursor  # or an error's traceback keeps it
        return pairs

    def _read_back(self, start: bytes, stop: bytes | None, limit: int) -> list[Pair]:
        """Return up to *limit* pairs from the range's end."""
        pair = self.last(start, stop)
        pairs: list[Pair] = []
        try:
            while pair is not None:
                pairs.append(pair)
                if len(pairs) == limit:
                    break
                self._cursor.prev()
                key = self._cursor.key()
                if key is None:
                    self._cursor.status()
                    break
                if key < start:
                    break
                pair = (key, self._cursor.value())
        except Exception as error:  # noqa: BLE001  # the driver raises the class itself
            self.sequence = _SPENT
            fail(error, f"scan back from key {pairs[-1][0]!r}")
        return pairs

    def scan(
        self, start: bytes, stop: bytes | None, iterators: OpenIterators, *, reverse: bool
    ) -> Iterator[Pair]:
        """Return an iterator over the range, one of *iterators*.

        It reads nothing before its first step: the view itself is frozen.
        """
        return iterators.add(self._rows(start, stop, reverse=reverse))

    def _rows(
        self, start: bytes, stop: bytes | None, *, reverse: bool
    ) -> Generator[Pair, None, None]:
        """Yield the pairs of the range; the raw iterator does the first few and the last look.

        So a short scan costs no iterator of its own, and a long one little more than the driver's.
        """
        limit = _FIRST_CHUNK
        cached: int | None = _CACHED_ROWS
        while True:
            with self._lock:
                pairs = self.read(start, stop, limit, reverse=reverse)
            yield from pairs
            if len(pairs) < limit:
                return
            start, stop = beyond(pairs[-1], start, stop, reverse=reverse)
            limit = min(2 * limit, _LARGEST_CHUNK)
            with self._lock:
                # The running iterator compares with bytes that only the bounds keep alive.
                items, _bounds = self._items(start, stop, reverse=reverse, bulk=cached is None)
            items = islice(items, cached)
            cached = None
            pair = None
            if reverse:
                for pair in items:
                    if pair[0] < start:
                        return
                    yield pair
            else:
                for pair in items:
                    yield pair
            del items  # or the traceback of an error at the next turn keeps it
            if pair is not None:
                start, stop = beyond(pair, start, stop, reverse=reverse)

    def _items(
        self, start: bytes, stop: bytes | None, *, reverse: bool, bulk: bool
    ) -> tuple[Iterator[Pair], ReadOptions]:
        """Return the driver's own iterator, and its bounds; one over nothing if it shows more.

        A *bulk* one reads far ahead, and past the block cache.
        """
        bounds = ReadOptions()
        if bulk:
            bounds.fill_cache(False)  # type: ignore[call-arg]  # noqa: FBT003  # its stub lacks it
            bounds.set_readahead_size(_READAHEAD_BYTES)
        if stop is not None:
            bounds.set_iterate_upper_bound(stop)
        if self._shows_present():
            # What such an iterator meets it does not tell: the raw one does, at the last look.
            if reverse:
                items = self._database.items(backwards=True, read_opt=bounds)
            else:
                items = self._database.items(from_key=start, read_opt=bounds)
            if self._shows_present():
                # In raw mode keys are bytes; the driver's types cover all modes together.
                return cast("Iterator[Pair]", items), bounds
        return iter(()), bounds

    def _shows_present(self) -> bool:
        """Whether an iterator that is made between two calls that say yes shows the same."""
        return self.is_latest and self.sequence == self._database.latest_sequence_number()

    def release(self) -> None:
        """Drop the raw iterator, which keeps the database open. Requires: the lock, no reader."""
        del self._cursor


def beyond(
    pair: Pair, start: bytes, stop: bytes | None, *, reverse: bool
) -> tuple[bytes, bytes | None]:
    """Return the bounds of what follows *pair* in a scan."""
    return (start, pair[0]) if reverse else (pair[0] + b"\0", stop)
