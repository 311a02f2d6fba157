"""A topic that was created anew, or has lost what a store lacks, is not gone on from."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import NewTopic
from kafka_cluster import TestCluster, wait_for
from kafka_threads import ThreadedInstance

import statestores as ss
from statestores.errors import NotUpToBoundError, OffsetOutOfRangeError
from statestores.kafka import run
from statestores.kafka.client_settings import ClientSettings
from statestores.kafka.cluster import NO_ID, Cluster
from statestores.kafka.run_arguments import ChangelogFormat
from statestores.kafka.tasks.noted_topics import NotedTopic
from statestores.processing import Record, Topic, Topology
from statestores.query import timestamped_key_value_store

_FAST: dict[str, Any] = {"consumer.fetch.wait.max.ms": 100}


def _run(
    cluster: TestCluster,
    topology: Topology,
    state: Path,
    changelog_format: ChangelogFormat = "rows",
) -> None:
    run(
        topology,
        bootstrap_servers=cluster.address,
        state=state,
        backend="sqlite",
        settings=_FAST,
        changelog_format=changelog_format,
        until="idle",
    )


def _give(cluster: TestCluster, topic: Topic[str, int], keys: str, value: int | None = 1) -> None:
    cluster.append(topic, [Record(key, value, 5) for key in keys])


def _latest(cluster: TestCluster, topic: Topic[str, int]) -> dict[str | None, int | None]:
    return {each.key: each.value for each in cluster.read(topic)}


def _create_anew(cluster: TestCluster, name: str, partitions: int, **settings: str) -> None:
    """Delete the topic *name*, and create one of that name, which has another id."""
    told = Cluster(ClientSettings(cluster.address, {}))
    before = told.ids_of([name])
    cluster.delete(name)
    wait_for(lambda: not told.partitions([name]), "the topic to go")
    new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=settings)
    cluster.admin.create_topics([new])[name].result(60)
    wait_for(lambda: told.partitions([name]), "the topic to be known")

    assert told.ids_of([name]) != before


@pytest.mark.spec("KFK-42", "KFK-9")
def test_a_store_does_not_go_on_from_another_topic_of_the_name(
    cluster: TestCluster, tmp_path: Path
) -> None:
    """An application was reset, on one machine of two; the other one's counts came back.

    A store was refused where its changelog was shorter than it; one that had been created anew and
    was long enough by now was read on from the offset that meant something in the old one, so the
    store had the rows of both. Now a store says which topic it reflects.
    """
    name = cluster.name("reset")
    given = Topic(f"{name}-in", key=ss.utf8, value=ss.int64, partitions=1)
    out = Topic(f"{name}-out", key=ss.utf8, value=ss.int64, partitions=1)
    topology = Topology(name)
    counts = (
        topology.stream(given)
        .group_by_key()
        .count(ss.KeyValue("counts", key=ss.utf8, value=ss.int64))
    )
    counts.to(out)
    cluster.create(given, out)
    _give(cluster, given, "ab")
    _run(cluster, topology, tmp_path / "one")
    _create_anew(cluster, f"{name}-counts-changelog", 1, **{"cleanup.policy": "compact"})
    _give(cluster, given, "bbcc")
    _run(cluster, topology, tmp_path / "other")
    assert _latest(cluster, out) == {"a": 1, "b": 2, "c": 2}
    _give(cluster, given, "aaaa")
    with pytest.raises(OffsetOutOfRangeError, match="remove the local store"):
        _run(cluster, topology, tmp_path / "one")
    _run(cluster, topology, tmp_path / "other")

    assert _latest(cluster, out) == {"a": 4, "b": 2, "c": 2}


def _lose_what_was_deleted(cluster: TestCluster, topic: Topic[str, int]) -> None:
    """Delete `a`, and then the record of that, as a topic's retention does."""
    _give(cluster, topic, "a", None)
    _give(cluster, topic, "b", 2)
    reader = Consumer({"bootstrap.servers": cluster.address, "group.id": "nobody"})
    _, end = reader.get_watermark_offsets(KafkaPartition(topic.name, 0))
    reader.close()
    [deleted] = cluster.admin.delete_records([KafkaPartition(topic.name, 0, end - 1)]).values()
    deleted.result(60)


def _have_a_shorter_one(cluster: TestCluster, topic: Topic[str, int]) -> None:
    """Have another topic of the name, with one record."""
    _create_anew(cluster, topic.name, 1)
    _give(cluster, topic, "b", 2)


def _have_a_longer_one(cluster: TestCluster, topic: Topic[str, int]) -> None:
    """Have another topic of the name, with as many records as the earlier one, and more."""
    _create_anew(cluster, topic.name, 1)
    _give(cluster, topic, "bbbbbbbb", 2)


