"""The changes of stores, read from their changelog topics by whoever follows them (SRV-25).

What is read is what was committed: an open transaction ends the feed, an aborted one is not in it.
Offsets are those of the topic, so some are missing, where transactions end and what was compacted.
"""

import time
from collections.abc import Iterator
from threading import BoundedSemaphore, Lock
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from statestores.changelog import change_schema
from statestores.changelog.rows import batch_from_changes
from statestores.errors import (
    CapabilityNotSupportedError,
    ChangelogCorruptedError,
    InvalidArgumentError,
    InvalidStateStoreError,
    OffsetOutOfRangeError,
)
from statestores.kafka.broker_errors import broker_error, error_of
from statestores.kafka.changelog_rows import ChangelogRow, RowFormat
from statestores.kafka.client_settings import ClientSettings
from statestores.kafka.cluster import Cluster, may_pass
from statestores.kafka.internal_topics import changelog_name
from statestores.kafka.messages import offset_of, place_of, time_of
from statestores.kafka.readers import consumed, open_reader
from statestores.kafka.tasks.changelog_frames import is_frame
from statestores.processing.topology import Graph
from statestores.reading.change_feed import placed_changes
from statestores.spi import StoreSpecification, TopicPartition
from statestores.spi.closing import Closing

_READERS = 8
"""How many changelogs are read at the same time: each reader has connections of its own."""

_BATCH_RECORDS = 1_000
_WAIT_SECONDS = 0.02
_PATIENCE_SECONDS = 10.0
_READER_SETTINGS = {"fetch.wait.max.ms": 50, "queued.max.messages.kbytes": 4096}


class ChangelogFeed(Closing):
    """A `statestores.serving` source of changes. Any thread may use it."""

    def __init__(self, settings: ClientSettings, graph: Graph) -> None:
        """Read the changelogs of *graph*; nothing is connected before somebody asks."""
        self._settings = settings
        self._application = graph.name
        self._tables = {
            store.name for part in graph.sub_topologies if part.is_global for store in part.stores
        }
        self._lock = Lock()
        self._places = BoundedSemaphore(_READERS)
        self._idle: list[Consumer] = []
        self._cluster: Cluster | None = None
        self._is_closed = False

    def changes(
        self, specification: StoreSpecification[Any, Any], partition: int, from_offset: int | None
    ) -> tuple[int, Iterator[pa.RecordBatch]]:
        """Return where the decided changes end, and those from *from_offset* up to there.

        Raises:
            CapabilityNotSupportedError: It is a global table, which has no changelog of its own.
            InvalidArgumentError: There is no such partition.
            OffsetOutOfRangeError: The changelog does not have that offset.
            InvalidStateStoreError: The broker does not answer, or too many read; also later.
        """
        name = specification.name
        if name in self._tables:
            raise CapabilityNotSupportedError(
                f"{name!r} is a global table: its changes are the records of its topic"
            )
        place = TopicPartition(changelog_name(self._application, name), partition)
        try:
            first, end = self._asked().decided_now(place)
        except KafkaException as error:
            if error_of(error).code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise InvalidArgumentError(f"{name!r} has no partition {partition}") from error
            raise _unanswered(place, error) from error
        start = first if from_offset is None else from_offset
        if not first <= start <= end:
            raise OffsetOutOfRangeError(
                f"partition {partition} of {name!r} has the changes from offset {first} up to, and "
                f"without, {end}; asked for {start}"
            )
        return end, self._read(specification, place, start, end) if start < end else iter(())

    def _asked(self) -> Cluster:
        with self._lock:
            if self._cluster is None:
                self._cluster = Cluster(self._settings)
            return self._cluster

    def _read(
        self,
        specification: StoreSpecification[Any, Any],
        place: TopicPartition,
        start: int,
        end: int,
    ) -> Iterator[pa.RecordBatch]:
        rows, schema = RowFormat(specification), change_schema(specification.kind)
        reader = self._taken()
        try:
            for messages in _messages(reader, place, start, end):
                found = [_row(message) for message in messages]
                if any(map(is_frame, found)):
                    raise CapabilityNotSupportedError(
                        f"the changelog {place.topic!r} has frames, of which no changes are fed; "
                        "run with changelog_format='rows'"
                    )
                changes = rows.changes(found)
                offsets = pa.array([offset_of(message) for message in messages], pa.int64())
                yield placed_changes(batch_from_changes(schema, changes), offsets, place.partition)
        finally:
            self._given_back(reader)

    def _taken(self) -> Consumer:
        if not self._places.acquire(blocking=False):
            raise InvalidStateStoreError(
                f"{_READERS} changelogs are being read here, which is as many as at once; try again"
            )
        try:
            with self._lock:
                if self._idle:
                    return self._idle.pop()
            return open_reader(self._settings, self._application, _READER_SETTINGS)
        except BaseException:
            self._places.release()
            raise

    def _given_back(self, reader: Consumer) -> None:
        try:
            reader.unassign()
            with self._lock:
                if not self._is_closed:
                    self._idle.append(reader)
                    return
            reader.close()
        finally:
            self._places.release()

    def close(self) -> None:
        """Close the readers; one that is in use, when that is over. Idempotent."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for reader in idle:
            reader.close()


def _messages(
    reader: Consumer, place: TopicPartition, start: int, end: int
) -> Iterator[list[Message]]:
    """Yield the records of *place* from *start* up to *end*, without it."""
    reader.assign([KafkaPartition(*place, start)])
    following, heard = start, time.monotonic()
    while following < end:
        found: list[Message] = []
        for message in consumed(reader, _BATCH_RECORDS, _WAIT_SECONDS):
            error = message.error()
            if place_of(message) != place:
                continue  # of what was read before
            if error is None:
                following = offset_of(message) + 1
                if following <= end:
                    found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # its name
                following = max(following, offset_of(message))
            else:
                _refuse_unless_passing(place, error, following)
            heard = time.monotonic()
        if found:
            yield found
            heard = time.monotonic()  # whoever reads may have taken long
        elif time.monotonic() - heard > _PATIENCE_SECONDS:
            raise InvalidStateStoreError(
                f"the broker has given nothing of {place.topic!r} for {_PATIENCE_SECONDS:.0f} s; "
                "try again"
            )


def _refuse_unless_passing(place: TopicPartition, error: KafkaError, following: int) -> None:
    if error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001  # its name
        raise OffsetOutOfRangeError(
            f"the changelog topic {place.topic!r} has lost offset {following} just now"
        )
    if not may_pass(error):
        raise broker_error(f"read {place.topic!r}", KafkaException(error))


def _row(message: Message) -> ChangelogRow:
    key = message.key()
    if key is None:
        raise ChangelogCorruptedError(
            f"the record at offset {message.offset()} of {message.topic()!r} has no key: something "
            "else writes to this changelog"
        )
    return ChangelogRow(key, message.value(), time_of(message))


def _unanswered(place: TopicPartition, error: KafkaException) -> InvalidStateStoreError:
    return InvalidStateStoreError(
        f"the broker does not say what {place.topic!r} has ({error_of(error).name()}); try again"
    )
