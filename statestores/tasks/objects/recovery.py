"""What a task that has died has left in an object store: found, judged, and carried out (TSK-18).

All changelogs of the task have been taken over. Whether all of them still are is looked at again
(`check_owned`): before anything is appended, and wherever what is found may be of somebody who has
taken some of them since. A record of such an owner is never judged by what was there before.
"""

from collections.abc import Mapping

from statestores.errors import CommitConflictError, CommitInDoubtError, StoreCorruptedError
from statestores.object_log import ObjectChangelog
from statestores.object_log.driver import run
from statestores.object_log.owners import fenced
from statestores.state_root import StateRoot
from statestores.storage import Found, ObjectStorage
from statestores.tasks.commits.commit_record import RecordedPart
from statestores.tasks.objects.commit_object import RecordedObject, unpack_commit
from statestores.tasks.objects.commit_steps import (
    Owned,
    check_owned,
    forget_record,
    has_counted,
    records_found,
)
from statestores.tasks.objects.object_commits import ObjectCommits
from statestores.tasks.objects.task_names import RecordName, TaskNames


def finish_commits(
    names: TaskNames,
    root: StateRoot,
    storage: ObjectStorage,
    logs: Mapping[str, ObjectChangelog],
) -> ObjectCommits:
    """Append to *logs* what a commit that was recorded has not come to append; forget its record.

    Returns what records the next commits.

    Raises:
        FencedError: Somebody has taken one of *logs* over.
        CommitConflictError: It has changes of a store that is not among *logs*.
        StoreCorruptedError: A store that the task has written is gone; or the record is damaged, or
            it and a changelog contradict each other. Nothing is appended.
        CommitInDoubtError: Nobody can tell any more whether a record counts.
        StateStoreError: Something cannot be read.
    """

    def check_still_owned() -> None:
        run(check_owned(owned_of(logs), "while the task was being opened"), storage)

    check_still_owned()
    records, written = run(records_found(names), storage)
    try:
        for store, log in written:
            _check_there(names, store, log, logs.get(store))
        gone = [each for each in sorted(records) if not _settle(names, root, storage, logs, each)]
    except (CommitConflictError, StoreCorruptedError):
        check_still_owned()  # what contradicts an old view of the logs need not be damage
        raise
    if gone:
        check_still_owned()
    known = [store for store, log in written if store in logs]
    return ObjectCommits(names, storage, known)


def owned_of(logs: Mapping[str, ObjectChangelog]) -> list[Owned]:
    """Return what *logs* own."""
    return [Owned(log.names, log.appending()) for log in logs.values()]


def _check_there(
    names: TaskNames, store: str, log_id: str, changelog: ObjectChangelog | None
) -> None:
    """Accept the *changelog* of *store* if it is the one that the task has written."""
    if changelog is None or (changelog.log_id == log_id and changelog.end_offset > 0):
        return
    raise StoreCorruptedError(
        f"the task {names.task} has written {store!r}, of which there is nothing any more in "
        f"partition {changelog.partition} of {names.url!r}: the objects of its changelog have been "
        "removed, and it was begun anew; put them back, if the bucket keeps earlier versions of "
        f"objects, or remove those below {names.shown(names.all)!r} to begin anew as well"
    )


def _settle(
    names: TaskNames,
    root: StateRoot,
    storage: ObjectStorage,
    logs: Mapping[str, ObjectChangelog],
    record: RecordName,
) -> bool:
    """Carry *record* out, if it counts, and forget it; return whether it was there still.

    Raises:
        FencedError: It is of somebody who has taken its first store over since.
        StateStoreError: As `finish_commits`.
    """
    shown = names.shown(names.record(record))
    first = _log_of(names, shown, record.store, record.log, logs)
    if record.grant >= first.appending().grant:
        raise fenced(first.names, first.partition, "while the task was being opened")
    counted = (
        # Nobody reshards a store of which there is a record, and owners of before append nothing.
        False
        if record.grant < first.view.checkpoint.begun
        else has_counted(first.view.parts[first.partition], record)
    )
    if counted is None:
        raise CommitInDoubtError(
            f"nobody can tell any more whether the commit recorded in {shown!r} was made: the "
            f"partition of {record.store!r} was taken over too often since, and not by its task; "
            "remove that object to go on without what other stores may lack of it"
        )
    if counted:
        found = storage.read(names.record(record))
        if not isinstance(found, Found):
            return False  # carried out: by who had the task before, or by who has it now
        _carry_out(names, shown, unpack_commit(found.data, shown, record.store, root), logs)
    run(forget_record(names, record), storage)
    return True


def _log_of(
    names: TaskNames, shown: str, store: str, log_id: str, logs: Mapping[str, ObjectChangelog]
) -> ObjectChangelog:
    """Return the log of *store* that a record names."""
    changelog = logs.get(store)
    if changelog is None:
        raise CommitConflictError(
            f"the commit recorded in {shown!r} has changes of {store!r}, which the task "
            f"{names.task} is opened without; open it once with this store, to end the commit"
        )
    if changelog.log_id != log_id:
        raise StoreCorruptedError(
            f"the commit recorded in {shown!r} is of another changelog of {store!r} than the one "
            "that is there: its objects have been removed, and it was begun anew; remove the "
            "record to go on without it"
        )
    return changelog


def _carry_out(
    names: TaskNames, shown: str, recorded: RecordedObject, logs: Mapping[str, ObjectChangelog]
) -> None:
    """Append what is missing, once it is known that all of it fits."""
    missing: list[tuple[ObjectChangelog, RecordedPart]] = []
    for name, part in recorded.parts.items():
        changelog = _log_of(names, shown, name, recorded.logs[name], logs)
        end = changelog.end_offset
        if end < part.base_offset:
            raise StoreCorruptedError(
                f"the changelog of {name!r} ends before {end}, and the commit recorded in "
                f"{shown!r} continues it at {part.base_offset}: it has lost its end"
            )
        if end == part.base_offset:
            missing.append((changelog, part))
        else:
            _check_appended(shown, name, part, changelog)
    for changelog, part in missing:
        changelog.append_batch(part.frame.batch, position=part.frame.position)


def _check_appended(shown: str, name: str, part: RecordedPart, changelog: ObjectChangelog) -> None:
    """Accept a changelog that goes on with what was recorded.

    Raises:
        StoreCorruptedError: Somebody else has appended since, and did not know of the record.
    """
    base, wanted = part.base_offset, part.frame
    found = next(iter(changelog.read(base)))  # all of it: another's may begin with the same changes
    # A compacted frame no longer says what was appended; the task's own commit was first.
    if found.explicit_offsets is None and not found.batch.equals(wanted.batch):
        raise StoreCorruptedError(
            f"the changelog of {name!r} goes on at offset {base} with other changes than the "
            f"commit recorded in {shown!r}: another program has opened the store by itself, after "
            "the task has died or while it committed, and has written to it"
        )
