"""Databases of RocksDB, LevelDB and SQLite that programs without any library have made.

Each is one key-value store. None of the three is written to: RocksDB and LevelDB, which write when
they open, get a directory of links and copies; SQLite is opened to read.
"""

import os
import shutil
import sqlite3
from abc import abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa

from statestores.errors import (
    InvalidArgumentError,
    StorageError,
    StoreCorruptedError,
    StoreNotFoundError,
)
from statestores.files.local_path import local_path
from statestores.files.scratch_directory import scratch_directory
from statestores.migration.peers.database import IdleRocksDB, reading_sqlite
from statestores.migration.peers.source import PEER_ROW_SCHEMAS, PeerState, PeerStore
from statestores.migration.programs_lock import hold_shared
from statestores.migration.row_batches import as_batches
from statestores.serdes.optional_packages import require
from statestores.spi.forking import use_driver
from statestores.spi.kinds import KEY_VALUE, Kind
from statestores.spi.offsets import TopicPartition
from statestores.spi.serde import Serde

Pair = tuple[bytes, bytes]

_COLUMNS = "select name from pragma_table_xinfo(?) where hidden <> 1"
"""The columns of a table, those that are generated included, and not what a virtual one hides."""

_BINDINGS = ("plyvel", "plyvel_next")
"""The modules that bind LevelDB, in the order in which they are taken."""


