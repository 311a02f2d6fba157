"""How the tasks and standbys of one process are opened: all with the same options.

A task manager has one. It says when something is opened and closed; this says how.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from statestores.changelog import ChangelogOptions
from statestores.spi.durability import Durability
from statestores.state_root import StateRoot
from statestores.tasks.local_directory import LocalDirectory
from statestores.tasks.opening import open_task
from statestores.tasks.rebuilding import OnCorruption
from statestores.tasks.restore_progress import RestoreListener
from statestores.tasks.standby import Standby
from statestores.tasks.standby_opening import open_standby
from statestores.tasks.task import Task
from statestores.tasks.task_groups import TaskGroups
from statestores.tasks.task_id import TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOpener:
    """Opens tasks, and starts standbys; see `TaskManager` for what each argument means."""

    root: StateRoot
    """Where the stores are."""

    groups: TaskGroups
    """Which stores a task has."""

    local: LocalDirectory
    """Where engines lie."""

    backend: str | None
    """The backend of new engines."""

    options: Mapping[str, object] | None
    """The backend's own options."""

    durability: Durability
    """What a task's commit survives."""

    changelog_options: ChangelogOptions | None
    """How changelogs are written."""

    on_corruption: OnCorruption
    """What becomes of an engine that is damaged."""

    follow_interval_s: float
    """How often standbys look for changes, in seconds."""

    listener: RestoreListener
    """Told of each restore, on the thread that does it."""

    def open(self, task_id: TaskId, standbys: Sequence[Standby]) -> Task:
        """Open a task, over what its *standbys* have; the errors are those of `open_task`."""
        return open_task(
            self.root,
            task_id,
            self.groups.stores(task_id),
            local_directory=self.local.path,
            backend=self.backend,
            options=self.options,
            durability=self.durability,
            changelog_options=self.changelog_options,
            on_corruption=self.on_corruption,
            standbys=standbys,
            listener=self.listener,
        )

    def follow(self, task_id: TaskId) -> tuple[Standby, ...]:
        """Open and start a standby of each store of a task, or none if one cannot be opened."""
        with ExitStack() as on_failure:
            standbys = []
            for name in self.groups.stores(task_id):
                standby = open_standby(
                    self.root,
                    name,
                    task_id.partition,
                    self.local.partition(name, task_id.partition),
                    backend=self.backend,
                    options=self.options,
                    durability=self.durability,
                )
                standbys.append(on_failure.enter_context(standby))
                standby.follow(self.follow_interval_s)
            on_failure.pop_all()
        return tuple(standbys)


def close_standbys(standbys: Iterable[Standby]) -> None:
    """Close each of *standbys*, also when one fails."""
    with ExitStack() as stack:
        for standby in standbys:
            stack.callback(standby.close)
