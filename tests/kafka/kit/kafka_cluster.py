"""What tests do with a cluster beside the runner: topics, records in, records out."""

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, TypeVar
from uuid import uuid4

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
)
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from statestores.kafka.messages import record_of, timestamp_and_headers
from statestores.kafka.readers import consumed
from statestores.partitioning import partitioner_by_name
from statestores.processing import Record, Topic
from statestores.processing.serdes import decoded, encoded

T = TypeVar("T")

_PATIENCE_SECONDS = 900.0 if os.environ.get("STATESTORES_SOAK") == "1" else 120.0
"""After how long a test gives up that waits for a state; several soaks may share a machine."""
_LOOK_SECONDS = 0.05
_OF_A_TEST = {"log_level": 0}
"""What is not said by an exception is not said: brokers are killed on purpose."""


class TestCluster:
    """A cluster at an address."""

    __test__ = False

    def __init__(self, address: str) -> None:
        """Connect."""
        self.address = address
        self.admin = AdminClient({"bootstrap.servers": address, **_OF_A_TEST})
        self._readers: defaultdict[str, list[Consumer]] = defaultdict(list)

    def name(self, what: str) -> str:
        """Return a name that nothing in the cluster has."""
        return f"{what}-{uuid4().hex[:8]}"

    def create(self, *topics: Topic[Any, Any], **settings: str) -> None:
        """Create *topics*, of as many partitions as they say, and wait until they are listed.

        The controller has them a moment before the broker tells of them. An instance that started
        in between found none, and failed by that, once.
        """
        wanted = [
            NewTopic(
                topic.name,
                num_partitions=topic.partitions or 1,
                replication_factor=1,
                config=settings,
            )
            for topic in topics
        ]
        for future in self.admin.create_topics(wanted).values():
            future.result(_PATIENCE_SECONDS)
        names = {topic.name for topic in topics}
        wait_for(
            lambda: names <= self.admin.list_topics(timeout=_PATIENCE_SECONDS).topics.keys(),
            f"the topics {', '.join(sorted(names))}",
        )

    def producer(self, **settings: Any) -> Producer:
        """Return a producer that keeps the order of its records, also where one is sent again."""
        common = {
            "bootstrap.servers": self.address,
            "enable.idempotence": True,
            "max.in.flight.requests.per.connection": 1,  # of more, the first may be lost (KFK-38)
            "linger.ms": 1,
        }
        return Producer({**common, **_OF_A_TEST, **settings})

    @cached_property
    def _appending(self) -> Producer:
        """One for all records: a client for each lot would be thousands in a soak."""
        return self.producer(**{"reconnect.backoff.max.ms": 200})

    def append(
        self,
        topic: Topic[Any, Any],
        records: Iterable[Record[Any, Any]],
        *,
        partition: int | None = None,
    ) -> None:
        """Append *records*, each to the partition of its key, or to *partition*.

        They are there when it returns.
        """
        producer = self._appending
        count = topic.partitions or 1
        lost: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                lost.append(error)

        for record in records:
            key = encoded(topic.key, record.key)
            place = partition
            if place is None:
                partitioner = partitioner_by_name(topic.partitioner)
                place = 0 if key is None else partitioner.partition(key, count)
            stamp, headers = timestamp_and_headers(record.time_ms, record.headers)
            producer.produce(
                topic.name,
                encoded(topic.value, record.value),
                key,
                place,
                timestamp=stamp,
                headers=headers or [],
                on_delivery=delivered,
            )
        producer.flush()

        assert lost == []

    def read(
        self, topic: Topic[Any, Any], partition: int | None = None, *, committed: bool = True
    ) -> list[Record[Any, Any]]:
        """Return what is there now, partition by partition."""
        numbers = range(topic.partitions or 1) if partition is None else [partition]
        return [
            Record(decoded(topic.key, raw.key), decoded(topic.value, raw.value), *raw[2:])
            for message in self.messages(topic.name, numbers, committed=committed)
            for raw in [record_of(message)]
        ]

    def messages(
        self, topic: str, partitions: Iterable[int], *, committed: bool = True
    ) -> list[Message]:
        """Return the messages of *partitions* that are there now, partition by partition.

        Those of transactions that are open now are waited for, until they are committed or not.
        """
        level = "read_committed" if committed else "read_uncommitted"
        left = set(partitions)
        found: dict[int, list[Message]] = {each: [] for each in left}
        with self._reader(level) as consumer:
            consumer.assign([KafkaPartition(topic, each, OFFSET_BEGINNING) for each in left])
            while left:
                for message in consumed(consumer, 5_000, 0.1):
                    error, number = message.error(), message.partition() or 0
                    if error is None:
                        found[number].append(message)
                    elif error.code() == KafkaError._PARTITION_EOF:
                        _, end = consumer.get_watermark_offsets(KafkaPartition(topic, number))
                        if (message.offset() or 0) >= end:
                            left.discard(number)
                    else:
                        raise AssertionError(error.str())
        return [message for number in sorted(found) for message in found[number]]

    @contextmanager
    def _reader(self, level: str) -> Iterator[Consumer]:
        """Give a reader that nobody else has; it is kept for the next one, if nothing fails.

        A new client costs both sides more than what a test reads.
        """
        kept = self._readers[level]
        consumer = kept.pop() if kept else self._open_reader(level)
        try:
            yield consumer
            consumer.unassign()
        except BaseException:
            consumer.close()
            raise
        kept.append(consumer)

    def _open_reader(self, level: str) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": "nobody",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": level,
                "fetch.wait.max.ms": 10,
                **_OF_A_TEST,
            }
        )

    def delete(self, topic: str) -> None:
        """Delete *topic*; who reads afterwards has not known it."""
        self.admin.delete_topics([topic])[topic].result(_PATIENCE_SECONDS)
        self.close()

    def close(self) -> None:
        """Close the readers that are kept; the next ones are new."""
        for kept in self._readers.values():
            while kept:
                kept.pop().close()

    def committed(self, group: str, topic: Topic[Any, Any]) -> dict[int, int]:
        """Return the offsets that *group* has committed of each partition of *topic*."""
        places = [KafkaPartition(topic.name, each) for each in range(topic.partitions or 1)]
        asked = ConsumerGroupTopicPartitions(group, places)
        [answer] = self.admin.list_consumer_group_offsets([asked]).values()
        try:
            found = answer.result(_PATIENCE_SECONDS).topic_partitions
        except KafkaException:  # there is no coordinator yet
            return {}
        return {each.partition: max(each.offset, 0) for each in found}

    def members(self, group: str) -> set[str]:
        """Return the names of those members that have partitions in *group*."""
        [described] = self.admin.describe_consumer_groups([group]).values()
        members = described.result(_PATIENCE_SECONDS).members
        return {each.member_id for each in members if each.assignment.topic_partitions}

    def miss_soon(self, group: str) -> None:
        """Have a dead member of *group* missed after two seconds, by KIP-848.

        It is not every group's: on a busy machine a heartbeat may take as long, and who is given up
        processes its records again.
        """
        [altered] = self.admin.incremental_alter_configs(
            [
                ConfigResource(
                    ResourceType.GROUP,
                    group,
                    incremental_configs=[
                        ConfigEntry(
                            "consumer.session.timeout.ms",
                            "2000",
                            incremental_operation=AlterConfigOpType.SET,
                        )
                    ],
                )
            ]
        ).values()
        altered.result(_PATIENCE_SECONDS)

    def settings_of(self, topic: str) -> Mapping[str, str]:
        """Return the settings of *topic*."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        entries = self.admin.describe_configs([resource])[resource].result(_PATIENCE_SECONDS)
        return {name: entry.value for name, entry in entries.items()}


def wait_for(look: Callable[[], T], what: str, so_far: Callable[[], object] = str) -> T:
    """Return what *look* returns once that is true of it; *so_far* is told if it never is."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, f"waited for {what} in vain {so_far()}"
        time.sleep(_LOOK_SECONDS)
