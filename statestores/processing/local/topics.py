"""Durable topics in a directory: what the local runner reads and writes, and any program too.

The files::

    TOPICS/<topic>/topic.json                            how many partitions, and the partitioner
    TOPICS/<topic>/<partition>/00000000000000000000.log  the records, in the form of a changelog

Files are written by one process at a time, and read by any.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any, Generic, NamedTuple, TypeVar

import pyarrow as pa

from statestores.errors import InvalidArgumentError, InvalidTypeError, TopologyMismatchError
from statestores.files.durable_json import check_format, read_fields, write_json
from statestores.files.failures import reporting
from statestores.files.local_path import local_path
from statestores.partitioning import partitioner_by_name
from statestores.processing.local.partition_log import PartitionLog
from statestores.processing.local.sharing.patience import Patience
from statestores.processing.record import RawRecord, Record
from statestores.processing.record_rows import record_batch
from statestores.processing.serdes import decoded, encoded
from statestores.processing.topic import Topic
from statestores.root_document import MAX_PARTITIONS
from statestores.spi import Durability, TopicPartition
from statestores.spi.closing import Closing

K = TypeVar("K")
V = TypeVar("V")

TOPIC_FILE = "topic.json"
"""What says how many partitions a topic has."""

_FORMAT = 1
_APPEND_ROWS = 10_000


class StoredRecord(NamedTuple, Generic[K, V]):
    """A record of a topic, and where it is."""

    partition: int
    """The partition."""

    offset: int
    """The offset in it."""

    record: Record[K, V]
    """The record."""


class LocalTopic(Generic[K, V]):
    """One topic. Made by `LocalTopics.topic`."""

    def __init__(self, topic: Topic[K, V], logs: tuple[PartitionLog, ...]) -> None:
        """Use *logs*, one for each partition."""
        self.topic = topic
        self.logs = logs
        self._partitioner = partitioner_by_name(topic.partitioner)
        self._unkeyed = 0

    @property
    def partitions(self) -> int:
        """How many partitions the topic has."""
        return len(self.logs)

    def append(
        self,
        records: Iterable[Record[K, V] | Record[None, V]],
        *,
        partition: int | None = None,
    ) -> int:
        """Append *records*, any iterable of them; return how many there were.

        They go where the topic's partitioner says, records without key from partition to
        partition in turn, or all into *partition*. Each 10,000 are one append to each partition.

        Raises:
            InvalidArgumentError: There is no such partition, or a record cannot be one.
            SerializationError: A key or value is not what the topic's serdes write.
            StoreLockedError: Another process writes the topic.
            StorageError: The disk is full or failed.
        """
        key, value = self.topic.key, self.topic.value
        return self.append_bytes(
            (
                Record(encoded(key, each.key), encoded(value, each.value), *each[2:])
                for each in map(_checked, records)
            ),
            partition=partition,
        )

    def append_bytes(self, records: Iterable[RawRecord], *, partition: int | None = None) -> int:
        """Append records as they lie in the topic: also what its serdes cannot read.

        Raises:
            InvalidArgumentError, StoreLockedError, StorageError: See `append`.
        """
        if partition is not None:
            self._log(partition)
        total = 0
        waiting: dict[int, list[RawRecord]] = {}
        for total, record in enumerate(records, 1):
            chosen = self.partition_of(record.key) if partition is None else partition
            if chosen is None:
                chosen, self._unkeyed = self._unkeyed % self.partitions, self._unkeyed + 1
            waiting.setdefault(chosen, []).append(record)
            if total % _APPEND_ROWS == 0:
                self._append(waiting)
                waiting = {}
        self._append(waiting)
        return total

    def read(
        self, partition: int | None = None, from_offset: int | None = None
    ) -> Iterator[StoredRecord[K, V]]:
        """Iterate over what is there now, partition by partition, or that of one *partition*.

        Without *from_offset*, from the first record of each that has not been removed.

        Raises:
            InvalidArgumentError: There is no such partition.
            OffsetOutOfRangeError: There is no such offset.
            SerializationError: A record is not what the topic's serdes read.
        """
        for number in range(self.partitions) if partition is None else (partition,):
            log = self._log(number)
            for offset, raw in log.read(log.first_offset if from_offset is None else from_offset):
                record: Record[K, V] = Record(
                    decoded(self.topic.key, raw.key), decoded(self.topic.value, raw.value), *raw[2:]
                )
                yield StoredRecord(number, offset, record)

    def end_offset(self, partition: int = 0) -> int:
        """Return the offset that the next record of *partition* will have."""
        return self._log(partition).end_offset

    def partition_of(self, key: bytes | None) -> int | None:
        """Return where a record with *key* goes; ``None``: wherever one likes."""
        if self.partitions == 1:
            return 0
        return None if key is None else self._partitioner.partition(key, self.partitions)

    def partitions_of(self, keys: pa.Array) -> pa.Array:
        """Return where records with *keys* go, none of which is null."""
        return self._partitioner.partition_array(keys, self.partitions)

    def _append(self, waiting: Mapping[int, list[RawRecord]]) -> None:
        for partition, records in waiting.items():
            self.logs[partition].append(record_batch(records))

    def _log(self, partition: int) -> PartitionLog:
        if type(partition) is not int or not 0 <= partition < self.partitions:
            raise InvalidArgumentError(
                f"the topic {self.topic.name!r} has the partitions 0 to {self.partitions - 1}, "
                f"got {partition!r}"
            )
        return self.logs[partition]


def _checked(record: Record[Any, V]) -> Record[Any, V]:
    if not isinstance(record, Record):
        raise InvalidTypeError(
            f"a topic takes an iterable of Records, such as [Record('key', 'value', 0)], got "
            f"{record!r} in it"
        )
    return record


class LocalTopics(Closing):
    """The topics in a directory; close it, or use it in ``with``.

    From its first append to a partition until it is closed, it alone appends to that partition;
    anybody reads. Several threads may use it.
    """

    def __init__(
        self,
        directory: str | PathLike[str],
        *,
        durability: Durability = Durability.POWER_LOSS,
        homes: Mapping[str, Path] | None = None,
        patience: Patience | None = None,
    ) -> None:
        """Use *directory*, which need not be there yet.

        The topics that *homes* names lie in those directories instead. With *patience*, which a
        runner has, others that have it too may append to the same partitions.
        """
        self._directory = local_path(directory, "topics")
        self._homes = dict(homes or {})
        self._durability = durability
        self._patience = patience
        self._logs: dict[str, tuple[PartitionLog, ...]] = {}
        self._lock = Lock()
        self._appends = 0

    @property
    def appends(self) -> int:
        """How often something was appended here; it changes after each append."""
        return self._appends

    def topic(self, topic: Topic[K, V], *, partitions: int | None = None) -> LocalTopic[K, V]:
        """Return *topic*, making it when it is not there.

        It then has *partitions* or, without, as many as *topic* says, or one.

        Raises:
            TopologyMismatchError: It is there with other partitions, or another partitioner.
            StorageError: The directory cannot be read or written.
        """
        if not isinstance(topic, Topic):
            raise InvalidTypeError(f"expected a Topic, such as Topic('lines'), got {topic!r}")
        wanted = topic.partitions if partitions is None else partitions
        if wanted is not None and not (type(wanted) is int and 1 <= wanted <= MAX_PARTITIONS):
            raise InvalidArgumentError(
                f"partitions must be an int from 1 to {MAX_PARTITIONS}, got {wanted!r}"
            )
        with self._lock:
            there = self.partitions(topic.name)
            if there is None:
                there = (wanted or 1, topic.partitioner)
                file = self._home(topic.name) / TOPIC_FILE
                with reporting("write", file):
                    file.parent.mkdir(parents=True, exist_ok=True)
                write_json(
                    file, {"format": _FORMAT, "partitions": there[0], "partitioner": there[1]}
                )
            count, partitioner = there
            asked = [each for each in (partitions, topic.partitions) if each not in (None, count)]
            if asked or partitioner != topic.partitioner:
                raise TopologyMismatchError(
                    f"the topic {topic.name!r} in {str(self._directory)!r} has {count} partitions "
                    f"by {partitioner!r}, and is used with {[*asked, count][0]} by "
                    f"{topic.partitioner!r}; partitions are not changed once they are there"
                )
            if topic.name not in self._logs:
                self._logs[topic.name] = tuple(
                    PartitionLog(
                        self._home(topic.name) / str(number),
                        self._durability,
                        self._count,
                        self._patience,
                        TopicPartition(topic.name, number),
                    )
                    for number in range(count)
                )
            return LocalTopic(topic, self._logs[topic.name])

    def partitions(self, name: str) -> tuple[int, str] | None:
        """Return how many partitions the topic *name* has, and its partitioner, if it is there."""
        file = self._home(name) / TOPIC_FILE
        fields = read_fields(file)
        if fields is None:
            return None
        check_format(fields, file, _FORMAT)
        return fields.integer("partitions"), fields.text("partitioner")

    def close(self) -> None:
        """Let others append. Idempotent."""
        with ExitStack() as stack:
            for logs in self._logs.values():
                for log in logs:
                    stack.callback(log.close)

    def _home(self, name: str) -> Path:
        """Return where the topic *name* lies."""
        return self._homes.get(name, self._directory / name)

    def _count(self) -> None:
        with self._lock:
            self._appends += 1


AnyTopic = LocalTopic[Any, Any]
"""A topic, whatever it holds."""
