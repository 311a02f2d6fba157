"""At least once, what somebody else writes into the changelog of a task is told by its owner."""

import logging
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message
from kafka_cluster import TestCluster, wait_for
from kafka_threads import ThreadedInstance

import statestores as ss
from statestores.kafka.client_settings import CLIENT_LOGGER
from statestores.kafka.run_arguments import ChangelogFormat, Guarantee
from statestores.processing import Record, Topic, Topology

_SAID = "has records of another instance"


class Counting:
    """Counts the records of one key, one by one."""

    def __init__(self, cluster: TestCluster) -> None:
        """Create its topics."""
        self._cluster = cluster
        name = cluster.name("counting")
        self.given = Topic(f"{name}-given", key=ss.utf8, value=ss.int64, partitions=1)
        self.counts = Topic(f"{name}-counts", key=ss.utf8, value=ss.int64, partitions=1)
        self.changelog = f"{name}-count-changelog"
        self.topology = Topology(name)
        store = ss.KeyValue("count", key=ss.utf8, value=ss.int64)
        self.topology.stream(self.given).group_by_key().count(store).to(self.counts)
        cluster.create(self.given, self.counts)

    def count_to(self, number: int) -> None:
        """Give one more, and wait until it is counted, and the changelog has it."""
        before = len(self.changes())
        self._cluster.append(self.given, [Record("key", 1, number)])
        wait_for(lambda: len(self.changes()) > before, f"the count {number}")

    def changes(self) -> list[Message]:
        """Return what the changelog has."""
        return self._cluster.messages(self.changelog, [0])

    def write_late(self, change: Message) -> None:
        """Write *change*, as an instance does whose network comes back."""
        failures: list[KafkaError | None] = []
        producer = self._cluster.producer()
        producer.produce(
            self.changelog,
            change.value(),
            change.key(),
            0,
            timestamp=change.timestamp()[1],
            on_delivery=lambda error, _: failures.append(error),
        )
        producer.flush()

        assert failures == [None]


@pytest.mark.spec("KFK-51")
@pytest.mark.parametrize("changelog_format", ["rows", "frames"])
def test_what_somebody_else_has_written_is_told(
    cluster: TestCluster,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    changelog_format: ChangelogFormat,
) -> None:
    """An instance was cut off from the brokers in a commit, for longer than its session.

    What it had sent was under way all the time, and arrived when the network was back, behind what
    the new owner had written: whoever restored the store counted 108 of 129 records, and nobody
    had said a word. The owner's own offsets do not follow each other then.
    """
    counting = Counting(cluster)
    caplog.set_level(logging.WARNING, CLIENT_LOGGER.name)
    with ThreadedInstance(
        cluster,
        counting.topology,
        tmp_path,
        guarantee="at_least_once",
        changelog_format=changelog_format,
    ) as instance:
        instance.wait_for("running", 1)
        for number in (1, 2):
            counting.count_to(number)
        assert _SAID not in caplog.text
        counting.write_late(counting.changes()[0])
        for number in (3, 4):
            counting.count_to(number)
        instance.leave()

    [told] = [each.getMessage() for each in caplog.records if _SAID in each.getMessage()]
    assert told.startswith(
        f"partition 0 of the changelog {counting.changelog!r} {_SAID}, 1 of the offsets 2 to 3, "
    )


@pytest.mark.spec("KFK-51")
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_an_owner_alone_hears_of_nobody(
    cluster: TestCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture, guarantee: Guarantee
) -> None:
    """Also where it begins behind the ends of transactions, or over what it has restored."""
    counting = Counting(cluster)
    caplog.set_level(logging.WARNING, CLIENT_LOGGER.name)
    for number, state in enumerate(("one", "one", "two"), 1):
        last: Guarantee = "at_least_once" if number > 1 else guarantee
        with ThreadedInstance(
            cluster, counting.topology, tmp_path / state, guarantee=last
        ) as instance:
            counting.count_to(number)
            instance.leave()

    assert [each.value for each in cluster.read(counting.counts)] == [1, 2, 3]
    assert _SAID not in caplog.text
