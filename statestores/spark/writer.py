"""Batch writes: tasks stage their rows, and the driver publishes all of them or none."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from statestores.durable_json import ROOT_FILE, is_left_behind
from statestores.errors import InvalidArgumentError, InvalidOptionError
from statestores.semantics.directory_lock import LOCK_FILE
from statestores.spark.options import DEFAULT_PARTITIONS, SourceOptions
from statestores.spark.store_options import check_options, new_specification
from statestores.spark.write_conflicts import check_conflict
from statestores.spi.specification import StoreSpecification
from statestores.state_root import StateRoot, is_state_root

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from statestores.staged_write import StagedRows


@dataclass(frozen=True)
class WritePlan:
    """A write that has been checked as far as the driver can."""

    root: Path
    """The state root; it need not exist yet."""

    specification: StoreSpecification[Any, Any]
    """What the store is, or will be."""

    partitions: int
    """How many partitions it has."""

    raw: bool
    """Whether keys and values are bytes already."""

    skipped: bool
    """Whether nothing is written, because the store is there and was to be left alone."""


@dataclass(frozen=True)
class StagedMessage(WriterCommitMessage):
    """What a task reports to the driver."""

    staged: "StagedRows"
    """What it has staged."""


class StateStoreWriter(DataSourceArrowWriter):
    """Writes a DataFrame into a store."""

    def __init__(
        self, plan: WritePlan, *, overwrite: bool, expected_ends: Mapping[int, int]
    ) -> None:
        """Begin a write of its own, in conflict with all that comes after *expected_ends*."""
        self._plan = plan
        self._expected_ends = expected_ends
        self._overwrite = overwrite
        self._write_id = uuid4().hex

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        """Stage the rows of one task."""
        from statestores.spark.columns import from_spark  # noqa: PLC0415  # needs pyarrow
        from statestores.staged_write import stage  # noqa: PLC0415

        plan = self._plan
        context = TaskContext.get()
        if context is None:
            raise InvalidArgumentError("write() is called by Spark, within a task")
        changes = (from_spark(rows, plan.specification, raw=plan.raw) for rows in iterator)
        return StagedMessage(
            stage(
                plan.root,
                plan.specification,
                plan.partitions,
                self._write_id,
                # Unique among all attempts of all tasks, and the same name for nothing else.
                f"{context.partitionId():05d}-{context.taskAttemptId()}",
                () if plan.skipped else changes,
            )
        )

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish what the tasks have staged, in the order of Spark's partitions."""
        from statestores.staged_write import publishing  # noqa: PLC0415  # needs pyarrow

        plan = self._plan
        if plan.skipped:
            return
        root = StateRoot.create(plan.root)
        root.add_store(plan.specification, partitions=plan.partitions)
        with publishing(root, plan.specification.name) as publisher:
            check_conflict(plan.specification.name, publisher.end_offsets, self._expected_ends)
            publisher.publish(
                self._write_id,
                [message.staged for message in messages if isinstance(message, StagedMessage)],
                "overwrite" if self._overwrite else "append",
            )

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what was staged, of attempts that reported and of those that did not."""
        from statestores.staged_write import discard  # noqa: PLC0415  # needs pyarrow

        discard(self._plan.root, self._plan.specification.name, self._write_id)


def plan_write(root: Path, options: SourceOptions, schema: StructType) -> WritePlan:
    """Check *options* and the columns of *schema* against the store, or against none.

    Raises:
        InvalidOptionError: An option is missing, contradicts the store that is there, or says to
            fail if there is one.
        InvalidArgumentError: A column is missing or unknown.
    """
    from statestores.spark.columns import check_columns  # noqa: PLC0415  # needs pyarrow

    present = StateRoot.open(root) if is_state_root(root) else None
    stores = {} if present is None else present.stores
    name = options.store_name
    if name is None:
        if len(stores) != 1:
            raise InvalidOptionError(
                f"the option 'storeName' is missing, and {str(root)!r} has "
                f"{len(stores)} stores; name the store to write"
            )
        (name,) = stores
    entry = stores.get(name)
    if entry is None:
        if present is None:
            _check_new_root(root, name)
        specification = new_specification(name, options, schema)
        partitions = options.num_partitions or DEFAULT_PARTITIONS
    else:
        if options.if_exists == "fail":
            raise InvalidOptionError(
                f"the store {name!r} exists in {str(root)!r}; save with the mode append, which "
                "merges, or overwrite, which replaces its content"
            )
        check_options(options, entry.specification, entry.partitions)
        specification, partitions = entry.specification, entry.partitions
    check_columns(schema.names, specification)
    return WritePlan(
        root=root,
        specification=specification,
        partitions=partitions,
        raw=options.raw,
        skipped=entry is not None and options.if_exists == "ignore",
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
