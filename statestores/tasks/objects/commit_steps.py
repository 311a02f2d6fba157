"""Commits of several logs as one: the protocol, without I/O (TSK-18).

A record of all changes is put under the name of the entry by which the first store will have its
part. That entry is the commit point: whoever has taken the store over before has put a seal there,
and then the record is nothing. Whoever takes all the stores of a task finds out, once nobody else
can append to any of them, which records count, and appends what is missing.

Somebody else may take some of the stores meanwhile. So who has taken all of them looks again
whether all of them are its own before it appends anything (`check_owned`). From then on whoever
takes one takes it after this look, and finds in the logs, behind its seals, all that was done here.
"""

from collections.abc import Iterable
from typing import NamedTuple

from statestores.object_log.documents import pack_document
from statestores.object_log.names import Names
from statestores.object_log.owners import Grant, fenced
from statestores.object_log.requests import Delete, ListNames, ReadMany, Steps
from statestores.object_log.settling import settle
from statestores.object_log.view import PartView
from statestores.tasks.objects.task_names import RecordName, TaskNames


class Owned(NamedTuple):
    """A partition, and the right to append to it."""

    names: Names
    """The names of its store's log."""

    grant: Grant
    """The grant."""


def check_owned(partitions: Iterable[Owned], when: str) -> Steps[None]:
    """Accept *partitions* that nobody has taken over.

    Raises:
        FencedError: Somebody has taken one, *when*.
        StorageError: It cannot be read.
    """
    each = tuple(partitions)
    ahead = [
        names.own(grant.partition, grant.grant, grant.number) for names, grant in each
    ]  # where a seal would be, which is never deleted (OBJ-35)
    for (names, grant), found in zip(each, (yield ReadMany(ahead)), strict=True):
        if found is not None:
            raise fenced(names, grant.partition, when)


def put_record(names: TaskNames, record: RecordName, data: bytes) -> Steps[bool]:
    """Put *data* as *record*; return whether it is what is there.

    Raises:
        CommitInDoubtError: The object store does not answer; the record may be there.
    """
    name = names.record(record)
    return (yield from settle(_shown_as(names), name, data))


def records_found(names: TaskNames) -> Steps[tuple[list[RecordName], list[tuple[str, str]]]]:
    """Return the records of the task, and the stores that it has written, with the ids of logs.

    Requires: all stores of the task have been taken over. A record that counts and was put by
    somebody before is found, then: it was there before the entry that makes it count.
    """
    found: list[str] = yield ListNames(names.all)
    records = [record for name in found if (record := names.record_of(name)) is not None]
    written = [note for name in found if (note := names.written_of(name)) is not None]
    return records, written


def has_counted(part: PartView, record: RecordName) -> bool | None:
    """Return whether the first store has *record*'s entry, whose partition was taken as *part*.

    ``None`` when it was taken too often since to say.

    Requires: *record* is of an earlier grant than the one of *part*. That is over, so the answer is
    for ever.
    """
    for grant, count in part.closed:
        if grant == record.grant:
            return record.number < count
    return None if record.grant < part.closed_from else False


def forget_record(names: TaskNames, record: RecordName) -> Steps[None]:
    """Delete *record*, which is carried out, or will never count."""
    yield Delete(names.record(record))


def note_written(names: TaskNames, store: str, log: str) -> Steps[None]:
    """Note that the task has written *store*, whose log has that id: by the name of an object.

    Raises:
        CommitInDoubtError: The object store does not answer.
    """
    name = names.written(store, log)
    yield from settle(_shown_as(names), name, pack_document("written", {"log": log}))


def _shown_as(names: TaskNames) -> Names:
    """Return what shows *names* in messages."""
    return Names(names.all, names.url)
