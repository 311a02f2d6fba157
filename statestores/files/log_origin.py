"""Which log the engine on a local disk has its rows from (OBJ-18).

The engine knows an offset, and any log has one. Beside another log its rows would be taken for a
prefix of what they have nothing to do with. So the directory says which log it was.
"""

from dataclasses import dataclass
from pathlib import Path

from statestores.errors import StoreMismatchError
from statestores.files.durable_json import check_format, read_fields, write_json

ORIGIN_FILE = "changelog.json"
"""The file beside ``engine.json``."""

_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOrigin:
    """A partition of a log."""

    log: str
    """The id that the log was given when it was made."""

    partition: int
    """The partition."""


def read_origin(directory: Path, origin: LogOrigin) -> bool:
    """Return whether *directory* says that its engine is of *origin*; it may say nothing.

    Raises:
        StoreMismatchError: It is of another log or partition.
        StoreCorruptedError, UnsupportedFormatError, StorageError: The file cannot be read.
    """
    file = directory / ORIGIN_FILE
    fields = read_fields(file)
    if fields is None:
        return False
    check_format(fields, file, _FORMAT)
    found = LogOrigin(log=fields.text("log"), partition=fields.integer("partition"))
    if found != origin:
        raise StoreMismatchError(
            f"the engine in {str(directory)!r} has its rows from partition {found.partition} of "
            f"the log {found.log!r}, and the changelog is partition {origin.partition} of "
            f"{origin.log!r}; choose another directory, or remove this one to restore it"
        )
    return True


def note_origin(directory: Path, origin: LogOrigin, committed_offset: int | None) -> None:
    """Note in *directory* that its engine, which has *committed_offset*, is of *origin*.

    Raises:
        StoreMismatchError: It has rows already, and nobody knows which log they are from.
        StorageError: The directory cannot be written.
    """
    if committed_offset is not None:
        raise StoreMismatchError(
            f"the engine in {str(directory)!r} stands at offset {committed_offset} of a changelog, "
            f"and no {ORIGIN_FILE} says of which; choose another directory, or remove this one to "
            "restore it"
        )
    if directory.is_dir():  # an engine in memory has none
        content = {"format": _FORMAT, "log": origin.log, "partition": origin.partition}
        write_json(directory / ORIGIN_FILE, content)
