"""Opening a task: its stores, as far as their changelogs go, with a commit that a crash stopped."""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import Any

from statestores.begun_partitions import refuse_gone
from statestores.changelog import ChangelogOptions, FileChangelog
from statestores.errors import (
    CapabilityNotSupportedError,
    InvalidArgumentError,
    StoreMismatchError,
)
from statestores.files.directory_lock import DirectoryLock
from statestores.logged_store import LoggedStore, join_changelog
from statestores.root_document import TASKS_DIRECTORY
from statestores.semantics.every_kind.arguments import store_names
from statestores.spi.durability import Durability
from statestores.staging.unfinished_write import finish_staged_writes
from statestores.state_root import PartitionDirectory, StateRoot
from statestores.tasks.commits.committed_ends import CommittedEnds
from statestores.tasks.commits.directory_commits import DirectoryCommits
from statestores.tasks.commits.task_commit import (
    changelog_ends,
    finish_commit,
    is_recorded,
)
from statestores.tasks.commits.task_outputs import TaskOutputs
from statestores.tasks.commits.written_stores import WrittenStores
from statestores.tasks.local_directory import local_engines
from statestores.tasks.objects.opening import open_task_in_objects
from statestores.tasks.rebuilding import OnCorruption, Rebuild, check_on_corruption, open_local
from statestores.tasks.restore_progress import RestoreListener, RestoreReporter
from statestores.tasks.standby import Standby
from statestores.tasks.task import Task
from statestores.tasks.task_id import TaskId


