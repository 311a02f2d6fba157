"""The commits of a task whose stores' changelogs are in a directory."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from statestores.failpoints import reach
from statestores.files.directory_lock import DirectoryLock
from statestores.logged_store import LoggedStore
from statestores.logged_store.encoded_commit import commit_encoded
from statestores.spi.durability import Durability
from statestores.spi.offsets import Position
from statestores.tasks.commits.committed_ends import CommittedEnds
from statestores.tasks.commits.task_commit import forget_commit, is_recorded, record_commit
from statestores.tasks.commits.task_commits import TaskCommits
from statestores.tasks.commits.task_outputs import TaskOutputs
from statestores.tasks.commits.written_stores import WrittenStores


class DirectoryCommits(TaskCommits):
    """Records commits in the directory of the task, of which it has the lock."""

    def __init__(
        self,
        directory: Path,
        lock: DirectoryLock,
        durability: Durability,
        written: WrittenStores,
        ends: CommittedEnds,
        outputs: TaskOutputs | None,
    ) -> None:
        """Take over the *lock* of *directory*, and what it says was written."""
        self._directory = directory
        self._lock = lock
        self._durability = durability
        self._written = written
        self._ends = ends
        self._outputs = outputs

    @property
    def emits(self) -> bool:
        return self._outputs is not None and self._outputs.has_pending

    def record(self, stores: Sequence[LoggedStore[Any]], position: Position) -> Callable[[], None]:
        outputs = self._outputs
        recorded = record_commit(self._directory, stores, position, self._durability, outputs)

        def carry_out() -> None:
            reach("task.recorded")
            if outputs is not None and recorded.emitted is not None:
                outputs.publish(recorded.emitted)
                reach("task.outputs-appended")
            for store, changes in recorded.changes:
                commit_encoded(store, position, changes)
            reach("task.carried-out")
            forget_commit(self._directory)
            if outputs is not None:
                outputs.forget()

        return carry_out

    def is_recorded(self) -> bool:
        return is_recorded(self._directory)

    def note(
        self, committed: Iterable[LoggedStore[Any]], stores: Iterable[LoggedStore[Any]]
    ) -> None:
        reached = {} if self._outputs is None else self._outputs.reached
        self._written.note(committed, reached)
        self._ends.note(stores, reached)

    def forget(self) -> None:
        if self._outputs is not None:
            self._outputs.forget()

    def close(self) -> None:
        with ExitStack() as stack:
            stack.callback(self._lock.release)
            stack.callback(self._ends.close)
