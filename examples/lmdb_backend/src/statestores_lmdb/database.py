"""One open LMDB environment: its views, its write transactions, and the growth of its map.

What LMDB leaves to its callers, and how it is met here:

* An environment may be open once in a process. The lock that the engine holds sees to it.
* Closing it, or growing its map, ends every transaction under whoever is reading. So each call
  into the driver that reads is made under the *gate*, and so are closing and growing. Batches are
  written outside of it: readers never wait for a commit.
* A transaction that reads keeps LMDB from using the space of later commits again. One is therefore
  shared by all reads between two commits, and ends with the last scan or snapshot that needs it;
  what is left at `close` is ended then.
* A child after a fork shares the table of readers with its parent, and would free the parent's
  entries, or read pages that the parent writes anew. The contract's `Engine` refuses in a child
  (ENG-37); here snapshots and scans do as well.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from shutil import rmtree
from threading import Lock
from weakref import WeakSet

import lmdb
from statestores.errors import (
    InvalidArgumentError,
    StorageError,
    UnsupportedFormatError,
)

from statestores_lmdb.failures import closed, forked, translated
from statestores_lmdb.layers import CHUNK_BYTES, LAYER_BYTES, Tables, Transaction, delete, put
from statestores_lmdb.options import LMDBOptions

_FORMAT_KEY = b"statestores-lmdb format"
_FORMAT = b"1"
"""Tables `pairs` and `tails` as `layers` describes them."""

_FILE = "data.mdb"
_SLACK_BYTES = 1024 * 1024
"""Room for the pages that a batch rewrites beyond its own bytes."""


class View:
    """A transaction that reads: the content as of one commit. It ends when nobody holds it."""

    __slots__ = ("__weakref__", "transaction")

    def __init__(self, transaction: Transaction) -> None:
        self.transaction = transaction


class Database:
    """An open environment in a directory. Requires: the directory is locked by the caller."""

    def __init__(self, directory: Path, options: LMDBOptions) -> None:
        """Open the environment, creating it when it is missing."""
        self.path = str(directory)
        self.gate = Lock()
        self._pid = os.getpid()
        self._views: WeakSet[View] = WeakSet()
        self._current: View | None = None
        self._is_stale = False
        self._open = True
        try:
            self._environment = _open_environment(directory, options)
        except lmdb.Error as error:
            raise translated(error, self.path) from error
        try:
            self.tables = _open_tables(self._environment, self.path)
            _make_durable(directory)
        except lmdb.Error as error:
            self._environment.close()
            raise translated(error, self.path) from error
        except BaseException:
            self._environment.close()
            raise

    @property
    def is_open(self) -> bool:
        """Whether `close` has not been called."""
        return self._open

    def check_open(self) -> None:
        """Raise `StoreClosedError` when the database is closed, or is another process's."""
        if os.getpid() != self._pid:
            raise forked(self.path, self._pid)
        if not self._open:
            raise closed(self.path)

    def view(self) -> View:
        """Return the view of the last commit. Requires: the gate."""
        self.check_open()
        if self._current is None or self._is_stale:
            try:
                self._current = View(self._environment.begin())
            except lmdb.Error as error:
                raise translated(error, self.path) from error
            self._views.add(self._current)
        return self._current

    def write(self, batch: Mapping[bytes, bytes | None]) -> None:
        """Write all of *batch* to the disk, or nothing."""
        self._grow_early()
        # Before the write: an interrupt may come between it and the last line here.
        self._is_stale = True
        try:
            while (full := self._write_unless_full(batch)) is not None:
                wanted = sum(len(key) + len(value or b"") for key, value in batch.items())
                if not self._grow(wanted + _SLACK_BYTES):
                    raise StorageError(
                        f"the map of {self.path!r} is full and cannot grow under an open scan or "
                        "snapshot; close them and apply the batch again, or open the engine with "
                        "a larger 'map_bytes'"
                    ) from full
        finally:
            # Also after an interrupt, which may have come when the batch was in already: whoever
            # looks what became of it has to see it.
            with self.gate:
                self._current = None
                self._is_stale = False

    def _write_unless_full(self, batch: Mapping[bytes, bytes | None]) -> lmdb.Error | None:
        """Write *batch*; return the error when the map has no room for it."""
        try:
            self._write_once(batch)
        except lmdb.MapFullError as error:
            return error
        except lmdb.Error as error:
            raise translated(error, self.path) from error
        return None

    def _write_once(self, batch: Mapping[bytes, bytes | None]) -> None:
        with self._environment.begin(write=True) as transaction:
            for key, value in batch.items():
                if value is None:
                    delete(transaction, self.tables, key)
                else:
                    put(transaction, self.tables, key, value)

    def _grow_early(self) -> None:
        """Grow while nobody looks and half of the map is free: later somebody may be looking.

        Before a batch and not after it, since growing may fail.
        """
        facts = self._environment.info()
        used = (facts["last_pgno"] + 1) * os.sysconf("SC_PAGE_SIZE")
        if used * 2 > facts["map_size"]:
            self._grow(0)

    def _grow(self, wanted: int) -> bool:
        """Double the map, or add *wanted* bytes if that is more; return whether it was possible."""
        with self.gate:
            self._current = None
            if self._views:
                return False
            size = self._environment.info()["map_size"]
            try:
                self._environment.set_mapsize(size + max(size, _whole_pages(wanted)))
            except lmdb.Error as error:
                # LMDB gives up the old map first, and has none now.
                self._open = False
                self._environment.close()
                raise translated(error, self.path) from error
        return True

    def copy_to(self, target: Path) -> None:
        """Write a compact copy of the last commit as an engine in the new directory *target*.

        It is made under another name and then renamed, so a half copy is never taken for a whole.
        """
        if os.path.lexists(target):
            raise InvalidArgumentError(
                f"a checkpoint needs a new directory, and {str(target)!r} exists; choose another"
            )
        with self.gate:
            held = self.view()  # as long as it lives, the map does not grow
        partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
        try:
            partial.mkdir(parents=True)
            self._environment.copy(str(partial), compact=True)
            for path in (partial / _FILE, partial):
                _make_durable(path)
            partial.rename(target)
            _make_durable(target.parent)
        except OSError as error:
            raise StorageError(
                f"cannot write a checkpoint to {str(target)!r}: {error.strerror or error}; check "
                "the path, the rights and the space on the disk"
            ) from error
        except lmdb.Error as error:
            raise translated(error, str(target)) from error
        finally:
            del held
            rmtree(partial, ignore_errors=True)

    def close(self) -> None:
        """End every view and give the file up. Idempotent; in a forked child, only forget."""
        if os.getpid() != self._pid:
            self._open = False
            return
        with self.gate:
            self._open = False
            self._current = None
            for view in list(self._views):
                view.transaction.abort()
            self._environment.close()


