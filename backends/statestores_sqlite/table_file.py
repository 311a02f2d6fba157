"""The file in an engine's directory that names its table on the server."""

import json
import os
from pathlib import Path
from uuid import uuid4

from statestores.errors import StorageError, StoreCorruptedError, StoreMismatchError
from statestores.files.durable_directory import make_durable
from statestores.files.presence import look_for
from statestores_sqlite.options import TABLE_NAME

FILE = "postgresql.json"


def has_table(directory: Path) -> bool:
    """Whether the engine in *directory* has its pairs on a server.

    Raises:
        StorageError: The directory cannot be looked into.
    """
    return is_there(directory / FILE)


def is_there(file: Path) -> bool:
    """Whether there is anything named *file*.

    Raises:
        StorageError: It cannot be told.
    """
    return look_for(file) is not None


def table_of(directory: Path, wanted: str | None) -> str:
    """Return the table that the engine in *directory* has, or will have from now on.

    A new engine gets the table *wanted*, or one with a name that nothing else has.

    Raises:
        StoreMismatchError: The engine has another table than *wanted*.
        StoreCorruptedError: The file cannot be understood.
        StorageError: The file cannot be read or written.
    """
    file = directory / FILE
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        table = wanted or f"statestores_{uuid4().hex}"
        _write(file, table)
        return table
    except OSError as error:
        raise StorageError(f"cannot read {str(file)!r}: {error.strerror or error}") from error
    try:
        stored = json.loads(text)["table"]
    except (ValueError, KeyError, TypeError, RecursionError):
        stored = None
    if not isinstance(stored, str) or not TABLE_NAME.fullmatch(stored):
        raise StoreCorruptedError(
            f'{str(file)!r} does not name a table; write {{"table": NAME}} if the name is known'
        )
    if wanted not in (None, stored):
        raise StoreMismatchError(
            f"the engine in {str(directory)!r} has the table {stored!r}, not {wanted!r}; leave the "
            "option out, or choose another directory"
        )
    return stored


def _write(file: Path, table: str) -> None:
    """Write the name, whole and on disk before the table exists (ASM-6)."""
    new = file.with_suffix(".new")
    try:
        with new.open("w") as opened:
            json.dump({"table": table}, opened)
            opened.flush()
            os.fsync(opened.fileno())
        new.replace(file)
        make_durable(file.parent)
    except OSError as error:
        raise StorageError(f"cannot write {str(file)!r}: {error.strerror or error}") from error
