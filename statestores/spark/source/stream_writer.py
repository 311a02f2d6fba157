"""Streaming writes: each micro-batch is one staged write, which is applied once.

The write is named for the query and the batch, and what is published says so durably. So a batch
that Spark repeats, since it has not heard that it ended, finds itself already there.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from statestores.errors import InvalidArgumentError
from statestores.spark.session.older_pyspark import (
    SINKS_TAKE_BATCHES,
    DataSourceStreamArrowWriter,
    RowStreamWriter,
)
from statestores.spark.session.query_session import QUERY_PROPERTY
from statestores.spark.source.publishing import Staged, discard_rows, publish_rows, stage_rows
from statestores.spark.source.write_by_snapshot import write_due_snapshots
from statestores.spark.source.write_plan import WritePlan

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

_BATCH = "streaming.sql.batchId"


@dataclass(frozen=True)
class StagedBatchMessage(WriterCommitMessage):
    """What a task of a micro-batch reports to the driver."""

    query: str
    """Which query it is. The driver is not told, when it commits."""

    staged: Staged
    """What the task has staged."""


class StateStoreStreamWriter(DataSourceStreamArrowWriter):
    """Writes a streaming DataFrame into a store. Spark makes another one for each commit."""

    def __init__(self, plan: WritePlan, *, overwrite: bool) -> None:
        """Write as *plan* says; *overwrite* is what the output mode ``complete`` comes as."""
        self._plan = plan
        self._overwrite = overwrite

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        """Stage the rows of one task of one micro-batch."""
        from statestores.spark.columns import from_spark  # noqa: PLC0415  # needs pyarrow

        plan = self._plan
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(QUERY_PROPERTY)
        batch = None if context is None else context.getLocalProperty(_BATCH)
        if context is None or query is None or batch is None:
            raise InvalidArgumentError("write() is called by Spark, within a task of a query")
        staged = stage_rows(
            plan,
            _write_id(query, int(batch)),
            # Spark counts its attempts anew after a restart, and the same batch may come again.
            f"{context.partitionId():05d}-{uuid4().hex}",
            (from_spark(rows, plan.specification, raw=plan.raw) for rows in iterator),
        )
        if not context.partitionId():
            write_due_snapshots(plan, int(batch))
        return StagedBatchMessage(query, staged)

    def commit(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803  # Spark's name
    ) -> None:
        """Publish the micro-batch, unless it is published already."""
        from statestores.staging.write_intent import StreamBatch  # noqa: PLC0415  # needs pyarrow

        plan = self._plan
        staged = [message for message in messages if isinstance(message, StagedBatchMessage)]
        if not staged:
            return
        query = staged[0].query
        publish_rows(
            plan,
            _write_id(query, batchId),
            [message.staged for message in staged],
            overwrite=self._overwrite,
            batch=StreamBatch(stream=query, number=batchId),
        )

    def abort(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803  # Spark's name
    ) -> None:
        """Remove what was staged for the micro-batch, unless it is published.

        Without a message nobody knows of which query it was. The rows are removed when the batch
        comes again, or as those of any job that died.
        """
        queries = {message.query for message in messages if isinstance(message, StagedBatchMessage)}
        for query in queries:
            discard_rows(self._plan, _write_id(query, batchId))


def stream_writer(
    plan: WritePlan, schema: StructType, *, overwrite: bool
) -> DataSourceStreamWriter:
    """Return what writes a streaming DataFrame of *schema*, as the installed PySpark hands it."""
    writer = StateStoreStreamWriter(plan, overwrite=overwrite)
    return writer if SINKS_TAKE_BATCHES else RowStreamWriter(writer, schema)


def _write_id(query: str, batch: int) -> str:
    """Return the name of the write that a batch is."""
    return f"{query}-{batch}"
