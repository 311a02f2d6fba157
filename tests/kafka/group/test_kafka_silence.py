"""A client that forgets a partition, or goes back in it, costs time and no records."""

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition
from kafka_cluster import TestCluster, wait_for
from kafka_threads import ThreadedInstance

import statestores as ss
from statestores.kafka.group import membership, silence
from statestores.kafka.readers import consumed
from statestores.processing import Record, Topic, Topology

_RECORDS = 100


class _Numbers:
    """A topic of numbers, and a topology that notes each."""

    def __init__(self, cluster: TestCluster) -> None:
        name = cluster.name("silence")
        self.topic = Topic(f"{name}-numbers", key=ss.utf8, value=ss.int64, partitions=1)
        cluster.create(self.topic)
        self._cluster = cluster
        self.seen: list[int] = []
        self.topology = Topology(name)
        numbers = self.topology.stream(self.topic)
        numbers.peek(lambda record: self.seen.append(record.value)).filter_not(bool)

    def append(self, first: int, last: int) -> None:
        """Append the numbers from *first* to *last*."""
        numbers = range(first, last + 1)
        self._cluster.append(self.topic, [Record("k", each, each) for each in numbers])


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a partition be silent soon."""
    monkeypatch.setattr(silence, "_LOOK_SECONDS", 0.1)
    monkeypatch.setattr(silence, "_SILENT_SECONDS", 0.2)


@pytest.mark.spec("KFK-39")
@pytest.mark.usefixtures("impatient")
def test_a_partition_that_stays_paused_is_read_again(cluster: TestCluster, tmp_path: Path) -> None:
    """A resume and a rebalance at the same time: librdkafka dropped the resume, and told nobody.

    The task was there, nothing came of its partition, and it would have been so for ever. Here the
    partition is paused behind the back of whoever keeps account of it.
    """
    numbers = _Numbers(cluster)
    numbers.append(1, 1)
    with ThreadedInstance(cluster, numbers.topology, tmp_path) as instance:
        wait_for(lambda: numbers.seen, "a record")
        stay = instance.runner._stay
        assert stay is not None
        stay.membership._consumer.pause([KafkaPartition(numbers.topic.name, 0)])
        numbers.append(2, _RECORDS)
        wait_for(lambda: len(numbers.seen) >= _RECORDS, "all records")
        rejoins = instance.runner.report().rejoins

    assert numbers.seen == [*range(1, _RECORDS + 1)]
    assert rejoins == 0


class _NeverBegins(Consumer):
    """Its first one has lost the beginning of each partition."""

    count = 0

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        type(self).count += 1
        self._is_lost = type(self).count == 1

    def seek(self, partition: KafkaPartition) -> None:
        if self._is_lost:
            raise KafkaException(KafkaError(KafkaError._STATE))
        super().seek(partition)


@pytest.mark.spec("KFK-39")
@pytest.mark.usefixtures("impatient")
def test_a_partition_that_never_begins_is_read_by_another_client(
    cluster: TestCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pause and the client's own start of a partition at the same time: it dropped the start.

    Every seek was refused from then on ("Erroneous state"), and tried again, for ever.
    """
    monkeypatch.setattr(_NeverBegins, "count", 0)
    monkeypatch.setattr(membership, "Consumer", _NeverBegins)
    numbers = _Numbers(cluster)
    numbers.append(1, _RECORDS)
    with ThreadedInstance(cluster, numbers.topology, tmp_path) as instance:
        wait_for(lambda: len(numbers.seen) >= _RECORDS, "all records")
        rejoins = instance.runner.report().rejoins

    assert numbers.seen == [*range(1, _RECORDS + 1)]
    assert rejoins == 1


@pytest.mark.spec("KFK-2")
def test_what_comes_twice_at_once_is_processed_once(
    cluster: TestCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the client gives again after it has gone back, in the same poll, is left out.

    librdkafka goes back half a second after a seek, if the answer to a question of its own was late
    (see the caveats). Only what came again in a later poll was left out; an instance that was busy
    for that long would have processed the rest twice.
    """

    def twice(*arguments: Any) -> list[Message]:
        return consumed(*arguments) * 2

    monkeypatch.setattr(membership, "consumed", twice)
    numbers = _Numbers(cluster)
    numbers.append(1, _RECORDS)
    with ThreadedInstance(cluster, numbers.topology, tmp_path):
        wait_for(lambda: len(numbers.seen) >= _RECORDS, "all records")

    assert numbers.seen == [*range(1, _RECORDS + 1)]
