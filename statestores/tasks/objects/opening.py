"""Opening a task whose stores' changelogs are in an object store, with engines on local disks.

What can go wrong on this machine goes wrong first. Then all partitions are taken, which fences
whoever had the task; then it is looked whether all of them are this task's, and only then is
anything carried out, restored, or written (TSK-17).
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from statestores.changelog import ChangelogOptions
from statestores.logged_store.object_opening import (
    ReadyEngine,
    bring_up,
    ready_engine,
    restorable_engine,
    take_over,
)
from statestores.opening import BytesStore
from statestores.spi.durability import Durability
from statestores.state_root import StateRoot
from statestores.storage import ObjectStorage
from statestores.tasks.local_directory import LocalDirectory
from statestores.tasks.objects.recovery import finish_commits
from statestores.tasks.objects.task_names import TaskNames
from statestores.tasks.rebuilding import OnCorruption, Rebuild, open_or_rebuild
from statestores.tasks.restore_progress import RestoreListener, RestoreReporter
from statestores.tasks.standby import Standby
from statestores.tasks.task import Task
from statestores.tasks.task_id import TaskId


def open_task_in_objects(
    root: StateRoot,
    storage: ObjectStorage,
    task: TaskId,
    names: Sequence[str],
    *,
    local: LocalDirectory,
    backend: str | None,
    options: Mapping[str, object] | None,
    durability: Durability,
    changelog_options: ChangelogOptions | None,
    on_corruption: OnCorruption,
    standbys: Iterable[Standby],
    listener: RestoreListener | None,
) -> Task:
    """Open the stores *names* of *task*, in *storage*; see `statestores.tasks.open_task`.

    Raises:
        StateStoreError: As `open_task`.
    """
    copies = {standby.name: standby for standby in standbys if standby.is_open}
    rebuilds: list[Rebuild] = []
    ready: dict[str, ReadyEngine] = {}
    opened: dict[str, Any] = {}
    # The standbys go on following only when what was taken is given back.
    with ExitStack() as handed_over, ExitStack() as on_failure:
        for name in names:
            if name in copies:
                handed_over.enter_context(copies[name]._handing_over())  # noqa: SLF001  # of this package
                ready[name] = copies[name]._made_ready()  # noqa: SLF001  # likewise
                continue
            ready[name] = _ready(
                root, name, task, local, backend, options, durability, on_corruption, rebuilds
            )
            on_failure.callback(ready[name].close)
        logs = {
            name: on_failure.enter_context(take_over(ready[name], changelog_options))
            for name in names
        }
        commits = finish_commits(TaskNames(str(task), storage.url), root, storage, logs)
        for name in names:
            reporter = RestoreReporter(listener, task, name)
            reporter.start()
            if name in copies:
                logged = copies[name]._taken_over(ready[name], logs[name], reporter)  # noqa: SLF001  # likewise
            else:
                logged = bring_up(ready[name], logs[name], reporter)
            opened[name] = on_failure.enter_context(logged)
            reporter.end()
        commits.note(opened.values(), opened.values())
        on_failure.pop_all()
    return Task(task, opened, commits, rebuilds)


def _ready(
    root: StateRoot,
    name: str,
    task: TaskId,
    local: LocalDirectory,
    backend: str | None,
    options: Mapping[str, object] | None,
    durability: Durability,
    on_corruption: OnCorruption,
    rebuilds: list[Rebuild],
) -> ReadyEngine:
    """Open the engine of the store *name*, or a new one in place of a damaged one."""
    specification = root.store(name).specification
    directory = local.partition(name, task.partition)
    open_engine = restorable_engine(directory, specification, backend, options, durability)

    def opened() -> BytesStore:
        # Whatever is damaged here, the log has it from its first offset on.
        store, rebuild = open_or_rebuild(
            directory, name, open_engine, missing=lambda: None, on_corruption=on_corruption
        )
        rebuilds.extend([rebuild] if rebuild else [])
        return store

    return ready_engine(root, specification, task.partition, directory, opened)