def _open_environment(directory: Path, options: LMDBOptions) -> lmdb.Environment:
    environment = lmdb.open(
        str(directory),
        map_size=_whole_pages(options.map_bytes),
        max_readers=options.max_views,
        max_dbs=2,
        readahead=options.readahead,
    )
    # Entries of readers that were killed; they would keep their space for ever.
    environment.reader_check()
    return environment


def _open_tables(environment: lmdb.Environment, path: str) -> Tables:
    """Open the tables, or create them in a file that is empty. Another file is left alone."""
    longest = LAYER_BYTES + CHUNK_BYTES + 1
    if environment.max_key_size() < longest:
        raise UnsupportedFormatError(
            f"this LMDB takes keys of {environment.max_key_size()} bytes, and the format needs "
            f"{longest}; install the package lmdb as it is published"
        )
    with environment.begin() as transaction:
        found = transaction.get(_FORMAT_KEY)
        is_new = transaction.stat()["entries"] == 0
    if found != _FORMAT and not is_new:
        raise UnsupportedFormatError(
            f"the file in {path!r} has format {found!r}, expected {_FORMAT!r}; it was written by "
            "a later release, or by another program"
        )
    with environment.begin(write=True) as transaction:
        tables = Tables(
            pairs=environment.open_db(b"pairs", txn=transaction),
            tails=environment.open_db(b"tails", txn=transaction),
        )
        if is_new:
            transaction.put(_FORMAT_KEY, _FORMAT)
    return tables


def _whole_pages(size: int) -> int:
    """Return *size*, rounded up to whole pages of the operating system."""
    page = os.sysconf("SC_PAGE_SIZE")
    return -(-size // page) * page


def _make_durable(path: Path) -> None:
    """Wait until the file or directory at *path* is on disk: LMDB leaves out the directory's."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StorageError(
            f"cannot make {str(path)!r} durable: {error.strerror or error}; check the disk"
        ) from error
