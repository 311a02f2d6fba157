"""The commits of a task whose stores' changelogs are in an object store (TSK-18, TSK-19)."""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from statestores.errors import CommitConflictError, FencedError, InvalidTypeError, StateStoreError
from statestores.failpoints import reach
from statestores.logged_store import LoggedStore
from statestores.logged_store.encoded_commit import commit_encoded, encoded_pending
from statestores.object_log import ObjectChangelog
from statestores.object_log.driver import run
from statestores.spi.offsets import Position
from statestores.storage import ObjectStorage
from statestores.tasks.commits.task_commits import TaskCommits
from statestores.tasks.objects.commit_object import Pending, pack_commit
from statestores.tasks.objects.commit_steps import (
    Owned,
    check_owned,
    forget_record,
    note_written,
    put_record,
)
from statestores.tasks.objects.task_names import RecordName, TaskNames

_log = logging.getLogger(__name__)


class ObjectCommits(TaskCommits):
    """Records commits as objects. What is emitted needs a directory, so nothing is."""

    def __init__(self, names: TaskNames, storage: ObjectStorage, written: Iterable[str]) -> None:
        """Record below *names* in *storage*; that the stores *written* were is noted there."""
        self._names = names
        self._storage = storage
        self._written = set(written)
        self._is_recorded = False

    @property
    def emits(self) -> bool:
        return False

    def record(self, stores: Sequence[LoggedStore[Any]], position: Position) -> Callable[[], None]:
        logs = {store.name: object_changelog(store) for store in stores}
        owned = [Owned(log.names, log.appending()) for log in logs.values()]
        first, *others = (
            Pending(store, logs[store.name].log_id, encoded_pending(store)) for store in stores
        )
        grant = owned[0].grant
        record = RecordName(first.store.name, first.log, grant.grant, grant.number)
        data = pack_commit(first, others, position)
        reach("task.recording")
        # From here on the next entry of the first store's log must be that of this record.
        self._is_recorded = True
        if not run(put_record(self._names, record, data), self._storage):
            raise CommitConflictError(
                f"the record {self._names.shown(self._names.record(record))!r} is that of another "
                f"commit; close the task {self._names.task} and open it again"
            )
        reach("task.recorded")
        try:
            # A store that somebody has opened by itself, or released, would lack its part. Who
            # reshards one looks for records once nobody owns it: it finds this, or is found here.
            run(check_owned(owned, "and nothing of this commit was written"), self._storage)
        except FencedError:
            self._is_recorded = False  # nobody ever makes that entry
            self._forget(record, "counts for nothing")
            raise
        try:
            commit_encoded(first.store, position, first.changes)
        except FencedError:
            self._is_recorded = False  # nobody ever makes that entry
            raise

        def carry_out() -> None:
            try:
                for store, _, changes in others:
                    commit_encoded(store, position, changes)
            except FencedError as error:
                raise CommitConflictError(
                    f"the commit of the task {self._names.task} is made, and some of its stores "
                    "do not have it yet: another process has taken them over; opening the task "
                    "carries it out, there or here"
                ) from error
            reach("task.carried-out")
            self._forget(record, "is carried out")
            reach("task.forgotten")
            self._is_recorded = False

        return carry_out

    def _forget(self, record: RecordName, why: str) -> None:
        """Remove a record that is over; if that fails, whoever opens the task next finds it so."""
        try:
            run(forget_record(self._names, record), self._storage)
        except StateStoreError as error:
            _log.warning(
                "a commit of the task %s %s, and its record cannot be removed (%s): the next "
                "opening of the task does it",
                self._names.task,
                why,
                error,
            )

    def is_recorded(self) -> bool:
        return self._is_recorded

    def note(
        self, committed: Iterable[LoggedStore[Any]], stores: Iterable[LoggedStore[Any]]
    ) -> None:
        for store in committed:
            if store.name in self._written or store.committed_offset is None:
                continue
            reach("task.noting")
            log = object_changelog(store).log_id
            run(note_written(self._names, store.name, log), self._storage)
            self._written.add(store.name)

    def forget(self) -> None:
        """Do nothing: nothing is pending that is not in a store."""

    def close(self) -> None:
        """Do nothing: the stores give their partitions back."""


def object_changelog(store: LoggedStore[Any]) -> ObjectChangelog:
    """Return the changelog of *store*.

    Raises:
        InvalidTypeError: It is not in an object store.
    """
    changelog = store.changelog
    if not isinstance(changelog, ObjectChangelog):
        raise InvalidTypeError(f"the changelog of {store.name!r} is not in an object store")
    return changelog
