"""Reads of LevelDB: of the database and of its snapshots, which plyvel lets us read alike."""

import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from threading import Lock
from typing import Never, Protocol

from statestores.spi import EngineReader
from statestores_leveldb.failures import DRIVER_ERRORS, closed, translated
from statestores_leveldb.row_cursor import DriverIterator, RowCursor

_READ_INTERVAL_S = 0.0001
"""How often to check whether the reads that were under way have ended: each takes microseconds."""


class RawIterator(Protocol):
    """The part of ``plyvel.RawIterator`` that is used. Each move raises when it meets damage."""

    def seek(self, target: bytes) -> None: ...
    def seek_to_last(self) -> None: ...
    def prev(self) -> None: ...
    def valid(self) -> bool: ...
    def key(self) -> bytes: ...
    def value(self) -> bytes: ...
    def close(self) -> None: ...


class Source(Protocol):
    """The part of ``plyvel.DB`` and ``plyvel.Snapshot`` that is used."""

    def get(self, key: bytes, *, verify_checksums: bool) -> bytes | None: ...
    def iterator(
        self, *, start: bytes | None, stop: bytes | None, reverse: bool, verify_checksums: bool
    ) -> DriverIterator: ...
    def raw_iterator(self, *, verify_checksums: bool) -> RawIterator: ...


