"""What one task writes: its outputs, each to its partition, and the changes of its stores."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError, Message

from statestores.errors import InvalidTimeError
from statestores.kafka.changelog_rows import ChangelogRow
from statestores.kafka.client_settings import CLIENT_LOGGER
from statestores.kafka.messages import offset_of
from statestores.kafka.tasks.changelog_frames import FrameFormat
from statestores.kafka.tasks.task_stores import LoggedStore
from statestores.kafka.tasks.topic_limits import TopicLimits
from statestores.kafka.writer import Writer
from statestores.partitioning import Partitioner
from statestores.processing.columns.column import NotOnColumnsError
from statestores.processing.record import RawRecord
from statestores.processing.record_rows import fields_of
from statestores.spi import TopicPartition

_WHOLE_SECONDS = 3.0
"""How long the writing of a whole may take: less than a third of a transaction's time."""
_MOST_KNOWN_KEYS = 20_000
"""Of how many keys of a topic the partition is remembered: some two megabytes."""


class _Output:
    """A topic that the task writes."""

    def __init__(
        self, partitioner: Partitioner, places: Sequence[TopicPartition], limits: TopicLimits
    ) -> None:
        self.partitioner = partitioner
        self.places = places
        self.limits = limits
        self._easy_bytes = limits.easy_bytes
        self._easy_ms = range(0)
        self.known: dict[bytes, TopicPartition] = {}

    def check(self, topic: str, record: RawRecord) -> None:
        """Accept *record*, unless the *topic* does not take it (KFK-35).

        Raises:
            BrokerError, InvalidTimeError: It is too large, or too far from now.
        """
        key, value, time_ms, headers = record
        easy = self._easy_bytes
        if easy is not None and (headers or len(key or b"") + len(value or b"") > easy):
            self.limits.check_size(topic, key, value, headers)
        if time_ms not in self._easy_ms:
            self.check_times(topic, time_ms, time_ms)

    def check_times(self, topic: str, first_ms: int, last_ms: int) -> None:
        """Accept records whose times are from *first_ms* to *last_ms*.

        Raises:
            InvalidTimeError: As `check`.
        """
        if first_ms in self._easy_ms and last_ms in self._easy_ms:
            return
        for time_ms in (first_ms, last_ms):
            self.limits.check_time(topic, time_ms)
        if self.limits.earliest_ms == 0:  # else what is late enough now may be too early soon
            self._easy_ms = range(self.limits.latest_ms + 1)

    def easy_bytes(self, largest_bytes: int) -> int:
        """Return how many bytes a record may have that neither the client nor the topic refuses."""
        easy = self._easy_bytes
        return largest_bytes if easy is None else min(largest_bytes, easy)

    def place(self, key: bytes) -> TopicPartition:
        """Return where a record with *key* goes."""
        found = self.known.get(key)
        if found is None:
            if len(self.known) >= _MOST_KNOWN_KEYS:
                self.known.clear()
            found = self.places[self.partitioner.partition(key, len(self.places))]
            self.known[key] = found
        return found