class _OneStore(PeerState):
    """A database with one store in it, whose keys are placed as ours are."""

    def __init__(self, path: str | PathLike[str], name: str | None) -> None:
        self.path = local_path(path)
        self.name = self.path.stem if name is None else name

    def stores(self) -> Sequence[PeerStore]:
        """Return the one."""
        return [PeerStore(name=self.name, kinds=(KEY_VALUE,), partitions=())]

    def read(
        self, store: str, partition: int | None, kind: Kind
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows (MIG-18).

        Raises:
            StoreNotFoundError: There is no such store.
            StoreLockedError: A program has the database open.
            SerializationError: A serde does not take a value.
            StoreCorruptedError, StorageError: It cannot be read.
        """
        self.store(store)
        yield from as_batches(self._rows(), PEER_ROW_SCHEMAS[kind])

    def offsets(self, store: str, partition: int) -> Mapping[TopicPartition, int]:
        """Return none: such a database has no changelog."""
        return {}

    @abstractmethod
    def _rows(self) -> Iterator[Pair]:
        """Yield keys and values."""

    def close(self) -> None:
        """Do nothing: the database is open only while it is read."""


class RocksDBDatabase(_OneStore):
    """A column family of a RocksDB database."""

    def __init__(
        self, path: str | PathLike[str], *, family: str = "default", name: str | None = None
    ) -> None:
        """Take the database in the directory *path*; *name* is by default the directory's.

        Raises:
            StoreNotFoundError: There is no database.
        """
        super().__init__(path, name)
        self._family = family
        _need_current(self.path, "RocksDB")

    def _rows(self) -> Iterator[Pair]:
        with IdleRocksDB(self.path) as database:
            if self._family not in database.families:
                raise StoreNotFoundError(
                    f"there is no column family {self._family!r} in {str(self.path)!r}; there "
                    f"are: {', '.join(map(repr, database.families))}"
                )
            yield from database.rows(self._family)


class LevelDBDatabase(_OneStore):
    """A LevelDB database, in the order of bytes."""

    def __init__(self, path: str | PathLike[str], *, name: str | None = None) -> None:
        """Take the database in the directory *path*; *name* is by default the directory's.

        Raises:
            StoreNotFoundError: There is no database.
        """
        super().__init__(path, name)
        _need_current(self.path, "LevelDB")

    def _rows(self) -> Iterator[Pair]:
        # The backend's room is not ours to see; which of the two it uses is in its `binding`.
        binding = next((name for name in _BINDINGS if find_spec(name)), _BINDINGS[0])
        driver: Any = require(binding, purpose="reading a LevelDB database", extra="leveldb")
        use_driver("LevelDB")
        held = hold_shared(self.path / "LOCK")
        try:
            with scratch_directory() as linked:
                for entry in self.path.iterdir():
                    if entry.suffix in {".ldb", ".sst"}:
                        (linked / entry.name).symlink_to(entry.resolve())
                    elif entry.is_file() and entry.name not in {"LOCK", "LOG", "LOG.old"}:
                        shutil.copyfile(entry, linked / entry.name)
                # A damaged database must not look like a shorter one.
                database = driver.DB(str(linked), create_if_missing=False, paranoid_checks=True)
                with (
                    closing(database),
                    closing(database.raw_iterator(verify_checksums=True)) as rows,
                ):
                    # The other kind of iterator ends at damage as it does at the end.
                    rows.seek_to_first()
                    while rows.valid():
                        yield rows.item()
                        rows.next()
        except (driver.CorruptionError, driver.IOError) as error:
            raise StoreCorruptedError(
                f"cannot read the LevelDB database in {str(self.path)!r}: {error}; take a copy "
                "that its program closed"
            ) from error
        except OSError as error:
            raise StorageError(
                f"cannot read the LevelDB database in {str(self.path)!r}: "
                f"{error.strerror or error}; check the rights and the disk"
            ) from error
        finally:
            if held is not None:
                os.close(held)


class SQLiteTable(_OneStore):
    """Two columns of a table or view of an SQLite database; of a view, what its query says.

    A column of bytes is taken as it is. What is no bytes is written by a serde, which is asked for.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        table: str,
        *,
        key: str = "key",
        value: str = "value",
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
        name: str | None = None,
    ) -> None:
        """Take *table* of the database *path*; *name* is by default the table's.

        Raises:
            StoreNotFoundError: There is no file, no such table, or no such column.
            StorageError, StoreCorruptedError: It cannot be read.
        """
        super().__init__(path, table if name is None else name)
        if not self.path.is_file():
            raise StoreNotFoundError(f"there is no SQLite database {str(self.path)!r}")
        self._table, self._columns = table, (key, value)
        self._serdes = (key_serde, value_serde)
        with self._reading() as database:
            columns = [row[0] for row in database.execute(_COLUMNS, (table,))]
        missing = [column for column in self._columns if column not in columns]
        if missing:
            raise StoreNotFoundError(
                f"there is no table {table!r} with the columns {key!r} and {value!r} in "
                f"{str(self.path)!r}; "
                + (f"it has: {', '.join(columns)}" if columns else "there is no such table")
            )

    def _rows(self) -> Iterator[Pair]:
        key, value = (f'"{column.replace(chr(34), chr(34) * 2)}"' for column in self._columns)
        table = self._table.replace('"', '""')
        with self._reading() as database:
            self._refuse_repeated(database, key, table)
            rows = database.execute(f'select {key}, {value} from "{table}"')  # noqa: S608  # quoted
            for row in rows:
                yield self._encoded(row[0], 0), self._encoded(row[1], 1)

    def _refuse_repeated(self, database: sqlite3.Connection, key: str, table: str) -> None:
        """Accept a *table* of which no two rows have the same *key*; both are quoted.

        Of two such rows a store would keep the one that SQLite happens to give last. Texts are
        compared as bytes: the column's own order may take `A` and `a` for the same.
        """
        bytewise = f"case typeof({key}) when 'text' then cast({key} as blob) else {key} end"
        repeated = database.execute(
            f'select {key}, count(*) from "{table}" where {key} is not null '  # noqa: S608  # quoted
            f"group by {bytewise} having count(*) > 1 limit 1"
        )
        for found, rows in repeated:
            raise InvalidArgumentError(
                f"the column {self._columns[0]!r} of {self._table!r} has {found!r} in {rows} rows, "
                "and a store has one value for each key; import a view that has one row for each"
            )

    def _encoded(self, value: object, column: int) -> bytes:
        serde = self._serdes[column]
        if isinstance(value, bytes):
            return value
        if value is None:
            raise InvalidArgumentError(
                f"the column {self._columns[column]!r} of {self._table!r} has nulls, which no "
                "store has; import a view without those rows"
            )
        if serde is None:
            raise InvalidArgumentError(
                f"the column {self._columns[column]!r} of {self._table!r} has {value!r}, which is "
                "no bytes; say which serde writes it, such as utf8 for texts or int64 for integers"
            )
        return serde.encode(value)

    def _reading(self) -> AbstractContextManager[sqlite3.Connection]:
        return reading_sqlite(
            self.path,
            damaged="is damaged or no SQLite database",
            remedy="; check the path, and which engine has written it",
        )


def _need_current(path: Path, engine: str) -> None:
    if not (path / "CURRENT").is_file():
        raise StoreNotFoundError(
            f"there is no {engine} database in {str(path)!r}; give the directory with the file "
            "CURRENT"
        )
