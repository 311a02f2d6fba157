"""What a task of a topology computes in a micro-batch: the runtime, over the stores of `stateful`.

The runtime is made anew for each micro-batch, over the stores as the one before has left them
(PRC-12), and closed when its rows are processed.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from statestores.errors import CapabilityNotSupportedError
from statestores.processing.error_policy import ErrorPolicy
from statestores.processing.record import RawRecord
from statestores.processing.record_rows import record_batch
from statestores.processing.runtime import TaskRuntime, head_times
from statestores.processing.topology import SubTopology
from statestores.semantics.expiry.wall_clock import wall_clock_ms
from statestores.serdes.typed_stores.processor_store import for_processors
from statestores.spark.stateful_functions.plan import OpenStores
from statestores.spark.topology.record_columns import for_topic, in_time_order

_OFFSET = b"offset/"
"""Before the name of a topic, the key in the task's store of the offset that its next record has:
how many records of it the task has been given."""

NO_WALL_CLOCK = (
    "a task on Spark runs only while a micro-batch has records for it, so nobody would move the "
    "wall clock of a partition that is quiet; use clock='stream' and closed() without idle_ms, or "
    "run the topology with statestores.processing.run or statestores.kafka.run"
)
"""Why timers of the wall clock are refused."""


class EmittedRecords:
    """What a task emits in a micro-batch, by topic: a `TaskLog` that takes tuples and batches."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._rows: dict[str, list[Any]] = {}
        self._batches: dict[str, list[pa.RecordBatch]] = {}
        # Of a topic, the batches come before the rows.

    def outbox(self, topic: str) -> list[Any] | None:
        """Return the list of the records of *topic*."""
        return self._rows_for(topic)

    def emit(self, topic: str, record: RawRecord, partition: int | None) -> None:
        """Keep *record*. Its key says where it goes, or it has none and goes anywhere.

        Raises:
            CapabilityNotSupportedError: A *partition* is said.
        """
        if partition is not None:
            raise CapabilityNotSupportedError(
                f"a record for {topic!r} names the partition {partition}; on Spark the key decides"
            )
        self._rows_for(topic).append(record)

    def emit_rows(self, topic: str, rows: pa.RecordBatch) -> None:
        """Keep *rows*."""
        waiting = self._rows_for(topic)
        if waiting:
            self._batches[topic].append(record_batch(waiting))
            waiting.clear()
        self._batches[topic].append(rows)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield everything, with the topics."""
        for topic, rows in self._rows.items():
            records = [*self._batches[topic], *([record_batch(rows)] if rows else [])]
            yield from for_topic(topic, records)

    def _rows_for(self, topic: str) -> list[Any]:
        if topic not in self._rows:
            self._rows[topic], self._batches[topic] = [], []
        return self._rows[topic]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartFunction:
    """One part of a topology, as a function of `stateful`. Made to be sent to tasks."""

    part: SubTopology
    """The part."""

    errors: ErrorPolicy
    """What becomes of records that fail."""

    least_column_rows: int
    """From how many records on a batch is processed as columns."""

    least_run_rows: int
    """From how many records on a smaller one is processed as a run."""

    cache_max_bytes: int
    """Memory in which updates wait for the end of the micro-batch."""

    def __call__(
        self, batches: Iterable[pa.RecordBatch], stores: OpenStores
    ) -> Iterator[pa.RecordBatch]:
        """Process the rows of one partition in the order of their times, and yield what they emit.

        Raises:
            ProcessingError: A record failed, and the policy is to fail.
            InvalidTopologyError: A processor asks for a timer of the wall clock.
        """
        rows = pa.Table.from_batches(batches)
        emitted = EmittedRecords()
        given = {
            store.name: for_processors(stores[store.name], "the driver commits, with a micro-batch")
            for store in self.part.stores
        }
        runtime = TaskRuntime(
            self.part,
            stores.partition,
            given,
            emitted,
            wall_ms=wall_clock_ms(),
            errors=self.errors,
            global_stores={name: stores[name] for name in self.part.global_stores},
            least_column_rows=self.least_column_rows,
            least_run_rows=self.least_run_rows,
            cache_max_bytes=self.cache_max_bytes,
            no_wall_clock=NO_WALL_CLOCK,
        )
        try:
            times, offsets = head_times(self.part), given[self.part.task_store.name]
            firsts = {topic: _next_offset(offsets, topic) for topic in times}
            runtime.process_block(in_time_order(rows, times, stores.partition, firsts), stops=False)
            for place, last in runtime.prepare_commit().items():
                offsets.put(_OFFSET + place.topic.encode(), (last + 1).to_bytes(8, "big"))
            stores.dropped.update(
                {f"{step} {why}": count for (step, why), count in runtime.counts.dropped.items()}
            )
        finally:
            runtime.close()
        yield from emitted.batches()


def _next_offset(offsets: Any, topic: str) -> int:
    kept = offsets.get(_OFFSET + topic.encode())
    return 0 if kept is None else int.from_bytes(kept, "big")
