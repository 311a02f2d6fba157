"""The command `export-spark`: a store as a checkpoint that Spark reads with nothing installed."""

from pathlib import Path
from typing import Annotated

import typer

from statestores.cli.arguments import JsonOption, PathArgument, RawOption, StoreOption
from statestores.cli.locations import choose_store
from statestores.cli.output import Output
from statestores.errors import InvalidArgumentError
from statestores.migration.spark.export import (
    DEFAULT_BATCHES,
    DEFAULT_SNAPSHOT_EVERY,
    export_spark_checkpoint,
)
from statestores.reading.locations import Root, locate


def export_spark(
    path: PathArgument,
    destination: Annotated[
        Path,
        typer.Argument(metavar="DEST", help="The checkpoint to make; there must be nothing yet."),
    ],
    *,
    batches: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help=f"At most so many batches; by default {DEFAULT_BATCHES}."
        ),
    ] = None,
    every: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Instead, a batch for so many commits."),
    ] = None,
    from_offset: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Changes before this offset are in batch 0, as content."
        ),
    ] = None,
    snapshot_every: Annotated[
        int, typer.Option(min=1, metavar="N", help="Batches from one snapshot to the next.")
    ] = DEFAULT_SNAPSHOT_EVERY,
    store: StoreOption = None,
    raw: RawOption = False,
    json: JsonOption = False,
) -> None:
    """Write a store as a checkpoint that Spark's own format("statestore") reads.

    Its changelog becomes batches, to travel to by batchId or to read as a change feed. Only the
    changelog and snapshots are read, and no lock is taken. The checkpoint appears whole or not at
    all. A query is not promised to go on from it.

    Example: statestores export-spark state/ rates.checkpoint --store rates --batches 100
    """
    output = Output(json=json)
    location = locate(path)
    if not isinstance(location, Root):
        raise InvalidArgumentError(
            f"{path!r} is no state root and no store of one, which is what is exported for Spark"
        )
    name = choose_store(location, store)
    with output.progress("exporting") as progress:
        done = export_spark_checkpoint(
            location.root,
            name,
            destination,
            batches=batches,
            every=every,
            from_offset=from_offset,
            snapshot_every=snapshot_every,
            raw=raw,
            progress=progress,
        )
    if json:
        output.document(
            {
                "store": name,
                "path": str(done.path),
                "partitions": done.partitions,
                "batches": done.batches,
                "changes": done.changes,
            }
        )
    else:
        output.line(
            f"{done.changes:,} changes of {name!r} in {done.batches} batches, "
            f"partitions: {done.partitions}: {destination}"
        )
