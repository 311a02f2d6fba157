"""Topics: the internal ones, what others take of a record, and what is deleted of them."""

import time
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from kafka_cluster import TestCluster, wait_for
from kafka_shop import Shop
from kafka_threads import ThreadedInstance

import statestores as ss
from statestores.errors import BrokerError, StateStoreError, TopologyMismatchError
from statestores.kafka import cluster as cluster_module
from statestores.kafka import run
from statestores.kafka.client_settings import ClientSettings
from statestores.kafka.cluster import Cluster, repeated
from statestores.kafka.run_arguments import ChangelogFormat
from statestores.kafka.tasks import assigned_tasks
from statestores.processing import DeadLetter, Record, Topic, Topology
from statestores.spi import TopicPartition

_FAST: dict[str, Any] = {"consumer.fetch.wait.max.ms": 100}


@pytest.mark.spec("KFK-45")
def test_what_a_broker_does_not_know_yet_is_asked_again(cluster: TestCluster) -> None:
    """Another one had created the topic, and the run ended: the one that was asked knew it not."""
    late = Topic(cluster.name("late"), key=ss.utf8, value=ss.utf8, partitions=1)
    asking = Cluster(ClientSettings(cluster.address, None))
    creating = Timer(0.5, cluster.create, [late])
    creating.start()
    try:
        found = asking.ids_of([late.name])
    finally:
        creating.join()

    assert found.keys() == {late.name}
    assert asking.settings_of([late.name]).keys() == {late.name}


@pytest.mark.spec("KFK-45")
def test_what_no_broker_knows_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while; and at once where a topic is not new."""
    asked = 0

    def ask() -> None:
        nonlocal asked
        asked += 1
        raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))

    now = iter(range(100))
    monkeypatch.setattr(cluster_module, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(time, "monotonic", lambda: next(now))

    with pytest.raises(BrokerError, match="deleted"):
        repeated("look for a topic", ask, unknown_seconds=10.0)
    assert asked == 10
    with pytest.raises(BrokerError, match="deleted"):
        repeated("look for a topic", ask)
    assert asked == 11


@pytest.mark.spec("KFK-5")
def test_internal_topics_are_made_and_compared(cluster: TestCluster, tmp_path: Path) -> None:
    """As Kafka Streams keeps them; others are refused, and a topic of the user's is not made."""
    shop = Shop(cluster.name("made"))

    def attempt(state: str, changelog_format: ChangelogFormat = "rows") -> None:
        run(
            shop.topology,
            bootstrap_servers=cluster.address,
            state=tmp_path / state,
            backend="sqlite",
            settings=_FAST,
            changelog_format=changelog_format,
            until="idle",
        )

    with pytest.raises(TopologyMismatchError, match=f"{shop.topology.name}-clicks"):
        attempt("a")
    shop.create(cluster)
    attempt("a")
    # "Set them right with Kafka's tools" was the advice, by which all that was kept is lost.
    with pytest.raises(TopologyMismatchError, match="cannot be changed: give 'rows'"):
        attempt("frames", "frames")
    name = shop.topology.name
    kept = {
        store: cluster.settings_of(f"{name}-{store}-changelog")
        for store in ("counts", "tens", "bursts", "history")
    }

    assert kept["counts"]["cleanup.policy"] == "compact"
    assert set(kept["tens"]["cleanup.policy"].split(",")) == {"compact", "delete"}
    assert kept["bursts"]["retention.ms"] == str(100 + ss.DAY)
    assert kept["history"]["min.compaction.lag.ms"] == str(1_000 + ss.DAY)

    other = Shop(cluster.name("other"))
    other.create(cluster)
    wrong: Topic[Any, Any] = Topic(f"{other.topology.name}-counts-changelog", partitions=3)
    cluster.create(wrong, **{"cleanup.policy": "delete"})
    shop = other
    with pytest.raises(TopologyMismatchError, match=r"3 partitions.*cleanup\.policy"):
        attempt("b")