class LevelDBReads(EngineReader):
    """The reading half of the engine and of its snapshots.

    Invariants, because a read that is inside LevelDB while the database is closed would use freed
    memory:

    * the iterators that `first` and `last` share are used only under the lock;
    * the iterator of a scan belongs to a `RowCursor`, created and registered under the lock;
    * `get` takes no lock: it would cost as much as a cached get. `_stop_reads` waits for it.
    """

    def __init__(self, source: Source, path: str) -> None:
        self._source = source
        self._path = path
        self._get: Callable[[bytes], bytes | None] = _verified_get(source)
        self._lock = Lock()
        self._seeker: RawIterator | None = None
        self._finder: DriverIterator | None = None
        self._cursors: weakref.WeakSet[RowCursor] = weakref.WeakSet()
        self._last_get: weakref.ref[Callable[[bytes], bytes | None]] | None = None
        self._reading = True
        self._is_stale = False
        """Whether a batch may have been applied since the shared iterators were opened: from the
        moment before it is written until they are dropped, which an interrupt may prevent."""

    def get(self, key: bytes) -> bytes | None:
        try:
            return self._get(key)
        except DRIVER_ERRORS as error:
            raise translated(error, self._path) from error.with_traceback(None)
        except BaseException as error:
            error.__traceback__ = None  # see `_stop_reads`
            raise

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        if not self._reading:
            raise closed(self._path)
        try:
            # Not through a local name for `self._get`: a traceback that someone keeps would keep
            # it, too, and `_stop_reads` would wait for that.
            return [self._get(key) for key in keys]
        except DRIVER_ERRORS as error:
            raise translated(error, self._path) from error.with_traceback(None)
        except BaseException as error:
            error.__traceback__ = None  # see `_stop_reads`
            raise

    def first(self, start: bytes, stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        with self._lock:
            if self._is_stale:
                self._drop_seeker()
            try:
                finder = self._finder or self._open_finder()
                finder.seek(start)
                found = next(finder, None)
                if found is not None:
                    return found if stop is None or found[0] < stop else None
                # This iterator ends in the same way at the end and at damage. Only a step of the
                # other one raises where LevelDB has skipped something on the way to the end.
                (self._seeker or self._open_seeker()).seek(start)
            except DRIVER_ERRORS as error:
                # An iterator that has met damage reports it at every later step.
                self._drop_seeker()
                raise translated(error, self._path) from error
            return None

    def last(self, start: bytes, stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        with self._lock:
            if self._is_stale:
                self._drop_seeker()
            try:
                seeker = self._seeker or self._open_seeker()
                if stop is None:
                    seeker.seek_to_last()
                else:
                    seeker.seek(stop)
                    if seeker.valid():
                        seeker.prev()
                    else:
                        seeker.seek_to_last()
                if not seeker.valid():
                    return None
                key = seeker.key()
                return (key, seeker.value()) if key >= start else None
            except DRIVER_ERRORS as error:
                self._drop_seeker()
                raise translated(error, self._path) from error

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        with self._lock:
            if not self._reading:
                raise closed(self._path)
            try:
                rows = self._source.iterator(
                    start=_below(start) if reverse else start,
                    stop=stop,
                    reverse=reverse,
                    verify_checksums=True,
                )
            except DRIVER_ERRORS as error:
                raise translated(error, self._path) from error
            cursor = RowCursor(rows, self._path, partial(self._verify_empty, start))
            self._cursors.add(cursor)
        return cursor.rows(start, reverse=reverse)

    def _verify_empty(self, start: bytes) -> None:
        """Raise when there is damage in the range, which a scan found empty.

        Every block that the scan could have skipped lies before the first row that there is from
        *start* on, so one step of a raw iterator skips it as well, and reports that it did.
        """
        with self._lock:
            try:
                (self._seeker or self._open_seeker()).seek(start)
            except DRIVER_ERRORS as error:
                self._drop_seeker()
                raise translated(error, self._path) from error

    def _open_seeker(self) -> RawIterator:
        """Open the iterator that `first` and `last` share until the next batch.

        A new one costs two reads, a seek on an open one less than one.
        """
        if not self._reading:
            raise closed(self._path)
        self._seeker = self._source.raw_iterator(verify_checksums=True)
        return self._seeker

    def _open_finder(self) -> DriverIterator:
        """Open the iterator that `first` uses until the next batch.

        It finds a row in two calls of the driver; a raw iterator takes four.
        """
        if not self._reading:
            raise closed(self._path)
        self._finder = self._source.iterator(
            start=None, stop=None, reverse=False, verify_checksums=True
        )
        return self._finder

    def _drop_seeker(self) -> None:
        """Close the shared iterators: they would go on showing the content as of their creation."""
        # Forgotten first: an interrupt in between must leave nobody a closed iterator.
        seeker, finder = self._seeker, self._finder
        self._seeker = self._finder = None
        if seeker is not None:
            seeker.close()
        if finder is not None:
            finder.close()

    def _stop_reads(self) -> None:
        """Refuse new reads, end the open scans, and wait for the reads that are under way.

        A ``get`` that is inside LevelDB holds a reference to the callable that `_get` was, so the
        callable ends when the last of them returns. This is why `get` needs no lock.

        One that raised would hold it as well, through the frame in its error's traceback, for as
        long as anybody keeps the traceback: closing the engine while the error is handled would
        wait for itself. So `get` and `get_many` cut their tracebacks above the callable, whatever
        was raised in it, even an interrupt.

        All of it may be repeated: a stop that was interrupted has not waited.
        """
        with self._lock:
            self._reading = False
            self._drop_seeker()
            cursors = list(self._cursors)
            if self._last_get is None:
                # One line, so that no interrupt comes in between.
                self._last_get, self._get = weakref.ref(self._get), self._refuse
        for cursor in cursors:
            cursor.close()
        # Not with a callback on the reference: an interrupt in it would be lost, and so would its
        # call.
        while self._last_get() is not None:
            time.sleep(_READ_INTERVAL_S)

    def _refuse(self, key: bytes) -> Never:
        raise closed(self._path)


def _verified_get(source: Source) -> Callable[[bytes], bytes | None]:
    """Return the point read of *source*.

    A function rather than a ``partial``: the interpreter calls it with half the overhead.
    """
    get = source.get

    def verified(key: bytes) -> bytes | None:
        # Without verify_checksums, LevelDB returns what a damaged block holds.
        return get(key, verify_checksums=True)

    return verified


def _below(key: bytes) -> bytes | None:
    """Return a key just below *key* for the lower bound of a scan in reverse, or ``None``.

    plyvel leaves out a row at the bound itself when that is the first one it meets. Few keys lie
    between the result and *key*, and `RowCursor` cuts off what it finds there.
    """
    if not key:
        return None
    if key.endswith(b"\0"):
        return key[:-1] or None
    return key[:-1] + bytes((key[-1] - 1,)) + b"\xff" * 8
