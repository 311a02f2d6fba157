"""The engine on RocksDB: one database, one column family, a write-ahead log that is always on.

Invariants:

* Reads never go back in time: once a thread has seen a batch by `get`, its `first`, `last`, `scan`
  and `snapshot` show it too. They ask for the database's last sequence number before they use the
  view that earlier reads have left, so they need not wait for a batch that is being written.
* `close` leaves none of the driver's objects behind, not even those that a caller holds: each of
  them would keep RocksDB's lock.
"""

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from itertools import islice
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, NoReturn, Self
from weakref import WeakSet

from rocksdict import Checkpoint, DbClosedError, Rdict, WriteOptions
from rocksdict import WriteBatch as DriverBatch

from statestores.errors import InvalidArgumentError, StorageError, StoreClosedError
from statestores.files.directory_lock import DirectoryLock
from statestores.files.local_path import engine_directory
from statestores.files.plain_files import check_plain_files
from statestores.spi import (
    Capabilities,
    Durability,
    Engine,
    EngineSnapshot,
    MemoryShare,
    parse_options,
)
from statestores.spi.engine import WriteBatch
from statestores.spi.forking import use_driver
from statestores.spi.write_order import (
    ORDERED_FROM,
    columns_in_write_order,
)
from statestores_rocksdb.clean_close import SEAL, seal
from statestores_rocksdb.database import driver_options, open_database
from statestores_rocksdb.failures import fail, is_borrow_conflict
from statestores_rocksdb.frozen_view import FrozenView
from statestores_rocksdb.ingestion import SortedFiles, remove_left_files
from statestores_rocksdb.iterators import OpenIterators
from statestores_rocksdb.options import RocksDBOptions
from statestores_rocksdb.snapshot import RocksDBSnapshot
from statestores_rocksdb.view_reads import ViewReads

_LOG = logging.getLogger(__name__)

_KEYS_PER_READ = 256
"""Keys of one driver call in `get_many`: fewer cost more calls, more gain nothing."""

_EXACT_COUNT = 10_000
"""Up to this number `approximate_num_keys` counts, in a few milliseconds."""


