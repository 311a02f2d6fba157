"""The command `import-spark`, which starts a session; the command line finds it by its name."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from pyspark.sql import SparkSession

from statestores.errors import InvalidOptionError
from statestores.spark.java_runtime import ensure_java
from statestores.spark.state_catalog import SparkStateStore, list_state_stores
from statestores.spark.state_import import StateSelection, import_spark_state

_COLUMNS = ("operator", "name", "store", "partitions", "batches")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with *arguments* and return its exit code.

    Raises:
        StateStoreError: It failed; the message is what a person should see.
    """
    call = _parser().parse_args(arguments)
    if call.root is None and not call.list:
        raise InvalidOptionError("--to ROOT is missing; or use --list to only look")
    spark = _session(call.master, _configuration(call.conf))
    try:
        if call.list:
            _print_stores(list_state_stores(spark, call.checkpoint.absolute()), as_json=call.json)
        else:
            _import(spark, call)
    finally:
        spark.stop()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="statestores import-spark",
        description="WRITES: make a store from the state of a streaming query of Spark's. All of "
        "it is imported, or nothing; afterwards both sides are counted and compared.",
        epilog="Example: statestores import-spark counts.checkpoint --to state/ --store counts",
    )
    parser.add_argument(
        "checkpoint", type=Path, metavar="CHECKPOINT", help="the query's checkpointLocation"
    )
    parser.add_argument(
        "--to",
        dest="root",
        type=Path,
        metavar="ROOT",
        help="the state root; it is made if need be",
    )
    parser.add_argument(
        "--store", metavar="NAME", help="the store to make; by default it is named as the operator"
    )
    parser.add_argument("--list", action="store_true", help="only say which state stores there are")
    parser.add_argument("--operator", type=int, metavar="N", help="the operator, if several are")
    parser.add_argument(
        "--spark-store", metavar="NAME", help="the state store, if the operator has several"
    )
    parser.add_argument("--batch", type=int, metavar="N", help="the state after this batch")
    parser.add_argument(
        "--variable", metavar="NAME", help="the state variable, of a transformWithState"
    )
    parser.add_argument(
        "--join-side", choices=("left", "right"), help="the rows of a side, of a stream-stream join"
    )
    parser.add_argument("--partitions", type=int, metavar="N", help="by default those of the state")
    for name in ("key", "value"):
        parser.add_argument(
            f"--{name}",
            metavar="SQL",
            help=f"an expression over Spark's columns, as {name}.word; by default all of {name}",
        )
        parser.add_argument(
            f"--{name}-serde",
            metavar="NAME",
            help="by default the one for the type of a single column, and json for all else",
        )
    parser.add_argument(
        "--master", default="local[*]", metavar="URL", help="where Spark runs; by default here"
    )
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of the session; repeatable",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser


def _configuration(pairs: Sequence[str]) -> dict[str, str]:
    """Return the settings that *pairs* give.

    Raises:
        InvalidOptionError: One has no equals sign.
    """
    settings = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InvalidOptionError(f"--conf is KEY=VALUE, got {pair!r}")
        settings[key] = value
    return settings


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
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("FATAL")
    return session


def _import(spark: SparkSession, call: argparse.Namespace) -> None:
    """Import what *call* says, and say what was done."""
    selection = StateSelection(
        operator_id=call.operator,
        store_name=call.spark_store,
        batch_id=call.batch,
        variable=call.variable,
        join_side=call.join_side,
        key=call.key,
        value=call.value,
        key_serde=call.key_serde,
        value_serde=call.value_serde,
    )
    done = import_spark_state(
        spark,
        call.checkpoint,
        call.root,
        selection,
        store=call.store,
        partitions=call.partitions,
    )
    name = done.specification.name
    checksum = f"{done.checksum:016x}"
    if call.json:
        document = {
            "store": name,
            "specification": done.specification.describe(),
            "partitions": done.partitions,
            "rows": done.rows,
            "checksum": checksum,
            "source": asdict(done.source),
        }
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        sys.stdout.write(
            f"{done.rows:,} rows into {name!r}, partitions: {done.partitions}; "
            f"compared, checksum {checksum}\n"
        )


def _print_stores(stores: Sequence[SparkStateStore], *, as_json: bool) -> None:
    """Print *stores*, a line for each."""
    if as_json:
        sys.stdout.write(json.dumps([asdict(store) for store in stores], indent=2) + "\n")
        return
    rows: list[Sequence[object]] = [_COLUMNS]
    rows += [
        (
            store.operator_id,
            store.operator_name,
            store.store_name,
            store.partitions,
            f"{store.first_batch} to {store.last_batch}",
        )
        for store in stores
    ]
    for row in rows:
        sys.stdout.write("\t".join(map(str, row)) + "\n")
