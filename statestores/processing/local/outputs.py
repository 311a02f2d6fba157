"""What a task of the local runner emits: in memory until its commit, and part of that (PRC-49)."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from statestores.changelog.encoded_rows import EncodedRows, encoded_rows
from statestores.changelog.file_log import wall_clock_ms
from statestores.changelog.rows import RECORDS
from statestores.changelog.segments.memory_segment import (
    DEFAULT_COMPRESSION,
    FrameContent,
    MemorySegment,
    segment_in_memory,
)
from statestores.changelog.segments.segment_directory import segment_name
from statestores.errors import OffsetOutOfRangeError, StoreCorruptedError
from statestores.failpoints import reach
from statestores.processing.local.topics import AnyTopic
from statestores.processing.record import RawRecord
from statestores.processing.record_rows import record_batch
from statestores.spi import Position, TopicPartition
from statestores.tasks.commits.task_outputs import OutputFiles

_LOG = segment_name(0)


class _Recorded(NamedTuple):
    """What the record of the commit under way holds, before it was written."""

    files: OutputFiles
    """The files that were given for the record."""

    number: int
    """The number of the commit."""

    rows: Sequence[tuple[TopicPartition, EncodedRows]]
    """What goes to each partition."""


class TopicOutputs:
    """The outputs of one task: both its `TaskLog`, and its `TaskOutputs`.

    A record has one log with a frame for each partition that is written to; the frame's position
    names the partition, with the number of the commit as offset.
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
        self._rows: dict[TopicPartition, list[Any]] = {}
        self._batches: dict[TopicPartition, list[pa.RecordBatch]] = {}
        # Of a partition, the batches come before the rows.
        self._recorded: _Recorded | None = None
        self._reached: dict[str, int] = {}

    def outbox(self, topic: str) -> list[Any] | None:
        """Return the list of the records of *topic*, if it has one partition."""
        target = self._topics[topic]
        return self._rows_for(TopicPartition(topic, 0)) if target.partitions == 1 else None

    def emit_rows(self, topic: str, rows: pa.RecordBatch) -> None:
        """Keep *rows* for the commit, each for the partition that its key says."""
        target = self._topics[topic]
        if target.partitions == 1:
            self._keep(TopicPartition(topic, 0), rows)
            return
        keys = rows.column(0)
        chosen = pc.if_else(
            keys.is_valid(),
            target.partitions_of(pc.fill_null(keys, b"")),
            self._task_partition % target.partitions,
        )
        for partition in pc.unique(chosen).to_pylist():
            kept = rows.filter(pc.equal(chosen, partition))
            self._keep(TopicPartition(topic, partition), kept)

    def emit(self, topic: str, record: RawRecord, partition: int | None) -> None:
        """Keep *record* for the commit."""
        target = self._topics[topic]
        chosen = target.partition_of(record[0]) if partition is None else partition
        if chosen is None:
            chosen = self._task_partition % target.partitions
        self._rows_for(TopicPartition(topic, chosen)).append(record)

    def _rows_for(self, place: TopicPartition) -> list[Any]:
        rows = self._rows.get(place)
        if rows is None:
            rows = self._rows[place] = []
            self._batches[place] = []
        return rows

    def _keep(self, place: TopicPartition, batch: pa.RecordBatch) -> None:
        """Keep *batch* behind the rows of *place*."""
        rows = self._rows_for(place)
        if rows:
            self._batches[place].append(record_batch(rows))
            rows.clear()
        self._batches[place].append(batch)

    def begin_after(self, number: int) -> None:
        """Number the next commit higher than *number*, that of the last one the stores have.

        Raises:
            StoreCorruptedError: A topic has a later one: the stores are gone, or an older copy.
        """
        for name, topic in self._topics.items():
            for partition, log in enumerate(topic.logs):
                seen = log.marked(self.mark)
                if seen > number:
                    raise StoreCorruptedError(
                        f"the partition {partition} of the topic {name!r} has what the commit "
                        f"{seen} of the task {self._task} has emitted, and {number} is the last "
                        "one that the task's stores have: an older copy of them has been put back, "
                        "or they are gone; put back the newest copy, or reset the state with its "
                        "outputs"
                    )
        self.number = number

    @property
    def reached(self) -> Mapping[str, int]:
        """The last commit that has emitted to each partition, since the opening."""
        return self._reached

    def check(self, reached: Mapping[str, int]) -> None:
        """Accept topics that have what earlier commits have emitted.

        Raises:
            OffsetOutOfRangeError: One has lost it.
        """
        for place, number in reached.items():
            name, _, partition = place.rpartition("/")
            topic = self._topics.get(name)
            if topic is None:
                continue  # the topology has it no more
            found = topic.logs[int(partition)].marked(self.mark)
            if found < number:
                has = "nothing" if found < 0 else f"no more than the commit {found}"
                raise OffsetOutOfRangeError(
                    f"the partition {partition} of the topic {name!r} has {has} of the task "
                    f"{self._task}, which has emitted to it with its commit {number}: it is an "
                    "older copy, or another topic than before; put back the newest copy, or reset "
                    "the state with its outputs"
                )

    @property
    def _task(self) -> str:
        """The name of the task, for messages."""
        return f"{self.mark.topic.rpartition('/')[2]}_{self.mark.partition}"

    @property
    def has_pending(self) -> bool:
        """Whether something was emitted since the last commit."""
        return any(self._rows.values()) or any(self._batches.values())

    def record(self) -> OutputFiles:
        """Return a log with a frame of what is pending for each partition."""
        pending = [place for place, rows in self._rows.items() if rows or self._batches[place]]
        several = [
            (place, encoded_rows(RECORDS, self._as_batch(place), DEFAULT_COMPRESSION))
            for place in pending
        ]
        contents = (FrameContent(rows, Position({place: self.number})) for place, rows in several)
        files = {_LOG: segment_in_memory(RECORDS, 0, contents, wall_clock_ms())}
        self._recorded = _Recorded(files, self.number, several)
        return files

    def publish(self, files: OutputFiles) -> None:
        """Append what `record` gave to the topics that have not got it."""
        recorded = self._recorded
        if recorded is not None and recorded.files is files:
            for place, rows in recorded.rows:
                self._append(place, rows, recorded.number)
            return
        for name in sorted(files):  # a record of an earlier release may have several
            for frame in MemorySegment.of(name, files[name]).frames():
                ((place, number),) = frame.position.items()
                rows = encoded_rows(RECORDS, frame.batch, DEFAULT_COMPRESSION)
                self._append(place, rows, number)

    def _append(self, place: TopicPartition, rows: EncodedRows, number: int) -> None:
        """Append what the commit *number* emits to *place*, unless it is there."""
        partition = self._topics[place.topic].logs[place.partition]
        partition.append_marked(rows, self.mark, number)
        self._reached[f"{place.topic}/{place.partition}"] = number
        reach("task.output-appended")

    def forget(self) -> None:
        """Have nothing pending."""
        self._recorded = None
        for rows in (*self._rows.values(), *self._batches.values()):
            rows.clear()

    def _as_batch(self, place: TopicPartition) -> pa.RecordBatch:
        """Return what is pending for *place* as one batch, in its order."""
        rows, batches = self._rows[place], self._batches[place]
        if not batches:
            return record_batch(rows)
        several = [*batches, record_batch(rows)] if rows else batches
        return several[0] if len(several) == 1 else pa.concat_batches(several)
