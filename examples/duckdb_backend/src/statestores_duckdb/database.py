"""One open DuckDB file: its views, and its batches.

What DuckDB leaves to its callers, and how it is met here:

* A connection takes one query at a time. So each read takes a `View` with a connection of its own
  from a pool; a scan or a snapshot keeps one, in a transaction that stays at its moment.
* The log is a file that comes and goes. DuckDB waits for what is in it, and not for its entry in
  the directory: that is made durable here with each batch, which costs little when it is already.
* A child after a fork has none of the database's threads. The contract's `Engine` refuses in a
  child (ENG-37); here snapshots and scans do as well.
* DuckDB creates a file that is missing, and replays no log into it. A mark, or a log, beside it
  tells a new database from a lost one.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from weakref import finalize

import duckdb
from statestores.errors import (
    CommitInDoubtError,
    InvalidArgumentError,
    StorageError,
    StoreClosedError,
    StoreCorruptedError,
    UnsupportedFormatError,
)

from statestores_duckdb.failures import DRIVER_ERRORS, closed, forked, not_committed, translated
from statestores_duckdb.options import DuckDBOptions
from statestores_duckdb.views import View

REFUSED_IN_PATHS = "?\\"
r"""What DuckDB does not take as a part of a path: it looks for the log of ``a?b/x`` at
``a.wal?b/x``, and reads ``a\b`` as ``a/b``. It follows links first, so that none helps."""

_FILE = "pairs.duckdb"
_CREATED = "CREATED"
"""Made after the file, and empty: if it is there, or a log, a missing file is damage and no new
database."""

_CREATE = "create table pairs (key blob primary key, value blob not null)"
_COLUMNS = "select table_name, column_name, data_type from duckdb_columns() where not internal"
_OURS = [("pairs", "key", "BLOB"), ("pairs", "value", "BLOB")]
_PUT = "insert or replace into pairs select unnest($1::blob[]), unnest($2::blob[])"
_DELETE = "delete from pairs where key in (select unnest($1::blob[]))"


class Database:
    """An open file in a directory. Requires: the directory is locked by the caller."""

    def __init__(self, directory: Path, options: DuckDBOptions) -> None:
        """Open the file, creating it when it is missing."""
        self.path = str(directory)
        self._directory = directory
        self._pid = os.getpid()
        self._may_have_begun = False
        # The operations on both are atomic. A lock could be met by the collector that holds it.
        self._views: set[View] = set()
        self._idle: list[View] = []
        self._open = True
        kept = (directory / _CREATED).exists() or (directory / f"{_FILE}.wal").exists()
        if kept and not (directory / _FILE).exists():
            raise StoreCorruptedError(
                f"{str(directory / _FILE)!r} is missing; restore the store from a snapshot or its "
                "changelog"
            )
        try:
            self._writer = duckdb.connect(directory / _FILE, config=options.settings())
        except DRIVER_ERRORS as error:
            raise translated(error, self.path) from error
        try:
            self._settle()
            self._mark()
        except DRIVER_ERRORS as error:
            self._writer.close()
            raise translated(error, self.path) from error
        except BaseException:
            self._writer.close()
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

    def take(self) -> View:
        """Return a view that nobody else uses until it is given back."""
        self.check_open()
        try:
            return self._idle.pop()
        except IndexError:
            view = View(self._writer.cursor(), self.check_open)
        self._views.add(view)
        if not self._open:  # closed since: `close` may not have seen the view
            self.lose(view)
        self.check_open()
        return view

    def give(self, view: View) -> None:
        """Take *view* back, thawed."""
        self._idle.append(view)

    def lose(self, view: View) -> None:
        """Close *view*: what has failed on it is not known."""
        self._views.discard(view)
        if os.getpid() == self._pid:
            view.close()

    def hold(self) -> "Hold":
        """Return a view that stays at this moment."""
        view = self.take()
        try:
            view.freeze()
            return Hold(self, view)
        except BaseException:
            self.lose(view)
            raise

    def release(self, view: View) -> None:
        """Take back a view that was held."""
        try:
            view.thaw()
        except StoreClosedError:
            self.lose(view)
        except DRIVER_ERRORS:
            self.lose(view)
        else:
            self.give(view)

    def write(self, batch: Mapping[bytes, bytes | None]) -> None:
        """Write all of *batch* to the disk, or nothing."""
        puts = {key: value for key, value in batch.items() if value is not None}
        deletes = [key for key, value in batch.items() if value is None]
        try:
            if self._may_have_begun:
                self._roll_back()
            # An interrupt comes between any two steps, and while the transaction is being left.
            self._may_have_begun = True
            try:
                self._writer.execute("begin transaction")
                if deletes:
                    self._writer.execute(_DELETE, (deletes,))
                if puts:
                    self._writer.execute(_PUT, (list(puts), list(puts.values())))
                self._writer.execute("commit")
                self._may_have_begun = False
            except BaseException:
                self._roll_back()
                raise
        except DRIVER_ERRORS as error:
            raise not_committed(error, self.path) from error
        try:
            _make_durable(self._directory)
        except StorageError as error:
            raise CommitInDoubtError(
                f"{error}; the batch is in the log, and whether the log is found after a power "
                "failure is open: close the store and open it again"
            ) from error

    def close(self) -> None:
        """End every view and give the file up. Idempotent; in a forked child, only forget."""
        self._open = False
        if os.getpid() != self._pid:
            return
        for view in list(self._views):
            view.close()
        try:
            self._writer.close()
        except DRIVER_ERRORS as error:
            raise translated(error, self.path) from error

    def _settle(self) -> None:
        """Create the table in a file that is empty.

        Raises:
            UnsupportedFormatError: The file holds something else.
        """
        found = self._writer.execute(_COLUMNS).fetchall()
        if not found:
            self._writer.execute(_CREATE)
        elif sorted(found) != _OURS:
            raise UnsupportedFormatError(
                f"the file in {self.path!r} holds {found!r}, expected {_OURS!r}; it was "
                "written by a later release, or by another program"
            )

    def _mark(self) -> None:
        """Make the file's entry in the directory durable, and then the mark that it is there."""
        _make_durable(self._directory)
        try:
            (self._directory / _CREATED).touch()
        except OSError as error:
            raise StorageError(
                f"cannot write in {self.path!r}: {error.strerror or error}; check the rights"
            ) from error
        _make_durable(self._directory)

    def _roll_back(self) -> None:
        """Leave the transaction; a commit that failed has left it already."""
        with suppress(duckdb.TransactionException):
            self._writer.execute("rollback")
        self._may_have_begun = False


class Hold:
    """A view that stays at one moment, shared by a snapshot and its scans."""

    def __init__(self, database: Database, view: View) -> None:
        """Hold *view*, until `close`, or until nobody has the hold any more."""
        self._database = database
        self._held = view
        self._release = finalize(self, database.release, view)
        self._release.atexit = False

    def view(self) -> View:
        """Return what is held; raise `StoreClosedError` once it is not."""
        self._database.check_open()
        if not self._release.alive:
            raise closed(self._database.path)
        return self._held

    def close(self) -> None:
        """Let the view go. Idempotent."""
        self._release()


def check_path(directory: Path) -> None:
    """Refuse a directory that DuckDB would read otherwise than it is written.

    Raises:
        InvalidArgumentError: It, or one that it is in, has a character of `REFUSED_IN_PATHS`.
    """
    real = os.path.realpath(directory)
    wrong = [character for character in REFUSED_IN_PATHS if character in real]
    if wrong:
        raise InvalidArgumentError(
            f"DuckDB cannot keep its files in {real!r}: it does not take {' and '.join(wrong)} as "
            "part of a path; choose another directory"
        )


def _make_durable(path: Path) -> None:
    """Wait until the entries of the directory at *path* are on disk."""
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
