"""What a task of the local runner emits: in memory until its commit, and part of that (PRC-49)."""

from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from statestores.changelog import ChangelogReader, FileChangelog
from statestores.changelog.rows import RECORDS
from statestores.failpoints import reach
from statestores.processing.local.topics import AnyTopic
from statestores.processing.record import RawRecord
from statestores.processing.record_rows import record_batch
from statestores.spi import Durability, Position, TopicPartition


class TopicOutputs:
    """The outputs of one task: both its `TaskLog`, and its `TaskOutputs`.

    In a record lies one log with a frame for each partition that is written to; the frame's
    position names the partition, with the number of the commit as offset.
    """

    def __init__(
        self, topics: Mapping[str, AnyTopic], mark: TopicPartition, task_partition: int
    ) -> None:
        """Emit to *topics* under *mark*; records without key go by the *task_partition*."""
        self.mark = mark
        """What tells the frames of this task from others."""
        self.number = 0
        """The number of the commit under way; see `begin_after`."""
        self._topics = topics
        self._task_partition = task_partition
        self._pending: dict[TopicPartition, list[RawRecord | pa.RecordBatch]] = {}

    def emit_rows(self, topic: str, rows: pa.RecordBatch) -> None:
        """Keep *rows* for the commit, each for the partition that its key says."""
        target = self._topics[topic]
        if target.partitions == 1:
            self._pending.setdefault(TopicPartition(topic, 0), []).append(rows)
            return
        keys = rows.column(0)
        chosen = pc.if_else(
            keys.is_valid(),
            target.partitions_of(pc.fill_null(keys, b"")),
            self._task_partition % target.partitions,
        )
        for partition in pc.unique(chosen).to_pylist():
            kept = rows.filter(pc.equal(chosen, partition))
            self._pending.setdefault(TopicPartition(topic, partition), []).append(kept)

    def emit(self, topic: str, record: RawRecord, partition: int | None) -> None:
        """Keep *record* for the commit."""
        target = self._topics[topic]
        chosen = target.partition_of(record.key) if partition is None else partition
        if chosen is None:
            chosen = self._task_partition % target.partitions
        self._pending.setdefault(TopicPartition(topic, chosen), []).append(record)

    def begin_after(self, number: int) -> None:
        """Number the next commit higher than *number*, and than what any topic has seen."""
        seen = [log.marked(self.mark) for topic in self._topics.values() for log in topic.logs]
        self.number = max(number, *seen, 0)

    @property
    def has_pending(self) -> bool:
        """Whether something was emitted since the last commit."""
        return bool(self._pending)

    def record(self, directory: Path) -> None:
        """Write what is pending into *directory*."""
        last = len(self._pending) - 1
        with FileChangelog.create(directory, RECORDS) as log:
            for place, (target, records) in enumerate(self._pending.items()):
                log.append_batch(
                    _as_rows(records),
                    position=Position({target: self.number}),
                    durability=Durability.POWER_LOSS if place == last else Durability.PROCESS_CRASH,
                )

    def publish(self, directory: Path) -> None:
        """Append what lies in *directory* to the topics that have not got it."""
        with ChangelogReader.open(directory, RECORDS) as log:
            for frame in log.read():
                ((target, number),) = frame.position.items()
                partition = self._topics[target.topic].logs[target.partition]
                partition.append_marked(frame.batch, self.mark, number)
                reach("task.output-appended")

    def forget(self) -> None:
        """Have nothing pending."""
        self._pending = {}


def _as_rows(pending: list[RawRecord | pa.RecordBatch]) -> pa.RecordBatch:
    """Return records and batches of them as one batch, in their order."""
    batches: list[pa.RecordBatch] = []
    for is_rows, group in groupby(pending, lambda each: isinstance(each, pa.RecordBatch)):
        several: list[Any] = list(group)
        batches += several if is_rows else [record_batch(several)]
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
