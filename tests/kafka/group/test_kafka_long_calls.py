"""What takes longer than the group waits: a restore costs nothing, anything else the membership."""

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, current_thread
from typing import Any

import pytest
from confluent_kafka import Consumer
from kafka_cluster import TestCluster, wait_for
from kafka_threads import ThreadedInstance

import statestores as ss
from statestores.errors import InstanceFencedError
from statestores.failpoints import arm, disarm
from statestores.kafka import runner
from statestores.processing import Record, Topic, Topology

_SHORT: dict[str, dict[str, Any]] = {
    "consumer": {"consumer.max.poll.interval.ms": 1_500},
    "classic": {
        "consumer.max.poll.interval.ms": 1_500,
        "consumer.session.timeout.ms": 1_500,
        "consumer.heartbeat.interval.ms": 200,
    },
}
"""As short as a group of the tests' broker allows."""


class _Held:
    """A place at which one thread is stopped, once, until it may go on."""

    def __init__(self) -> None:
        self.is_there = Event()
        self.may_go = Event()

    def of(self, name: str) -> Callable[[], object]:
        """Return what stops the thread *name*."""

        def stop() -> None:
            if current_thread().name == name and not self.is_there.is_set():
                self.is_there.set()
                self.may_go.wait()

        return stop


class _Counting:
    """Counts the records of each key in one partition; *look* sees each record."""

    def __init__(self, cluster: TestCluster, look: Callable[[int], object]) -> None:
        name = cluster.name("long")
        self._cluster = cluster
        self.orders = Topic(f"{name}-orders", key=ss.utf8, value=ss.int64, partitions=1)
        self.counted = Topic(f"{name}-counted", key=ss.utf8, value=ss.int64, partitions=1)
        self.topology = Topology(name)
        store = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
        seen = self.topology.stream(self.orders).peek(lambda record: look(record.value))
        seen.group_by_key().count(store).to(self.counted)
        cluster.create(self.orders, self.counted)
        self.given = 0

    def give(self) -> None:
        """Append one order more."""
        self.given += 1
        self._cluster.append(self.orders, [Record("k", self.given, self.given)])

    def counts(self) -> list[int]:
        """Return what has come out."""
        return [record.value for record in self._cluster.read(self.counted)]

    def wait_until_counted(self) -> None:
        """Return once each order has its count."""
        wait_for(lambda: len(self.counts()) >= self.given, f"{self.given} counts")


@pytest.fixture
def held() -> Iterator[_Held]:
    """Give a place to stop at, and have nobody stop there in the end."""
    place = _Held()
    yield place
    place.may_go.set()
    disarm()


def _wait_as_long_as_a_group_does(cluster: TestCluster, topic: str, protocol: str) -> None:
    """Return when a member that began now, with the same settings, is out for polling no more."""
    group = cluster.name("canary")
    settings = {name.removeprefix("consumer."): each for name, each in _SHORT[protocol].items()}
    canary = Consumer(
        {
            "bootstrap.servers": cluster.address,
            "group.id": group,
            "group.protocol": protocol,
            "log_level": 0,
            **settings,
        }
    )
    canary.subscribe([topic])
    try:
        wait_for(lambda: canary.poll(0.05) or canary.assignment(), "an assignment")
        wait_for(lambda: cluster.members(group), "a member")
        wait_for(lambda: not cluster.members(group), "a member that is out")
    finally:
        canary.close()


