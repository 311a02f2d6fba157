"""The command `import-spark`, which starts a session; the command line finds it by its name."""

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import SparkSession

from statestores.cli.arguments import JsonOption, parse_pairs
from statestores.cli.columns import Column
from statestores.cli.output import Output
from statestores.cli.sentences import run_command
from statestores.errors import InvalidOptionError
from statestores.spark.session.interrupted_launch import ending_an_interrupted_launch
from statestores.spark.session.java_runtime import ensure_java
from statestores.spark.state.catalog import SparkStateStore, list_state_stores
from statestores.spark.state.importing import SparkImport, StateSelection, import_spark_state

_COLUMNS = tuple(
    Column(name, name) for name in ("operator", "name", "store", "partitions", "batches")
)


class JoinSide(StrEnum):
    """The sides of a stream-stream join."""

    LEFT = "left"
    RIGHT = "right"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with *arguments* and return its exit code.

    Raises:
        StateStoreError: It failed; the message is what a person should see.
    """
    return run_command(import_spark, arguments, "statestores import-spark")


def import_spark(
    checkpoint: Annotated[
        Path, typer.Argument(metavar="CHECKPOINT", help="The query's checkpointLocation.")
    ],
    *,
    root: Annotated[
        Path | None,
        typer.Option("--to", metavar="ROOT", help="The state root; it is made if need be."),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The store to make; by default it is named as the operator."
        ),
    ] = None,
    only_list: Annotated[
        bool, typer.Option("--list", help="Only say which state stores there are.")
    ] = False,
    operator: Annotated[
        int | None, typer.Option(metavar="N", help="The operator, if several are.")
    ] = None,
    spark_store: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The state store, if the operator has several."),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(metavar="N", help="The state after this batch.")
    ] = None,
    variable: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The state variable, of a transformWithState."),
    ] = None,
    join_side: Annotated[
        JoinSide | None, typer.Option(help="The rows of a side, of a stream-stream join.")
    ] = None,
    partitions: Annotated[
        int | None, typer.Option(metavar="N", help="By default those of the state.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="SQL",
            help="An expression over Spark's columns, as key.word; by default all of key.",
        ),
    ] = None,
    key_serde: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="By default the one for the type of a single column, and json for all else.",
        ),
    ] = None,
    value: Annotated[str | None, typer.Option(metavar="SQL", help="Likewise, of value.")] = None,
    value_serde: Annotated[str | None, typer.Option(metavar="NAME", help="Likewise.")] = None,
    master: Annotated[
        str, typer.Option(metavar="URL", help="Where Spark runs; by default here.")
    ] = "local[*]",
    conf: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A setting of the session. Repeatable."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """WRITES: make a store from the state of a streaming query of Spark's.

    All of it is imported, or nothing; afterwards both sides are counted and compared.

    Example: statestores import-spark counts.checkpoint --to state/ --store counts
    """
    output = Output(json=json)
    if root is None and not only_list:
        raise InvalidOptionError("--to ROOT is missing; or use --list to only look")
    spark = _session(master, parse_pairs("--conf", conf))
    try:
        if only_list or root is None:
            _print_stores(output, list_state_stores(spark, checkpoint.absolute()))
            return
        selection = StateSelection(
            operator_id=operator,
            store_name=spark_store,
            batch_id=batch,
            variable=variable,
            join_side=None if join_side is None else join_side.value,
            key=key,
            value=value,
            key_serde=key_serde,
            value_serde=value_serde,
        )
        done = import_spark_state(
            spark, checkpoint, root, selection, store=store, partitions=partitions
        )
        _print_import(output, done)
    finally:
        spark.stop()


def _session(master: str, settings: dict[str, str]) -> SparkSession:
    """Return a session that is quiet and takes times to be in UTC."""
    ensure_java()
    if master.startswith("local"):
        # Spark takes any python3 on PATH otherwise, which need not have this package.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.appName("statestores import-spark")
        .master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", str(sys.stderr.isatty()).lower())
        .config("spark.sql.session.timeZone", "UTC")
    )
    for key, value in settings.items():
        builder = builder.config(key, value)
    with ending_an_interrupted_launch():
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("FATAL")
    return session


def _print_import(output: Output, done: SparkImport) -> None:
    """Say what was imported."""
    name = done.specification.name
    checksum = f"{done.checksum:016x}"
    if output.json:
        output.document(
            {
                "store": name,
                "specification": done.specification.describe(),
                "partitions": done.partitions,
                "rows": done.rows,
                "checksum": checksum,
                "source": asdict(done.source),
            }
        )
    else:
        output.line(
            f"{done.rows:,} rows into {name!r}, partitions: {done.partitions}; "
            f"compared, checksum {checksum}"
        )


def _print_stores(output: Output, stores: Sequence[SparkStateStore]) -> None:
    """Print *stores*, a line for each."""
    if output.json:
        output.document([asdict(store) for store in stores])
        return
    rows = [
        (
            store.operator_id,
            store.operator_name,
            store.store_name,
            store.partitions,
            f"{store.first_batch} to {store.last_batch}",
        )
        for store in stores
    ]
    output.rows(_COLUMNS, rows)
