"""A table of pairs on a PostgreSQL server."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Column, LargeBinary, MetaData, Table, create_engine, event
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import NullPool, PoolProxiedConnection
from sqlalchemy.schema import CreateTable

from statestores.errors import (
    CapabilityNotSupportedError,
    InvalidOptionError,
    InvalidTypeError,
    StateStoreError,
    StorageError,
)
from statestores.files.directory_lock import DirectoryLock
from statestores.spi import Durability, WriteBatch
from statestores_sqlite.database import Database
from statestores_sqlite.failures import missing_package
from statestores_sqlite.options import URL_VARIABLE, PostgreSQLOptions
from statestores_sqlite.readers import DriverRows, Reader
from statestores_sqlite.server_failures import driver_error, errors_of, translated
from statestores_sqlite.statements import Statements
from statestores_sqlite.table_file import table_of
from statestores_sqlite.table_lock import application_name, lock_table, unlock_tables

T = TypeVar("T")

_ROWS_IN_ONE_STATEMENT = 1_000
_BYTES_IN_ONE_STATEMENT = 16 * 1024 * 1024
"""psycopg2 writes parameters into the text of the statement, where a byte takes two."""

_BYTEA_TYPE = 17


class PostgreSQLReader(Reader):
    """A connection that reads the table, outside of transactions unless it is frozen."""

    def __init__(self, connection: PoolProxiedConnection, statements: Statements) -> None:
        super().__init__(connection.driver_connection, statements)
        self._proxy = connection
        self._connection.set_session(readonly=True, autocommit=True)
        self._frozen = False
        self._numbers = count()

    def _find(self, keys: list[bytes]) -> list[tuple[bytes, bytes]]:
        self._cursor.execute(
            f"SELECT key, value FROM {self._statements.table} WHERE key = ANY(%s::bytea[])",  # noqa: S608
            (keys,),
        )
        found: list[tuple[bytes, bytes]] = self._cursor.fetchall()
        return found

    def freeze(self) -> None:
        self._connection.set_session(isolation_level="REPEATABLE READ", autocommit=False)
        self._frozen = True
        # The first statement decides what the transaction sees.
        self._cursor.execute("SELECT 1")

    def thaw(self) -> None:
        self._connection.rollback()
        self._connection.set_session(isolation_level="DEFAULT", autocommit=True)
        self._frozen = False

    def rows(self, start: bytes, stop: bytes | None, *, reverse: bool) -> DriverRows:
        if not self._frozen:
            # A cursor on the server lives in a transaction, and sees what was there when it was
            # declared.
            self._connection.autocommit = False
        cursor = self._connection.cursor(f"rows_{next(self._numbers)}")
        cursor.execute(*self._statements.rows(start, stop, reverse=reverse))
        return _ServerRows(cursor, None if self._frozen else self)

    def close(self) -> None:
        self._cursor.close()
        self._proxy.close()


class _ServerRows:
    """Rows that wait on the server."""

    def __init__(self, cursor: Any, thawing: PostgreSQLReader | None) -> None:
        self._cursor = cursor
        self._thawing = thawing

    def fetchmany(self, size: int) -> list[tuple[bytes, bytes]]:
        """Return the next rows."""
        rows: list[tuple[bytes, bytes]] = self._cursor.fetchmany(size)
        return rows

    def close(self) -> None:
        """End the transaction of the rows, or forget them within that of a snapshot."""
        if self._thawing is not None:
            self._thawing.thaw()
        elif not self._cursor.closed:
            self._cursor.close()


class PostgreSQLTable(Database):
    """A table, the session that writes it, and the lock that this session holds."""

    mark = "%s"
    reader = PostgreSQLReader

    def __init__(self, directory: Path, options: PostgreSQLOptions) -> None:
        """Lock the directory and the table, and create the table when it is missing."""
        url = _url(options)
        self._lock = DirectoryLock.acquire(directory)
        try:
            self._table = table_of(directory, options.table)
            self._engine = _create_engine(url)
            super().__init__(directory, errors_of(self._engine))
            self._statements = Statements(self._table, self.mark)
            self._upsert_many = (
                f"INSERT INTO {self._table} (key, value) "  # noqa: S608
                "SELECT * FROM unnest(%s::bytea[], %s::bytea[]) "
                "ON CONFLICT (key) DO UPDATE SET value = excluded.value"
            )
            self._delete_many = f"DELETE FROM {self._table} WHERE key = ANY(%s::bytea[])"  # noqa: S608
            self._writer = self._open_writer()
        except BaseException:
            self._lock.release()
            raise

    def _open_writer(self) -> Connection:
        """Open the session that writes."""
        try:
            writer = self._engine.connect()
        except self.errors as error:
            raise self.translated(error) from driver_error(error)
        try:
            lock_table(writer, self._table, self.path)
            with writer.begin():
                if writer.exec_driver_sql("SHOW synchronous_commit").scalar_one() == "off":
                    writer.exec_driver_sql("SET synchronous_commit = on")
                pairs = Table(
                    self._table,
                    MetaData(),
                    Column("key", LargeBinary, primary_key=True),
                    Column("value", LargeBinary, nullable=False),
                )
                writer.execute(CreateTable(pairs, if_not_exists=True))
        except self.errors as error:
            _end(writer, self.errors)
            raise self.translated(error) from driver_error(error)
        except BaseException:
            _end(writer, self.errors)
            raise
        return writer

    def open_reader(self) -> PostgreSQLReader:
        try:
            return PostgreSQLReader(self._engine.raw_connection(), self._statements)
        except self.errors as error:
            raise self.translated(error) from driver_error(error)

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        """Apply *batch*; every commit waits for the server's disk, whatever the *durability*.

        Without waiting, PostgreSQL keeps the end of its log in its own memory, and that is less
        than `Durability.PROCESS_CRASH` promises when it is the server's process that dies.
        """
        puts, deletes = [], []
        for key, value in batch.items():
            # The driver turns texts and numbers into bytes without a word.
            if type(key) is not bytes:
                raise InvalidTypeError(f"a key must be bytes, got {key!r}")
            if value is not None and type(value) is not bytes:
                raise InvalidTypeError(f"the value of {key!r} must be bytes, got {value!r}")
            if value is None:
                deletes.append(key)
            else:
                puts.append((key, value))
        if self._writer.invalidated or self._writer.closed:
            raise StorageError(
                f"the connection of {self.path!r} to the server was lost, and with it the lock; "
                "close the engine and open it again"
            )
        try:
            with self._writer.begin():
                for keys in _slices(deletes, len):
                    self._writer.exec_driver_sql(self._delete_many, (keys,))
                for pairs in _slices(puts, lambda pair: len(pair[0]) + len(pair[1])):
                    columns = ([key for key, _ in pairs], [value for _, value in pairs])
                    self._writer.exec_driver_sql(self._upsert_many, columns)
        except self.errors as error:
            raise self.translated(error) from driver_error(error)

    def copy_to(self, target: Path) -> None:
        raise CapabilityNotSupportedError(
            f"the pairs of {self.path!r} are on a server, which copies no files; export a "
            "snapshot instead"
        )

    def translated(self, error: Exception) -> StateStoreError:
        return translated(error, self.path)

    def close(self) -> None:
        _end(self._writer, self.errors)
        self._lock.release()


def _end(writer: Connection, errors: tuple[type[Exception], ...]) -> None:
    """End the session that writes, and its lock."""
    # A connection that was lost has lost the lock.
    with suppress(*errors):
        if not (writer.closed or writer.invalidated):
            unlock_tables(writer)
    writer.close()


def _url(options: PostgreSQLOptions) -> URL:
    """Return the server's URL, with the driver that is used here."""
    text = options.url or os.environ.get(URL_VARIABLE)
    if not text:
        raise InvalidOptionError(
            f"option 'url' is missing, and so is the environment variable {URL_VARIABLE}; expected "
            "postgresql://user@host/database"
        )
    try:
        url = make_url(text)
    except ArgumentError as error:
        # Without the text: it may hold a password.
        raise InvalidOptionError(
            "option 'url' cannot be read; expected postgresql://user@host/database"
        ) from error
    if url.drivername not in {"postgresql", "postgresql+psycopg2"}:
        raise InvalidOptionError(
            f"option 'url' names {url.drivername!r}, and known are 'postgresql' and "
            "'postgresql+psycopg2'; for a SQLite file, leave it out and give the directory"
        )
    return url.set(drivername="postgresql+psycopg2")


