"""Which stores of a task hold a commit, and where it has emitted to: what is gone is told (TSK-15).

A directory that was removed, that is on a disk which is not mounted, or that was left out of a copy
looks like that of a new store. So beside the task's commits there is a file with the names of the
stores that have had one. A name is added once the store's changelog would outlive a power failure.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from statestores.arrow.file_access import reporting
from statestores.errors import StoreCorruptedError
from statestores.failpoints import reach
from statestores.files.durable_directory import make_durable
from statestores.files.durable_json import check_format, read_fields, write_json
from statestores.logged_store import LoggedStore
from statestores.tasks.task_id import TaskId

WRITTEN_FILE = "written.json"
"""The file, in the directory of the task."""

_FORMAT = 1


class WrittenStores:
    """The stores of one task that have had a commit. One thread at a time uses it."""

    def __init__(self, directory: Path, changelogs: Mapping[str, Path]) -> None:
        """Read what the file in *directory*, that of the task, says; nothing if there is none.

        Args:
            directory: The directory of the task's commits.
            changelogs: Where the changelog of each store lies, by the store's name.

        Raises:
            StoreCorruptedError, UnsupportedFormatError, StorageError: The file cannot be read.
        """
        self._file = directory / WRITTEN_FILE
        self._changelogs = changelogs
        self._names = frozenset[str]()
        self._outputs = frozenset[str]()
        fields = read_fields(self._file)
        if fields is not None:
            check_format(fields, self._file, _FORMAT)
            self._names = frozenset(map(str, fields.row("stores")))
            if "outputs" in fields:
                self._outputs = frozenset(map(str, fields.row("outputs")))

    @property
    def names(self) -> frozenset[str]:
        """The stores that are known to have had a commit."""
        return self._names

    @property
    def outputs(self) -> frozenset[str]:
        """The places that are known to have been emitted to."""
        return self._outputs

    def check(self, task: TaskId, stores: Iterable[LoggedStore[Any]]) -> None:
        """Accept *stores*, just opened, if those that have had a commit have one; note which have.

        Raises:
            StoreCorruptedError: One has none.
            StorageError: The disk is full or failed.
        """
        opened = tuple(stores)
        self.refuse_gone(task, (each.name for each in opened if each.committed_offset is None))
        self.note(opened)

    def refuse_gone(self, task: TaskId, gone: Iterable[str]) -> None:
        """Accept that there is nothing of the stores *gone*: none of them has had a commit.

        Raises:
            StoreCorruptedError: One has.
        """
        missed = sorted(self._names.intersection(gone))
        if missed:
            raise StoreCorruptedError(
                f"the task {task} has written {', '.join(map(repr, missed))}, of which there is "
                f"nothing any more in partition {task.partition}: its directory has been removed, "
                "or was not copied; put it back, or reset the state"
            )

    def note(self, stores: Iterable[LoggedStore[Any]], outputs: Iterable[str] = ()) -> None:
        """Add those of *stores* that have a commit, and *outputs*, if they are new here.

        Raises:
            StorageError: The disk is full or failed.
        """
        added = [
            each.name
            for each in stores
            if each.name not in self._names and each.committed_offset is not None
        ]
        emitted = self._outputs.union(outputs)
        if not added and emitted == self._outputs:
            return
        for name in added:
            _outlive_power_failure(self._changelogs[name])
        reach("task.noting")
        names = self._names.union(added)
        content = {"format": _FORMAT, "stores": sorted(names), "outputs": sorted(emitted)}
        write_json(self._file, content)
        self._names, self._outputs = names, emitted


def _outlive_power_failure(log: Path) -> None:
    """Have the directory of a changelog, its files and its name be on disk."""
    with reporting("write", log):
        for file in log.iterdir():
            if file.is_file():
                make_durable(file)
        for directory in (log, log.parent, log.parent.parent):
            make_durable(directory)