@pytest.mark.spec("KFK-26", "KFK-35")
def test_what_a_topic_does_not_take_is_one_records_failure(
    cluster: TestCluster, tmp_path: Path
) -> None:
    """The broker refused whole transactions for it, twenty times, and the run ended, as the next.

    So did one record that was too large for its topic, or more than an hour ahead (a time in
    microseconds), whatever the error policy, and also many small records that were sent at once
    into a topic with a low ``max.message.bytes``. Stores take any time, and so do their changelogs.
    """
    name = cluster.name("takes")
    lines, dead = Topic(f"{name}-in", key=ss.utf8, value=ss.utf8), Topic(f"{name}-dead")
    out = Topic(f"{name}-out", key=ss.utf8, value=ss.utf8)
    ahead_ms = 1 << 52
    cluster.create(lines, dead, **{"message.timestamp.after.max.ms": str(1 << 60)})
    cluster.create(out, **{"max.message.bytes": "2000"})
    fits = "x" * 1_929  # to the byte: with what the batch of one record has besides
    cluster.append(lines, [Record(f"{each:09}", "little", 1 + each) for each in range(300)])
    cluster.append(
        lines, [Record("a", fits, 301), Record("b", fits + "x", 302), Record("c", "", ahead_ms)]
    )
    topology = Topology(name, errors=DeadLetter(dead))
    stream = topology.stream(lines)
    stream.to(out)
    stream.group_by_key().count(ss.KeyValue("counts", key=ss.utf8, value=ss.int64))

    run(
        topology,
        bootstrap_servers=cluster.address,
        state=tmp_path,
        backend="sqlite",
        settings=_FAST,
        until="idle",
    )
    taken = [record.key for record in cluster.read(out)]
    reasons = [dict(record.headers) for record in cluster.read(dead)]
    counted = cluster.read(Topic(f"{name}-counts-changelog", key=ss.utf8, value=ss.int64))

    assert taken == [*(f"{each:09}" for each in range(300)), "a"]
    assert [each["__streams.errors.exception"] for each in reasons] == [
        b"BrokerError",
        b"InvalidTimeError",
    ]
    assert counted[-1] == Record("c", 1, ahead_ms)


@pytest.mark.spec("KFK-7")
def test_records_before_an_offset_are_deleted_and_no_others(cluster: TestCluster) -> None:
    """The topic begins at the offset, and ends where it did."""
    topic: Topic[bytes, bytes] = Topic(cluster.name("purge"), partitions=1)
    cluster.create(topic)
    cluster.append(topic, [Record(b"k", b"v", each) for each in range(5)])
    asked, place = Cluster(ClientSettings(cluster.address)), TopicPartition(topic.name, 0)
    asked.delete_before({place: 3})

    assert wait_for(lambda: asked.starts([place])[place], "the deletion") == 3
    assert asked.ends([place], committed=True) == {place: 5}


@pytest.mark.spec("KFK-40")
@pytest.mark.parametrize(
    ("guarantee", "most_aborts"),
    [
        pytest.param("exactly_once", 20, marks=pytest.mark.long),
        ("exactly_once", 0),
        ("at_least_once", 0),
    ],
)
def test_an_output_that_was_deleted_is_named(
    cluster: TestCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    guarantee: str,
    most_aborts: int,
) -> None:
    """Nobody said which: "Local: Unknown partition", or a rejoin every 20 seconds, six times.

    Nor did the error after 20 transactions that were refused, which is how it ends where the broker
    says so before the client does: "Failed to add partition(s) to transaction".
    """
    monkeypatch.setattr(assigned_tasks, "_MOST_ABORTS", most_aborts)
    name = cluster.name("deleted")
    numbers = Topic(f"{name}-in", key=ss.utf8, value=ss.int64, partitions=1)
    output = Topic(f"{name}-out", key=ss.utf8, value=ss.int64, partitions=1)
    cluster.create(numbers, output)
    topology = Topology(name)
    topology.stream(numbers).to(output)
    cluster.append(numbers, [Record("k", 1, 1)])
    with ThreadedInstance(
        cluster,
        topology,
        tmp_path,
        guarantee=guarantee,
        settings={} if most_aborts else {"topic.metadata.propagation.max.ms": 100},
    ) as instance:
        wait_for(lambda: cluster.read(output), "the first number")
        cluster.delete(output.name)
        for number in range(2, 1_000):
            cluster.append(numbers, [Record("k", number, number)])
            if instance.failure is not None:
                break
            time.sleep(1)  # it takes twenty seconds, and each record a producer of its own

    assert isinstance(instance.failure, StateStoreError)
    assert repr(output.name) in str(instance.failure)
    assert "start again" in str(instance.failure)
