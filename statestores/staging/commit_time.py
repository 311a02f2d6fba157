"""When a staged write was committed: one time for what it appends, to whichever changelog.

It lies with the rows, and is there before the intent that makes them count::

    ROOT/<store>/.writes/<write id>/committed.json

A release that does not know it passes it over, and gives each append the time at which it happens.
"""

from pathlib import Path
from typing import Final

from statestores.arrow.file_access import reporting
from statestores.files.durable_directory import make_directory
from statestores.files.durable_json import check_format, read_fields, write_json

COMMIT_TIME_FILE: Final = "committed.json"
"""Its name is that of no staged file."""

_FORMAT = 1


def note_commit_time(write: Path, at_ms: int) -> None:
    """Note, durably, that the write staged in the directory *write* is of the time *at_ms*.

    Raises:
        StorageError: It cannot be noted.
    """
    with reporting("write into", write):
        make_directory(write)  # a write that only clears has staged nothing
    write_json(write / COMMIT_TIME_FILE, {"format": _FORMAT, "committed_at_ms": at_ms})


def noted_commit_time(write: Path) -> int | None:
    """Return the time that is noted in the directory *write*, in milliseconds since the epoch.

    ``None`` where none is: the write is of an earlier release, or has been finished since.

    Raises:
        StoreCorruptedError, UnsupportedFormatError, StorageError: It cannot be read.
    """
    file = write / COMMIT_TIME_FILE
    fields = read_fields(file)
    if fields is None:
        return None
    check_format(fields, file, _FORMAT)
    fields.only("format", "committed_at_ms")
    return fields.integer("committed_at_ms", -(1 << 63))
