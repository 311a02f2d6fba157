"""The command `reshard`: a store gets another number of partitions."""

from typing import Annotated

import typer

from statestores.cli.arguments import JsonOption, RootArgument
from statestores.cli.columns import Column
from statestores.cli.output import Output
from statestores.resharding import ReshardReport, plan_reshard
from statestores.resharding import reshard as reshard_store
from statestores.text.sizes import format_bytes

_MIB = 1024 * 1024

_COLUMNS = (
    Column("store", "store"),
    Column("before", "partitions before"),
    Column("partitions", "partitions"),
    Column("rows", "rows"),
    Column("bytes", "bytes"),
    Column("expired", "expired"),
    Column("offset", "offset"),
)
_PLANNED = (
    Column("store", "store"),
    Column("before", "partitions before"),
    Column("partitions", "partitions"),
    Column("snapshot_rows", "rows of snapshots"),
    Column("changes", "changes after them"),
    Column("bytes", "bytes"),
)


def reshard(
    root: RootArgument,
    store: Annotated[str, typer.Argument(metavar="STORE", help="The store.")],
    *,
    partitions: Annotated[
        int, typer.Option("--partitions", metavar="N", min=1, help="How many it is to have.")
    ],
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="ROOT",
            help="A state root, or its URL, that gets the store; the other stays as it is. By "
            "default in place.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say how much there is to move.")
    ] = False,
    drop_expired: Annotated[
        bool,
        typer.Option(
            "--drop-expired",
            help="Leave out rows that live in a partition which is behind, and have expired by the "
            "stream time of the furthest. Without it a store with such rows is refused.",
        ),
    ] = False,
    keep_old: Annotated[
        bool,
        typer.Option(
            "--keep-old",
            help="Keep the old partitions for readers at work; the next reshard removes them.",
        ),
    ] = False,
    memory: Annotated[
        int,
        typer.Option("--memory", metavar="MIB", min=1, help="About how much memory rows may take."),
    ] = 256,
    json: JsonOption = False,
) -> None:
    """WRITES: give a store another number of partitions.

    Every row goes where the store's partitioner looks for it among so many. All partitions are
    written anew, as snapshots and empty changelogs, and count at once when all of them are on disk:
    killed before, the store is as it was. Nobody may have the store open meanwhile. A change feed
    or a streaming query that has read the old changelogs is refused afterwards, and begins anew
    with the content. With the number that the store has, what a killed reshard has left is removed.

    ROOT may be the URL of an object store. Nobody is kept from writing there: a reshard in place
    raises if somebody does meanwhile, and what they wrote is there. This machine does all of it;
    statestores.spark.reshard has Spark's tasks do it.

    Example: statestores reshard state/ planes --partitions 8
    """
    output = Output(json=json)
    if dry_run:
        plan = plan_reshard(root, store, partitions, to=to)
        row = (
            *(plan.store, plan.before, plan.partitions),
            *(plan.snapshot_rows, plan.changes, plan.bytes),
        )
        output.rows(_PLANNED, [row])
        output.remark("nothing was changed; leave --dry-run out to do it")
        return
    with output.progress(f"reshard of {store}") as progress:
        done = reshard_store(
            root,
            store,
            partitions,
            to=to,
            drop_expired=drop_expired,
            keep_old=keep_old,
            memory_bytes=memory * _MIB,
            progress=progress,
        )
    row = (done.store, done.before, done.partitions, sum(done.rows), done.bytes, done.expired)
    output.rows(_COLUMNS, [(*row, done.offset)])
    for line in _remarks(done):
        output.remark(line)


def _remarks(done: ReshardReport) -> list[str]:
    """Return what is to be known besides the numbers."""
    if done.offset is None:
        return [f"{done.store!r} has {done.partitions} partitions already; nothing was moved"]
    size = format_bytes(done.bytes)
    remarks = [f"{size} of snapshots at offset {done.offset}; the changelogs begin after it"]
    remarks += [
        f"of {topic!r}, partition {number}, some old partitions had more than the position says: "
        "whoever resumes there applies that once more"
        for topic, number in done.behind
    ]
    return remarks
