"""Checks of what tasks keep beside their stores: recorded commits, and which stores were written.

Whatever keeps a task from being opened is found here, as its opening would read it. The task may be
open meanwhile: a record is whole once it has its name, and one that is gone again is carried out.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from statestores.arrow.file_access import reporting
from statestores.errors import StateStoreError
from statestores.root_document import TASKS_DIRECTORY
from statestores.state_root import StateRoot
from statestores.storage import Found, ObjectStorage
from statestores.tasks.commits.task_commit import RECORD_NAME, recorded_commit
from statestores.tasks.commits.written_stores import WRITTEN_FILE, WrittenStores
from statestores.tasks.objects.commit_object import unpack_commit
from statestores.tasks.objects.task_names import RecordName, TaskNames
from statestores.verification.findings import Finding, Status

_RECORD = "task commit"
_WRITTEN = "task"


def check_task_records(root: StateRoot) -> Iterator[Finding]:
    """Check what the tasks of *root* keep; yield a finding for each thing that is there (TSK-22).

    Nothing is changed, carried out or locked. A task that has ended all its commits has no record.
    """
    if root.storage is None:
        yield from _check_directories(root)
    else:
        yield from _check_objects(root, root.storage)


def _check_directories(root: StateRoot) -> Iterator[Finding]:
    tasks = root.path / TASKS_DIRECTORY
    try:
        with reporting("read", tasks):
            directories = sorted(each for each in tasks.glob("*") if each.is_dir())
    except StateStoreError as error:
        yield Finding(_WRITTEN, tasks, Status.DAMAGED, str(error), error)
        return
    for directory in directories:
        yield from _check_written(directory)
        record = directory / RECORD_NAME
        try:
            recorded = recorded_commit(directory, root)
        except StateStoreError as error:
            yield Finding(_RECORD, record, Status.DAMAGED, str(error), error)
            continue
        if recorded is not None:
            yield _whole(record, recorded.parts)


def _check_written(directory: Path) -> Iterator[Finding]:
    """Check the names of the stores that a task has written; only what is wrong is a finding."""
    try:
        WrittenStores(directory, {})
    except StateStoreError as error:
        words = (
            f"{error}; put it back from a copy, or move it away: the next opening of the task "
            "writes it anew, and does not miss a store that is gone"
        )
        yield Finding(_WRITTEN, directory / WRITTEN_FILE, Status.DAMAGED, words, error)


def _check_objects(root: StateRoot, storage: ObjectStorage) -> Iterator[Finding]:
    found: list[tuple[TaskNames, RecordName]] = []
    try:
        for listed in storage.list(f"{TASKS_DIRECTORY}/"):
            names = TaskNames(listed.name.split("/")[1], storage.url)
            record = names.record_of(listed.name)
            if record is not None:
                found.append((names, record))
    except StateStoreError as error:
        place = f"{storage.url}/{TASKS_DIRECTORY}"
        yield Finding(_WRITTEN, place, Status.DAMAGED, str(error), error)
        return
    for names, record in found:
        name = names.record(record)
        shown = names.shown(name)
        try:
            data = storage.read(name)
            if not isinstance(data, Found):
                continue  # carried out since it was listed
            recorded = unpack_commit(data.data, shown, record.store, root)
        except StateStoreError as error:
            yield Finding(_RECORD, shown, Status.DAMAGED, str(error), error)
            continue
        yield _whole(shown, [record.store, *recorded.parts])


def _whole(place: Path | str, stores: Iterable[str]) -> Finding:
    """Say what the whole record at *place* means for its *stores*."""
    names = ", ".join(repr(name) for name in stores)
    words = f"a commit of {names}; the next opening of the task carries out what is missing of it"
    return Finding(_RECORD, place, Status.OK, words, is_unfinished=True)
