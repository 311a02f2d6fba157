"""What a write to a store will do, checked as far as the driver can before any task runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.types import StructType, TimestampNTZType

from statestores.errors import InvalidArgumentError, InvalidOptionError
from statestores.files.directory_lock import LOCK_FILE
from statestores.files.durable_json import ROOT_FILE, is_left_behind
from statestores.spark.given_root import GivenRoot
from statestores.spark.options.read_and_write import DEFAULT_PARTITIONS, SourceOptions
from statestores.spark.row_schemas import with_columns
from statestores.spark.store_options import check_options, new_specification
from statestores.spi.specification import StoreSpecification


@dataclass(frozen=True)
class WritePlan:
    """A write that has been checked as far as the driver can."""

    root: GivenRoot
    """The state root; it need not exist yet."""

    specification: StoreSpecification[Any, Any]
    """What the store is, or will be."""

    partitions: int
    """How many partitions it has."""

    raw: bool
    """Whether keys and values are bytes already."""

    skipped: bool
    """Whether nothing is written, because the store is there and was to be left alone."""

    commit_timeout_ms: int
    """How long the commit waits while somebody else has the store locked."""

    snapshot_interval: int | None = None
    """Streams: after how many micro-batches each partition gets another snapshot."""

    by_snapshot: bool = False
    """Whether the rows become snapshots: those of a directory have no changelog then."""


def plan_write(root: GivenRoot, options: SourceOptions, schema: StructType) -> WritePlan:
    """Check *options* and the columns of *schema* against the store, or against none.

    Raises:
        InvalidOptionError: An option is missing, contradicts the store that is there, or says to
            fail if there is one; or a column does not fit the rows of the store.
        InvalidArgumentError: A column is missing or unknown, or has times without a zone.
    """
    from statestores.spark.columns import check_columns  # noqa: PLC0415  # needs pyarrow

    present = root.find()
    stores = {} if present is None else present.stores
    name = options.store_name
    if name is None:
        if len(stores) != 1:
            raise InvalidOptionError(
                f"the option 'storeName' is missing, and {root.shown!r} has "
                f"{len(stores)} stores; name the store to write"
            )
        (name,) = stores
    entry = stores.get(name)
    if entry is None:
        if present is None and root.directory is not None:
            _check_new_root(root.directory, name)
        specification = new_specification(name, options, schema)
        partitions = options.num_partitions or DEFAULT_PARTITIONS
    else:
        if options.if_exists == "fail":
            raise InvalidOptionError(
                f"the store {name!r} exists in {root.shown!r}; save with the mode append, which "
                "merges, or overwrite, which replaces its content"
            )
        check_options(options, entry.specification, entry.partitions)
        specification, partitions = entry.specification, entry.partitions
    check_columns(schema.names, specification)
    _check_times(schema, specification)
    if not options.raw:
        specification = with_columns(specification, schema, merge=options.merge_schema)
    return WritePlan(
        root=root,
        specification=specification,
        partitions=partitions,
        raw=options.raw,
        skipped=entry is not None and options.if_exists == "ignore",
        commit_timeout_ms=options.commit_timeout_ms,
        snapshot_interval=options.snapshot_interval,
    )


def _check_times(schema: StructType, specification: StoreSpecification[Any, Any]) -> None:
    """Accept columns of times that say which instants they are.

    Raises:
        InvalidArgumentError: One has times of no zone. Spark takes those to be in the zone of its
            session, which nobody says here.
    """
    times = {
        name
        for each in specification.kind.numbers
        if each.is_time
        for name in (each.name, each.row_name)
    }
    for column in schema.fields:
        if column.name in times and isinstance(column.dataType, TimestampNTZType):
            raise InvalidArgumentError(
                f"the column {column.name!r} is timestamp_ntz, whose times have no zone, and a "
                f"store keeps instants; write CAST({column.name} AS timestamp) AS {column.name}, "
                "which takes them in the time zone of the session"
            )


def _check_new_root(root: Path, store: str) -> None:
    """Accept a directory in which a state root may be made.

    Raises:
        InvalidOptionError: It holds something else, a checkpoint of Spark's perhaps.
    """
    if root.is_dir():
        names = {path.name for path in root.iterdir()} - {store, LOCK_FILE}
        others = [name for name in names if not is_left_behind(name, ROOT_FILE)]
        if others:
            raise InvalidOptionError(
                f"{str(root)!r} is not empty and no state root: it has {min(others)!r}; choose "
                "another path"
            )