class RocksDBEngine(ViewReads, Engine):
    """An ordered map in a RocksDB database that survives crashes and reports damage."""

    name: ClassVar[str] = "rocksdb"
    capabilities: ClassVar[Capabilities] = Capabilities(
        persistent=True,
        durable_commit=True,
        detects_corruption=True,
        native_checkpoint=True,
        bulk_ingest=True,
    )

    def __init__(
        self,
        path: Path,
        options: RocksDBOptions,
        database: Rdict,
        owner: DirectoryLock,
        memory: MemoryShare | None = None,
    ) -> None:
        """Take over an open *database* and its directory's lock; see `open`."""
        self._path = path
        self._options = options
        self._database = database
        self._owner = owner
        self._memory = memory
        self._open = True
        self._is_released = False
        self._lock = Lock()
        self._view: FrozenView | None = None
        self._views: WeakSet[FrozenView] = WeakSet()
        """All views that are still read, including older ones."""
        self._iterators = OpenIterators(f"the RocksDB engine in {str(path)!r}")
        self._snapshots: WeakSet[RocksDBSnapshot] = WeakSet()
        # Bound once, so that a read is one flat call; `close` puts an error in their place.
        self._get: Callable[[Any], Any] = database.get
        self._write: Callable[..., None] = database.write
        self._sequence: Callable[[], int] = database.latest_sequence_number
        self._synced = WriteOptions()
        self._synced.sync = True
        self._unsynced = WriteOptions()

    @classmethod
    def open(cls, path: str | PathLike[str], options: Mapping[str, object] | None = None) -> Self:
        use_driver("RocksDB")
        parsed = parse_options(RocksDBOptions, options)
        directory = engine_directory(path)
        check_plain_files(directory, SEAL)
        owner = DirectoryLock.acquire(directory)
        memory = None
        try:
            memory = None if parsed.memory_budget is None else parsed.memory_budget.join()
            remove_left_files(directory)
            database = open_database(directory, parsed)
        except BaseException:
            owner.release()
            if memory is not None:
                memory.release()
            raise
        return cls(directory, parsed, database, owner, memory)

    def get(self, key: bytes) -> bytes | None:
        try:
            value: bytes | None = self._get(key)
        except Exception as error:  # noqa: BLE001  # the driver raises the class itself
            fail(error, f"read {key!r}")
        return value

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        values: list[bytes | None] = []
        try:
            for index in range(0, len(keys) or 1, _KEYS_PER_READ):
                values += self._get(list(keys[index : index + _KEYS_PER_READ]))
        except Exception as error:  # noqa: BLE001  # the driver raises the class itself
            fail(error, f"read {len(keys)} keys")
        return values

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        synced = durability is Durability.POWER_LOSS
        try:
            writes = DriverBatch(raw_mode=True)
            keys, values = columns_in_write_order(batch)
            try:  # no step of Python for each row
                deque(map(writes.put, keys, values), maxlen=0)
            except ValueError:  # the driver's, for `None`: something is deleted
                writes = _with_deletions(batch, keys)
            self._write(writes, self._synced if synced else self._unsynced)
            with self._lock:
                self._forget_view()
        except Exception as error:  # noqa: BLE001  # the driver raises the class itself
            self._check_open()  # a wrong batch may have been met first
            fail(error, f"apply a batch of {len(batch)} changes")

    def snapshot(self) -> EngineSnapshot:
        with self._lock:
            while True:
                snapshot = RocksDBSnapshot(
                    str(self._path), self._present_view(), self._database.snapshot(), self._lock
                )
                # Otherwise a batch was applied between the two, and they may differ.
                if self._present_view() is snapshot.view:
                    self._snapshots.add(snapshot)
                    return snapshot

    def approximate_num_keys(self, start: bytes, stop: bytes | None = None) -> int:
        """Estimate the number of keys with ``start <= key < stop``.

        Exact up to 10,000 keys. Beyond that, it is RocksDB's estimate for the *whole* database: it
        includes the keys outside the range, and overwritten ones that are not compacted yet.
        """
        with self._lock:
            self._check_open()
            estimate = self._database.property_int_value("rocksdb.estimate-num-keys")
        counted = sum(1 for _ in islice(self.scan(start, stop), _EXACT_COUNT))
        if counted < _EXACT_COUNT:
            return counted
        return max(counted, estimate or 0)

    def checkpoint(self, path: str | PathLike[str]) -> None:
        """Copy the engine's present state into the new directory *path*.

        On the same file system the files are linked, not copied. `open` opens the result.

        Raises:
            StoreClosedError: The engine is closed.
            InvalidArgumentError: There is something at *path*.
            StorageError: The copy cannot be written.
        """
        self._check_open()
        target = Path(path)
        if os.path.lexists(target):
            raise InvalidArgumentError(
                f"a checkpoint needs a new directory, and {str(target)!r} exists; choose another"
            )
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"cannot create {str(target.parent)!r}: {error.strerror or error}; check the path "
                "and the rights"
            ) from error
        try:
            Checkpoint(self._database).create_checkpoint(str(target))
        except Exception as error:  # noqa: BLE001  # the driver raises the class itself
            fail(error, f"write a checkpoint to {str(target)!r}")

    @classmethod
    def driver(cls) -> str:
        return f"rocksdict {version('rocksdict')}"

    def ingest(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        self._check_open()
        files = SortedFiles(self._path, driver_options(self._options))
        try:
            files.write(pairs)
            with self._lock:
                self._check_open()
                self._forget_view()
                files.move_into(self._database)
        finally:
            files.remove()

    @property
    def is_open(self) -> bool:
        return self._open

    def close(self) -> None:
        # Each step may be repeated, so that an interrupted close can be repeated too.
        with self._lock:
            if self._is_released:
                return
            self._open = False
            self._get = self._write = self._sequence = self._refuse
            snapshots = list(self._snapshots)
        # Outside the lock, which a running iterator may be waiting for.
        self._iterators.close()
        for snapshot in snapshots:
            snapshot.close()
        with self._lock:
            self._view = None
            for view in list(self._views):
                view.release()
        self._close_database()
        seal(self._path)
        self._owner.release()
        if self._memory is not None:
            self._memory.release()
        self._is_released = True

    def _close_database(self) -> None:
        """Close the driver's handle, the last object that keeps the database open.

        The driver moves the last writes from the log into a table first; when the disk is full or
        files are damaged it cannot, and they stay safe in the log, as after a crash. That is not a
        failure to close, and no reason to raise over the error that the caller may be handling: a
        warning in the program's log says so.
        """
        while True:
            try:
                self._database.close()
            except DbClosedError:  # by a close that was interrupted
                return
            except Exception as error:  # noqa: BLE001  # the driver raises the class itself
                if is_borrow_conflict(error):
                    # A read in another thread holds the handle for one more driver call.
                    time.sleep(0.0001)
                    continue
                _LOG.warning(
                    "closing the RocksDB database in %r left the last writes in its log: %s",
                    str(self._path),
                    error,
                )
            return

    def _present_view(self) -> FrozenView:
        view = self._view
        if view is not None and view.sequence == self._sequence():
            return view
        self._check_open()
        self._forget_view()
        self._view = view = FrozenView(self._database, self._lock)
        self._views.add(view)
        return view

    def _forget_view(self) -> None:
        """Leave the view to those who still read its instant. Requires: the lock."""
        if self._view is not None:
            self._view.is_latest = False
            self._view = None

    def _check_open(self) -> None:
        if not self._open:
            self._refuse()

    def _refuse(self, *_: object) -> NoReturn:
        """Stand in for a driver's method after `close`."""
        raise StoreClosedError(
            f"the RocksDB engine in {str(self._path)!r} is closed; open it again"
        )


def _with_deletions(batch: WriteBatch, keys: Iterable[bytes]) -> DriverBatch:
    """Return the changes of *batch*, some of which are deletions, as the driver takes them.

    *keys* are its own in write order.
    """
    writes = DriverBatch(raw_mode=True)
    put, delete = writes.put, writes.delete
    # Deletions add keys to the table of recent writes and take none away: of few, too, to sort them
    # costs half of what it saves. Of many, *keys* are in order already.
    if len(batch) < ORDERED_FROM:
        keys = sorted(batch)
    rows = batch if type(batch) is dict else dict(batch.items())  # each key of a view is a step
    for key, value in zip(keys, map(rows.__getitem__, keys), strict=True):
        if value is None:
            delete(key)
        else:
            put(key, value)
    return writes