class TaskWriter:
    """The `TaskLog` of one task, of records and of columns, and the writer of its changes."""

    def __init__(
        self,
        writer: Writer,
        topics: Mapping[str, tuple[Partitioner, Sequence[TopicPartition], TopicLimits]],
        task_partition: int,
    ) -> None:
        """Emit to *topics* by *writer*; records without key go by the *task_partition*."""
        self._write = writer.write
        self._largest_bytes = writer.largest_bytes
        self.markers = writer.markers
        """See `Writer`."""
        self._is_atomic = writer.is_atomic
        self._outputs = {name: _Output(*each) for name, each in topics.items()}
        self._task_partition = task_partition
        self.has_emitted = False
        """Whether something was emitted since this was last reset."""

    def emit(self, topic: str, record: RawRecord, partition: int | None) -> None:
        """Write *record*.

        Raises:
            BrokerError, InvalidTimeError: The topic does not take it.
        """
        output = self._outputs[topic]
        output.check(topic, record)
        self.has_emitted = True
        key, value, time_ms, headers = record
        if partition is not None:
            place = output.places[partition]
        elif key is None:
            place = output.places[self._task_partition % len(output.places)]
        else:
            place = output.place(key)
        self._write(place, key, value, time_ms, headers)

    def emit_rows(self, topic: str, rows: pa.RecordBatch) -> None:
        """Write *rows*, each to the partition that its key says.

        Raises:
            NotOnColumnsError: One may be too large, or too far from now. Nothing is written; it is
                for the records to say which.
        """
        output = self._outputs[topic]
        if _most_bytes(rows) > output.easy_bytes(self._largest_bytes):
            raise NotOnColumnsError(f"a record for {topic!r} may be too large")
        times = pc.min_max(rows.column(2)).as_py()
        try:
            output.check_times(topic, times["min"] or 0, times["max"] or 0)
        except InvalidTimeError as error:
            raise NotOnColumnsError(f"a record for {topic!r} is too far from now") from error
        places, write = output.places, self._write
        keys = rows.column(0)
        chosen = pc.if_else(
            keys.is_valid(),
            output.partitioner.partition_array(pc.fill_null(keys, b""), len(places)),
            self._task_partition % len(places),
        ).to_pylist()
        self.has_emitted = True
        for number, (key, value, time_ms, headers) in zip(chosen, fields_of(rows), strict=True):
            write(places[number], key, value, time_ms, headers)

    def append(self, logged: LoggedStore, rows: Sequence[ChangelogRow]) -> None:
        """Write *rows*, of which there is at least one, into the changelog of a store.

        When they are delivered, the store is told the offset of the last one. Where a crash may
        leave the first of them, deletions come last: what a session has become is there before what
        it was goes (KFK-43). Versions keep their order.
        """
        if not self._is_atomic and logged.store.specification.kind != "versioned":
            rows = sorted(rows, key=_deletes)
        write, place = self._write, logged.changelog
        logged.written += len(rows)
        for key, value, time_ms in rows[:-1]:
            write(place, key, value, time_ms)
        if logged.frames is not None:
            logged.wholes.changed(sum(len(row.value or b"") for row in rows))

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                logged.appended = message.offset()

        key, value, time_ms = rows[-1]
        write(place, key, value, time_ms, (), delivered)

    def append_whole(self, logged: LoggedStore, frames: FrameFormat) -> None:
        """Write all that the last commit has left in a store, before the changes of this one.

        It is part of the transaction, which may not take long: what is not written in time is left,
        and nobody reads it.
        """

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                logged.wholes.begins_at(offset_of(message))

        size, deadline = 0, time.monotonic() + _WHOLE_SECONDS
        tell: Callable[[KafkaError | None, Message], None] | None = delivered
        content = logged.store.committed_content()
        with closing(content.changes):
            for key, value, time_ms in frames.whole(content):
                if time.monotonic() > deadline:
                    CLIENT_LOGGER.warning(
                        "the store %r takes more than %.0f s to be written into %r; its changelog "
                        "keeps growing until it can be",
                        logged.store.name,
                        _WHOLE_SECONDS,
                        logged.changelog.topic,
                    )
                    logged.wholes.given_up(size, logged.reflected)
                    return
                self._write(logged.changelog, key, value, time_ms, (), tell)
                logged.written += 1
                size, tell = size + len(value or b""), None
        logged.wholes.written(size)


def _deletes(row: ChangelogRow) -> bool:
    return row.value is None


def _most_bytes(rows: pa.RecordBatch) -> int:
    """Return no less than the largest row has in its key, value and headers."""
    lengths = (pc.max(pc.binary_length(column)).as_py() for column in (*rows.columns[:2], rows[3]))
    return sum(each or 0 for each in lengths)