def open_task(
    root: StateRoot | str | PathLike[str],
    task_id: TaskId | str,
    stores: Iterable[str],
    *,
    local_directory: str | PathLike[str] | None = None,
    backend: str | None = None,
    options: Mapping[str, object] | None = None,
    durability: Durability = Durability.POWER_LOSS,
    changelog_options: ChangelogOptions | None = None,
    on_corruption: OnCorruption = "fail",
    standbys: Iterable[Standby] = (),
    listener: RestoreListener | None = None,
    outputs: TaskOutputs | None = None,
) -> Task:
    """Open the *stores* of a task as one, each brought up to its changelog.

    A commit that a crash has stopped halfway is finished first. In a root in an object store,
    opening takes the partitions of all stores over: whoever has the task open is fenced, and its
    next commit raises `FencedError` (TSK-17).

    Args:
        root: The state root, or its path. The stores have been added to it before.
        task_id: The task; its partition is that of every store.
        stores: The names of the stores, at least one.
        local_directory: Where the engines lie; by default in the state root. With a root in an
            object store it must be given.
        backend: The backend of new engines.
        options: The backend's own options.
        durability: What a commit survives.
        changelog_options: How the changelogs are written.
        on_corruption: What to do about an engine whose files are damaged: fail, or set it aside
            and restore from the changelog. `Task.rebuilds` says what was.
        standbys: Copies of the stores to promote; the other stores are opened.
        listener: Told how far each restore has come.
        outputs: What the task emits to, as part of its commits.

    Raises:
        CommitConflictError: A recorded commit emits, and there are no *outputs*.
        InvalidArgumentError: There is no store, or one that has no such partition; or no directory
            for the engines of a root in an object store.
        CapabilityNotSupportedError: There are *outputs*, and the root is in an object store.
        FencedError: Another process has taken the task over at the same time.
        StoreNotFoundError: The state root has no such store.
        StoreLockedError: Another process has the task, or one of its stores.
        StoreCorruptedError: A store that the task has written is gone, or an older copy of it was
            put back.
        StateStoreError: As `statestores.open_logged_store`, of one of the stores.
    """
    names = list(dict.fromkeys(store_names(stores)))
    task = TaskId.of(task_id)
    state = root if isinstance(root, StateRoot) else StateRoot.open(root)
    if not names:
        raise InvalidArgumentError(f"the task {task} has no stores; name at least one")
    check_on_corruption(on_corruption)
    if state.storage is not None:
        if outputs is not None:
            raise CapabilityNotSupportedError(
                f"the task {task} emits records, which are files, and {state.storage.url!r} is in "
                "an object store; open it on a state root in a directory"
            )
        return open_task_in_objects(
            state,
            state.storage,
            task,
            names,
            local=local_engines(state, local_directory),
            backend=backend,
            options=options,
            durability=durability,
            changelog_options=changelog_options,
            on_corruption=on_corruption,
            standbys=standbys,
            listener=listener,
        )
    local = local_engines(state, local_directory)
    sources = {name: state.partition(name, task.partition) for name in names}
    directory = state.path / TASKS_DIRECTORY / str(task)
    copies = {standby.name: standby for standby in standbys if standby.is_open}
    opened: dict[str, LoggedStore[Any]] = {}
    rebuilds: list[Rebuild] = []
    with ExitStack() as on_failure:
        lock = DirectoryLock.acquire(directory)
        on_failure.callback(lock.release)
        for name in names:
            finish_staged_writes(state, name)
        written = WrittenStores(
            directory, {name: source.changelog for name, source in sources.items()}
        )
        ends = CommittedEnds(directory, durability)
        ends.check_written(task, written.names)
        for name, source in sources.items():
            _refuse_gone(task, name, source, written, ends)
        if is_recorded(directory):  # an older copy must not be taken for the end of its stores
            ends.check(task, changelog_ends(state, task.partition, names))
        finish_commit(directory, state, task.partition, outputs)
        for name, source in sources.items():
            reporter = RestoreReporter(listener, task, name)
            reporter.start()
            if name in copies:
                logged = copies[name].promote(
                    changelog_options=changelog_options, progress=reporter
                )
            else:
                logged, rebuild = _open_and_restore(
                    local.partition(name, task.partition),
                    state,
                    (name, source),
                    backend,
                    options,
                    durability,
                    changelog_options,
                    on_corruption,
                    reporter,
                )
                rebuilds += [rebuild] if rebuild else []
            opened[name] = on_failure.enter_context(logged)
            reporter.end()
        written.check(task, opened.values())
        ends.check(task, {name: each.changelog.end_offset for name, each in opened.items()})
        if outputs is not None:
            outputs.check(dict.fromkeys(written.outputs, 1) | dict(ends.outputs))
        on_failure.pop_all()
    commits = DirectoryCommits(directory, lock, durability, written, ends, outputs)
    return Task(task, opened, commits, rebuilds)


def _refuse_gone(
    task: TaskId,
    name: str,
    source: PartitionDirectory,
    written: WrittenStores,
    ends: CommittedEnds,
) -> None:
    """Accept *source*, the partition of the store *name*, unless its changelog is gone.

    Raises:
        StoreCorruptedError: It is, and the task has written it.
        StoreMismatchError: It is, and the task has had no commit of it.
    """
    if FileChangelog.exists(source.changelog):
        return
    try:
        refuse_gone(source)
    except StoreMismatchError:
        written.refuse_gone(task, [name])
        ends.check(task, {name: 0})
        raise


def _open_and_restore(
    directory: Path,
    root: StateRoot,
    named: tuple[str, PartitionDirectory],
    backend: str | None,
    options: Mapping[str, object] | None,
    durability: Durability,
    changelog_options: ChangelogOptions | None,
    on_corruption: OnCorruption,
    reporter: RestoreReporter,
) -> tuple[LoggedStore[Any], Rebuild | None]:
    """Open the *named* store with its engine in *directory*, and bring it up."""
    name, source = named
    partition = int(source.path.name)
    store, rebuild = open_local(
        directory,
        root.store(name).specification,
        source,
        backend=backend,
        options=options,
        durability=durability,
        on_corruption=on_corruption,
    )
    try:
        logged = join_changelog(
            store, root, partition, changelog_options=changelog_options, progress=reporter
        )
    except BaseException:
        store.close()
        raise
    return logged, rebuild
