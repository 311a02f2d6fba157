"""The command `restore`: local engines made from what a state root keeps."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Annotated

import typer
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from statestores.arrow.progress import Progress as RowProgress
from statestores.cli.arguments import (
    BackendOption,
    JsonOption,
    LocalOption,
    RootArgument,
    parse_backend_options,
)
from statestores.cli.columns import Column
from statestores.cli.new_engines import backends_of_new_engines
from statestores.cli.output import Output
from statestores.errors import InvalidArgumentError, StateStoreError
from statestores.logged_store import join_changelog
from statestores.logged_store.object_opening import restore_from_objects
from statestores.opening import DEFAULT_BACKEND
from statestores.registry import load_backend
from statestores.spi.durability import Durability
from statestores.staging.unfinished_write import finish_staged_writes
from statestores.state_root import StateRoot
from statestores.tasks.local_directory import LocalDirectory
from statestores.tasks.rebuilding import OnCorruption, open_local


def restore(
    root: RootArgument,
    *,
    local: LocalOption = None,
    store: Annotated[
        list[str] | None,
        typer.Option("--store", metavar="NAME", help="This store; repeatable. Default: all."),
    ] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", metavar="N", help="This one; repeatable. Default: all."),
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(
            "--backend",
            metavar="NAME",
            help="The backend of new engines. Default: that of the store's other engines here.",
        ),
    ] = None,
    backend_option: BackendOption = None,
    rebuild: Annotated[
        bool,
        typer.Option(
            "--rebuild", help="Set damaged engines aside and restore them, instead of failing."
        ),
    ] = False,
    threads: Annotated[
        int, typer.Option("--threads", min=1, metavar="N", help="Partitions at the same time.")
    ] = 4,
    json: JsonOption = False,
) -> None:
    """WRITES: bring local engines up to their changelogs, so that an application starts at once.

    From the newest valid snapshot where that is needed, and the changelog after it. An engine that
    is not there is made by the backend of the store's other engines. The partitions must not be
    open. One that cannot be restored does not keep the others from it.

    ROOT may be the URL of a state root in an object store, with --local: its owners go on then.

    Example: statestores restore state/ --local /mnt/disk/state --threads 8
    """
    state = StateRoot.open(root)
    if state.storage is not None and local is None:
        raise InvalidArgumentError(
            f"the engines of {state.storage.url!r} lie on local disks; say where with --local"
        )
    if state.storage is not None and rebuild:
        raise InvalidArgumentError(
            "an engine of a state root in an object store is a copy: remove its directory instead "
            "of --rebuild"
        )
    wanted = [
        (name, number)
        for name in store or sorted(state.stores)
        for number in range(state.store(name).partitions)
        if not partition or number in partition
    ]
    if not wanted:
        least = max(state.store(name).partitions for name in store or state.stores)
        raise InvalidArgumentError(
            f"no store has the partitions {', '.join(map(str, partition or ()))}; there are 0 to "
            f"{least - 1}"
        )
    if backend is not None:
        load_backend(backend)  # said once, and not by every partition
    output = Output(json=json)
    place = LocalDirectory(state.path if local is None else local)
    found = {} if backend is not None else backends_of_new_engines(state, place, wanted)
    unsaid = sorted({name for (name, _), of in found.items() if of is None})
    if unsaid:
        output.remark(
            f"nothing here says of which backend the engines of {', '.join(map(repr, unsaid))} "
            f"were, so they are made by {DEFAULT_BACKEND!r}; --backend NAME chooses another"
        )
    restoring = partial(
        _restored,
        state,
        place,
        parse_backend_options(backend_option),
        "rebuild" if rebuild else "fail",
    )
    with _bars(output) as bars, ThreadPoolExecutor(min(threads, len(wanted))) as pool:
        pending = [
            pool.submit(restoring, name, number, backend or found.get((name, number)), bars)
            for name, number in wanted
        ]
    done = [future.result() for future in pending]
    failures = [each for each in done if isinstance(each, StateStoreError)]
    output.rows(
        (
            Column("store", "store"),
            Column("partition", "partition"),
            Column("offset", "offset"),
            Column("snapshot_rows", "from snapshot"),
            Column("changelog_rows", "from changelog"),
            Column("rebuilt", "rebuilt", lambda reason: f"yes: {reason}"),
        ),
        [each for each in done if not isinstance(each, StateStoreError)],
    )
    for failure in failures[1:]:
        output.remark(str(failure))
    if failures:
        raise failures[0]


def _restored(
    root: StateRoot,
    local: LocalDirectory,
    options: dict[str, object],
    on_corruption: OnCorruption,
    name: str,
    number: int,
    backend: str | None,
    bars: Progress | None,
) -> tuple[object, ...] | StateStoreError:
    """Return the row of one partition, restored, or what has kept it from being restored."""
    bar = None if bars is None else bars.add_task(f"{name}/{number}", total=None)

    def update(progress: RowProgress) -> None:
        if bars is not None and bar is not None:
            bars.update(bar, completed=progress.rows, total=progress.total_rows)

    try:
        if root.storage is not None:
            done = restore_from_objects(
                root,
                root.store(name).specification,
                number,
                directory=local.partition(name, number),
                backend=backend,
                options=options,
                progress=update,
            )
            return (name, number, done.offset, done.snapshot_rows, done.changelog_rows, None)
        finish_staged_writes(root, name)
        opened, rebuild = open_local(
            local.partition(name, number),
            root.store(name).specification,
            root.partition(name, number),
            backend=backend,
            options=options,
            durability=Durability.POWER_LOSS,
            on_corruption=on_corruption,
        )
        with opened, join_changelog(opened, root, number, progress=update) as logged:
            done = logged.restored
    except StateStoreError as error:
        return error
    reason = None if rebuild is None else rebuild.reason
    return (name, number, done.offset, done.snapshot_rows, done.changelog_rows, reason)


@contextmanager
def _bars(output: Output) -> Iterator[Progress | None]:
    """Show a bar for each partition with its speed and what remains, if that is a terminal."""
    console = output.remarks_console
    if not console.is_terminal:
        yield None
        return
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rows"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    ) as bars:
        yield bars
