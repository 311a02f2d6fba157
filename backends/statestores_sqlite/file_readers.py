"""Connections that read SQLite's database in a file, with checksums of rows and without."""

import sqlite3
from functools import partial
from typing import Any
from weakref import finalize
from zlib import crc32

from statestores_sqlite.checked_rows import CheckedRows, checked, damaged_row
from statestores_sqlite.readers import DriverRows, Reader
from statestores_sqlite.statements import Statements


class SQLiteReader(Reader):
    """A connection that reads the file."""

    def __init__(self, connection: sqlite3.Connection, statements: Statements, path: str) -> None:
        super().__init__(connection, statements)
        self._path = path
        # An interrupt can lose a reader, and a connection that nobody has closed is in a cycle of
        # the driver's: its file would be open until the collector comes.
        finalize(self, connection.close).atexit = False

    def _find(self, keys: list[bytes]) -> list[tuple[bytes, bytes]]:
        # The last, shorter query would have to be compiled for each number of keys, so its marks
        # are filled up to a power of two by repeating a key.
        marks = 1 << (len(keys) - 1).bit_length()
        said = self._statements
        query = f"SELECT {said.columns} FROM {said.table} WHERE key IN ({','.join('?' * marks)})"  # noqa: S608
        found: list[tuple[bytes, bytes]] = self._cursor.execute(
            query, keys + keys[-1:] * (marks - len(keys))
        ).fetchall()
        return found

    def freeze(self) -> None:
        self._connection.execute("BEGIN")
        # The first read decides what the transaction sees. It is not of the table, part of which
        # may be damaged.
        self._connection.execute("SELECT 1 FROM sqlite_schema").close()

    def thaw(self) -> None:
        self._connection.rollback()

    def rows(self, start: bytes, stop: bytes | None, *, reverse: bool) -> DriverRows:
        # The first step is made here, and an unfinished query keeps its view of the file.
        rows: DriverRows = self._connection.execute(
            *self._statements.rows(start, stop, reverse=reverse)
        )
        return rows


class CheckedReader(SQLiteReader):
    """A connection that reads a file whose rows have checksums.

    Damage can change the types of the columns as well.
    """

    def __init__(self, connection: sqlite3.Connection, statements: Statements, path: str) -> None:
        super().__init__(connection, statements, path)
        # Damage can turn a blob into text, which need not be UTF-8. It stays text: a key of that
        # type is not where a search looks for it.
        self._connection.text_factory = partial(str, encoding="latin-1")

    def get(self, key: bytes) -> bytes | None:
        self._cursor.execute(self._statements.get, (key,))
        row: tuple[Any, int] | None = self._cursor.fetchone()
        if row is None:
            return None
        value, stored = row
        if isinstance(value, bytes) and crc32(value, crc32(key)) == stored:
            return value
        raise damaged_row([key], self._path)

    def edge(
        self, start: bytes, stop: bytes | None, *, reverse: bool
    ) -> tuple[bytes, bytes] | None:
        self._cursor.execute(*self._statements.edge(start, stop, reverse=reverse))
        row: tuple[bytes, bytes, int] | None = self._cursor.fetchone()
        if row is None:
            return None
        return checked([row], self._path)[0]

    def _find(self, keys: list[bytes]) -> list[tuple[bytes, bytes]]:
        found: Any = super()._find(keys)  # rows of three columns
        return checked(found, self._path)

    def rows(self, start: bytes, stop: bytes | None, *, reverse: bool) -> DriverRows:
        return CheckedRows(super().rows(start, stop, reverse=reverse), self._path)

    def every_row(self) -> DriverRows:
        """Return all rows as they lie in the file, without a search for the first."""
        said = self._statements
        rows: DriverRows = self._connection.execute(f"SELECT {said.columns} FROM {said.table}")  # noqa: S608
        return CheckedRows(rows, self._path)