@pytest.mark.spec("KFK-12", "KFK-30")
@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_a_restore_may_take_longer_than_the_group_waits(
    cluster: TestCluster, tmp_path: Path, held: _Held, protocol: Any
) -> None:
    """The member stays, nothing is rebalanced, and then the task begins."""
    counting = _Counting(cluster, lambda _: None)
    group = counting.topology.name
    with ThreadedInstance(
        cluster, counting.topology, tmp_path / "first", group_protocol=protocol
    ) as first:
        counting.give()
        counting.wait_until_counted()
        first.leave()
    arm("kafka.batch-restored", held.of("restore"))
    restored: list[Any] = []
    with ThreadedInstance(
        cluster,
        counting.topology,
        tmp_path / "second",
        group_protocol=protocol,
        settings=_SHORT[protocol],
        on_restore=restored.append,
    ) as second:
        held.is_there.wait()
        before = wait_for(lambda: cluster.members(group), "a member")
        _wait_as_long_as_a_group_does(cluster, counting.orders.name, protocol)

        assert len(second.places("restoring")) == 1
        assert cluster.members(group) == before
        held.may_go.set()
        counting.give()
        counting.wait_until_counted()
        assert cluster.members(group) == before
        assert second.runner.report().rejoins == 0

    assert counting.counts() == [1, 2]
    assert [told.rows for told in restored if told.store == "counts"] == [0, 1, 1]


@pytest.mark.spec("KFK-6", "KFK-13", "KFK-30")
@pytest.mark.parametrize(
    ("protocol", "where"),
    [
        ("classic", "process"),
        ("consumer", "process"),
        ("classic", "kafka.changes-written"),
        pytest.param("consumer", "kafka.committed", marks=pytest.mark.long),
    ],
)
def test_whoever_takes_longer_than_the_group_waits_joins_anew(
    cluster: TestCluster,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    held: _Held,
    protocol: Any,
    where: str,
) -> None:
    """A run ended with '20 transactions in a row could not be committed'.

    A record took long, and another instance joined meanwhile. A classic member that is given up in
    the middle of a rebalance is not told by librdkafka before its session ends, so each transaction
    was refused until then. Now it joins anew at once, and each record counts once.
    """
    stop = held.of("instance slow")
    counting = _Counting(cluster, lambda value: where == "process" and value == 3 and stop())
    with ThreadedInstance(
        cluster,
        counting.topology,
        tmp_path / "slow",
        group_protocol=protocol,
        settings={"producer.transaction.timeout.ms": 1_500, **_SHORT[protocol]},
    ) as slow:
        for _ in range(2):
            counting.give()
            counting.wait_until_counted()
        if where != "process":
            arm(where, stop)
        counting.give()
        held.is_there.wait()
        with ThreadedInstance(
            cluster, counting.topology, tmp_path / "other", group_protocol=protocol
        ) as other:
            other.wait_for("running", 1)
            counting.give()
            counting.wait_until_counted()
            held.may_go.set()
            wait_for(lambda: slow.runner.report().rejoins, "an instance that joins anew")
            other.leave()
        counting.give()
        counting.wait_until_counted()

        assert slow.runner.report().rejoins == 1
        assert slow.runner.report().aborts <= 1
    assert counting.counts() == [1, 2, 3, 4, 5]
    assert "this instance joins the group anew" in caplog.text


@pytest.mark.long
@pytest.mark.spec("KFK-2", "KFK-30")
def test_who_always_takes_longer_than_the_group_waits_is_told(
    cluster: TestCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: _Held
) -> None:
    """It went from instance to instance for ever. Now the run ends, and says which setting it is.

    At least once: no store's changes are written any more, which another may have changed since.
    """
    monkeypatch.setattr(runner, "_MOST_REJOINS", 0)
    stop = held.of("instance alone")
    counting = _Counting(cluster, lambda _: stop())
    counting.give()
    with ThreadedInstance(
        cluster,
        counting.topology,
        tmp_path / "alone",
        guarantee="at_least_once",
        settings=_SHORT["consumer"],
    ) as alone:
        held.is_there.wait()
        wait_for(lambda: not cluster.members(counting.topology.name), "a member that is out")
        held.may_go.set()
        failure = wait_for(lambda: alone.failure, "an end")

    assert isinstance(failure, InstanceFencedError)
    assert "raise the setting 'consumer.max.poll.interval.ms'" in str(failure)
    assert cluster.messages(f"{counting.topology.name}-counts-changelog", [0]) == []