@pytest.mark.spec("KFK-14", "KFK-42")
@pytest.mark.parametrize(
    "change", [_lose_what_was_deleted, _have_a_shorter_one, _have_a_longer_one]
)
def test_a_global_table_is_what_its_topic_has(
    cluster: TestCluster,
    tmp_path: Path,
    change: Callable[[TestCluster, Topic[str, int]], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Two instances had different rows of one global table, and answered differently for ever.

    One had been down while its topic deleted a deletion, so it kept the row; or the topic was
    another one by now, and it kept all that it had, or could not be started any more. A store that
    cannot go on where it is begins anew.
    """
    name = cluster.name("rates")
    rates = Topic(f"{name}-rates", key=ss.utf8, value=ss.int64, partitions=1)
    given = Topic(f"{name}-in", key=ss.utf8, value=ss.int64, partitions=1)
    out = Topic(f"{name}-out", key=ss.utf8, value=ss.int64, partitions=1)
    topology = Topology(name)
    table = topology.global_table(rates, ss.KeyValue("rates", key=ss.utf8, value=ss.int64))
    topology.stream(given).join(
        table, lambda _, rate: rate or 0, key="key", value=ss.int64, how="left"
    ).to(out)
    cluster.create(rates, given, out)
    _give(cluster, rates, "aabb")
    for _ in range(2):  # nothing has changed the second time
        _give(cluster, given, "ab")
        _run(cluster, topology, tmp_path / "one")
    assert _latest(cluster, out) == {"a": 1, "b": 1}
    assert caplog.records == []
    change(cluster, rates)
    for instance in ("one", "new"):
        _give(cluster, given, "ab")
        _run(cluster, topology, tmp_path / instance)

        assert _latest(cluster, out) == {"a": 0, "b": 2}, instance
    assert {"rates" in each.getMessage() for each in caplog.records} == {True}


@pytest.mark.spec("KFK-50", "QRY-9")
@pytest.mark.parametrize(
    ("changelog_format", "directory"),
    [
        ("rows", "one"),
        ("frames", "new"),
        pytest.param("rows", "new", marks=pytest.mark.long),
        pytest.param("frames", "one", marks=pytest.mark.long),
    ],
)
def test_a_position_is_not_of_an_earlier_topic_of_the_name(
    cluster: TestCluster, tmp_path: Path, changelog_format: Any, directory: str
) -> None:
    """An input was deleted and created anew, and a record of it was said to have been counted.

    Three records of the earlier topic were: a query that asked for offset 2 of the new one, which
    had one record by then, was answered by what the store had of the earlier. So was one in a
    directory that the changelog's frames had filled, which have positions.
    """
    name = cluster.name("anew")
    given = Topic(f"{name}-in", key=ss.utf8, value=ss.int64, partitions=1)
    place = ss.TopicPartition(given.name, 0)
    store = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
    topology = Topology(name)
    topology.stream(given).group_by_key().count(store)
    cluster.create(given)
    _give(cluster, given, "aaa")
    _run(cluster, topology, tmp_path / "one", changelog_format)
    _create_anew(cluster, given.name, 1)
    with ThreadedInstance(
        cluster,
        topology,
        tmp_path / directory,
        serve="127.0.0.1:0",
        changelog_format=changelog_format,
    ) as instance:
        instance.wait_for("running", 1)
        assert instance.runner.server is not None
        queries = instance.runner.server.queries
        with pytest.raises(NotUpToBoundError):
            queries.store(
                "counts", timestamped_key_value_store(), at_least=ss.Position({place: 0})
            ).get("a")
        _give(cluster, given, "a")
        reached = queries.store(
            "counts", timestamped_key_value_store(), at_least=ss.Position({place: 0})
        )
        wait_for(lambda: _answer(reached, "a") == 4, "the new topic's first record")
        with pytest.raises(NotUpToBoundError):
            queries.store(
                "counts", timestamped_key_value_store(), at_least=ss.Position({place: 2})
            ).get("a")


def _answer(store: Any, key: str) -> int | None:
    """Return what a store has, or ``None`` until it has reached its bound."""
    try:
        found: int = store.get(key).value
    except NotUpToBoundError:
        return None
    return found


@pytest.mark.spec("KFK-42")
def test_what_has_no_id_is_not_judged() -> None:
    """A store of an earlier release has no note, and a broker before 2.8 gives no id."""
    with ss.open_store("unused", ss.KeyValue("s"), backend="memory") as store:
        store.commit({ss.TopicPartition("log", 0): 5})
        earlier = NotedTopic(store, "log", "x" * 22)
        assert not earlier.is_other
        store.commit(earlier.offsets())
        assert NotedTopic(store, "log", "x" * 22).offsets() == {}
        assert NotedTopic(store, "log", "y" * 22).is_other
        assert not NotedTopic(store, "log", NO_ID).is_other
        assert not NotedTopic(store, "log-of-others", "y" * 22).is_other
        assert NotedTopic(store, "log-of-others", NO_ID).offsets() == {}
        emptied = NotedTopic(store, "log", "y" * 22)
        store.truncate()
        emptied.has_been_emptied()
        store.commit(emptied.offsets())

        assert not NotedTopic(store, "log", "y" * 22).is_other