def _create_engine(url: URL) -> Engine:
    """Return SQLAlchemy's engine, whose connections give ``bytea`` as bytes."""
    try:
        # Only those who use a server need it.
        import psycopg2  # noqa: PLC0415
        from psycopg2.extensions import new_type, register_type  # noqa: PLC0415

        engine = create_engine(
            url,
            poolclass=NullPool,
            pool_reset_on_return=None,  # a connection is closed, not used by somebody else
            connect_args={"application_name": application_name()},
        )
    except ModuleNotFoundError as error:
        raise missing_package(error) from error

    def to_bytes(text: str | None, cursor: Any) -> bytes | None:
        return None if text is None else bytes(psycopg2.BINARY(text, cursor))

    plain_bytes = new_type((_BYTEA_TYPE,), "BYTES", to_bytes)

    @event.listens_for(engine, "connect")
    def use_plain_bytes(connection: Any, _: object) -> None:
        register_type(plain_bytes, connection)

    return engine


def _slices(items: Iterable[T], bytes_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Cut *items* into lists that fit one statement each."""
    part: list[T] = []
    size = 0
    for item in items:
        if part and (
            len(part) == _ROWS_IN_ONE_STATEMENT or size + bytes_of(item) > _BYTES_IN_ONE_STATEMENT
        ):
            yield part
            part, size = [], 0
        part.append(item)
        size += bytes_of(item)
    if part:
        yield part
