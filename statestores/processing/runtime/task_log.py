"""What a runner gives a task: a place for what it emits.

The rest of a runner's atomic step is its own: it opens the stores, gives the task records, and
commits stores, output and position as one, by whatever it has for that.
"""

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from statestores.processing.record import RawRecord, RecordFields

if TYPE_CHECKING:
    import pyarrow as pa


class TaskLog(Protocol):
    """Takes what a task emits between two commits."""

    def emit(self, topic: str, record: RawRecord, partition: int | None) -> None:
        """Add *record* to the output of *topic*, not visible to others before the commit.

        *partition* is ``None`` where the topic's partitioner decides, by the bytes of the key; a
        record without key then goes wherever the runner likes.
        """


@runtime_checkable
class TakesTuples(Protocol):
    """A `TaskLog` that need not be called for each record. One that is not is given all of them."""

    def outbox(self, topic: str) -> list[RecordFields] | None:
        """Return the list behind which the fields of records for *topic* go, always the same one.

        The log empties it in `TakesRows.emit_rows` of the topic, and when it has committed.
        ``None`` where each record has to be looked at, for the partition that it goes to.
        """


@runtime_checkable
class TakesRows(Protocol):
    """A `TaskLog` that takes whole batches too. One that does not is given their records."""

    def emit_rows(self, topic: str, rows: "pa.RecordBatch") -> None:
        """Add *rows* to the output of *topic*, each to the partition that its key says.

        The columns are those of a log of records: ``key``, ``value``, ``timestamp`` and
        ``headers`` (PRC-48).
        """
