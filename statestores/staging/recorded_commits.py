"""Commits that tasks have recorded and not ended: whoever else writes then would contradict them.

A task records a commit of several stores before the first of them has it, with the offset at which
each changelog goes on (TSK-10). Here is only asked whether there is such a record, and of which
stores; the task reads, checks and ends it when it is opened again.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from statestores.arrow.file_access import reporting
from statestores.errors import InvalidArgumentError
from statestores.root_document import TASKS_DIRECTORY

_LENGTH = slice(12, 16)
"""Where a record has the length of its contents, which follow it."""


def refuse_recorded_commits(root: Path, store: str | None = None, *, first: str = "") -> None:
    """Accept a root whose tasks have ended every commit of *store*, or of any, that they began.

    That holds only as long as nobody can commit: who asks without the locks of the changelogs asks
    again with them. *first* is what the caller has to do before a task can be opened.

    Raises:
        InvalidArgumentError: One has died in the middle of a commit.
        StorageError: A record cannot be read.
    """
    for record in _records(root, store):
        raise InvalidArgumentError(
            f"the task {record.parent.name!r} has recorded a commit that its stores may not "
            f"have yet ({str(record)!r}); {first}open the task once, which ends it, and then "
            "try again"
        )


def has_recorded_commit(root: Path, store: str) -> bool:
    """Return whether a task has recorded a commit with a part of *store*, and not ended it.

    Whoever has the lock of a changelog of the store has asked for good: nobody else can record one
    of that partition.

    Raises:
        StorageError: A record cannot be read.
    """
    return any(True for _ in _records(root, store))


def _records(root: Path, store: str | None) -> Iterator[Path]:
    """Yield the records of commits in *root* that may have a part of *store*, or all."""
    for record in sorted((root / TASKS_DIRECTORY).glob("*/commit")):
        if store is None or _has(record, store):
            yield record


def _has(record: Path, store: str) -> bool:
    """Return whether *record* has a part of *store*; one that cannot be understood may have it."""
    with reporting("read", record):
        if record.is_dir():  # of an earlier release
            return (record / store).is_dir()
        try:
            data = record.read_bytes()
        except FileNotFoundError:  # a task that lives, of other stores, has ended it
            return False
    length = int.from_bytes(data[_LENGTH], "big")
    try:
        content = json.loads(data[_LENGTH.stop : _LENGTH.stop + length])
    except (ValueError, RecursionError):
        return True
    stores = content.get("stores") if isinstance(content, dict) else None
    return not isinstance(stores, dict) or store in stores
