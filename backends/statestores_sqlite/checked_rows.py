"""Rows with a checksum beside them: read, and refused when they are not what was written."""

from collections.abc import Sequence
from zlib import crc32

from statestores.errors import StoreCorruptedError
from statestores_sqlite.readers import DriverRows


def checked(rows: Sequence[tuple[bytes, bytes, int]], path: str) -> list[tuple[bytes, bytes]]:
    """Return the pairs of *rows*.

    Raises:
        StoreCorruptedError: A row is not what was written.
    """
    try:
        pairs = [(key, value) for key, value, stored in rows if crc32(value, crc32(key)) == stored]
    except TypeError as error:  # damage can change the types of the columns as well
        raise damaged_row([key for key, _, _ in rows], path) from error
    if len(pairs) != len(rows):
        wrong = [key for key, value, stored in rows if crc32(value, crc32(key)) != stored]
        raise damaged_row(wrong, path)
    return pairs


def damaged_row(keys: Sequence[object], path: str) -> StoreCorruptedError:
    """Return the error for a row, or one of the rows, of *keys*."""
    return StoreCorruptedError(
        f"the row of {keys[0]!r} in the database of {path!r}, or one soon after it, fails its "
        "checksum; restore the store from a snapshot or its changelog"
    )


class CheckedRows:
    """The rows of a scan, each checked when it is fetched."""

    __slots__ = ("_path", "_rows")

    def __init__(self, rows: DriverRows, path: str) -> None:
        self._rows = rows
        self._path = path

    def fetchmany(self, size: int) -> Sequence[tuple[bytes, bytes]]:
        """Return the next pairs."""
        rows: Sequence[tuple[bytes, bytes, int]] = self._rows.fetchmany(size)  # type: ignore[assignment]  # of three columns
        return checked(rows, self._path)

    def close(self) -> None:
        """Give up the rows that were not fetched."""
        self._rows.close()
