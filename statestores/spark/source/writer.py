"""Batch writes: tasks stage their rows, and the driver publishes all of them or none."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from statestores.errors import InvalidArgumentError
from statestores.spark.source.publishing import Staged, discard_rows, publish_rows, stage_rows
from statestores.spark.source.write_by_snapshot import (
    are_sorted,
    replace_by_snapshots,
    stage_sorted,
    write_object_snapshots,
)
from statestores.spark.source.write_plan import WritePlan

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa


@dataclass(frozen=True)
class StagedMessage(WriterCommitMessage):
    """What a task reports to the driver."""

    staged: Staged
    """What it has staged."""


class StateStoreWriter(DataSourceArrowWriter):
    """Writes a DataFrame into a store."""

    def __init__(
        self, plan: WritePlan, *, overwrite: bool, expected_ends: Mapping[int, int]
    ) -> None:
        """Begin a write of its own, in conflict with anything that comes after *expected_ends*."""
        self._plan = plan
        self._expected_ends = expected_ends
        self._overwrite = overwrite
        self._write_id = uuid4().hex

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        """Stage the rows of one task."""
        from statestores.spark.columns import from_spark  # noqa: PLC0415  # needs pyarrow

        plan = self._plan
        context = TaskContext.get()
        if context is None:
            raise InvalidArgumentError("write() is called by Spark, within a task")
        changes = (from_spark(rows, plan.specification, raw=plan.raw) for rows in iterator)
        # Unique among all attempts of all tasks, and never the name of anything else.
        attempt = f"{context.partitionId():05d}-{context.taskAttemptId()}"
        stage = stage_sorted if are_sorted(plan) else stage_rows
        return StagedMessage(stage(plan, self._write_id, attempt, () if plan.skipped else changes))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish what the tasks have staged, in the order of Spark's partitions."""
        plan = self._plan
        if plan.skipped:
            return
        replaces = plan.by_snapshot and plan.root.directory is not None
        publish = replace_by_snapshots if replaces else publish_rows
        publish(
            plan,
            self._write_id,
            [message.staged for message in messages if isinstance(message, StagedMessage)],
            overwrite=self._overwrite,
            expected_ends=self._expected_ends,
        )
        if plan.by_snapshot and not replaces:
            write_object_snapshots(plan)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what was staged, of attempts that reported and of those that did not."""
        discard_rows(self._plan, self._write_id)
