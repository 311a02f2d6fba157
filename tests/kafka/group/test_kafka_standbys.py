"""Standbys follow and take over; an instance holds its work; a writer that fails is no record's."""

import time
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition
from kafka_cluster import TestCluster, wait_for
from kafka_threads import ThreadedInstance

import statestores as ss
from statestores.errors import BrokerError, InstanceFencedError, InvalidArgumentError
from statestores.kafka import writer as writer_module
from statestores.kafka.client_settings import ClientSettings
from statestores.kafka.cluster import Cluster
from statestores.kafka.patient_calls import PatientCalls
from statestores.kafka.plan import Plan, TaskKey
from statestores.kafka.tasks.restore import Restore
from statestores.kafka.tasks.restorer import Restorer
from statestores.kafka.tasks.task_stores import TaskStores
from statestores.kafka.writer import TransactionalWriter
from statestores.processing import Record, Topic, Topology
from statestores.spi import Durability, TopicPartition

_WORDS = [Record(f"word-{each % 17}", 1, 1_000 + each) for each in range(200)]


class Counting:
    """Counts words in two partitions."""

    def __init__(self, cluster: TestCluster) -> None:
        """Describe it, and create its topics."""
        name = cluster.name("counting")
        self.words = Topic(f"{name}-words", key=ss.utf8, value=ss.int64, partitions=2)
        self.counts = Topic(f"{name}-counts", key=ss.utf8, value=ss.int64, partitions=2)
        self.topology = Topology(name)
        store = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
        self.topology.stream(self.words).group_by_key().count(store).to(self.counts)
        cluster.create(self.words, self.counts)


@pytest.mark.spec("KFK-17", "KFK-19")
def test_a_standby_follows_and_takes_over(cluster: TestCluster, tmp_path: Path) -> None:
    """Nothing of the store is restored, and nothing of it is lost."""
    counting = Counting(cluster)
    restored: list[Any] = []
    with ThreadedInstance(cluster, counting.topology, tmp_path / "one", standby_replicas=1) as one:
        one.wait_for("running", 2)
        with ThreadedInstance(
            cluster,
            counting.topology,
            tmp_path / "other",
            standby_replicas=1,
            on_restore=restored.append,
        ) as other:
            other.wait_for("running", 1)
            cluster.append(counting.words, _WORDS)
            wait_for(lambda: len(cluster.read(counting.counts)) == 200, "all counts")
            [(key, at_work)] = one.wait_for("running", 1).items()

            def follows() -> bool:
                copy = other.places("standby").get(key)
                return copy is not None and [each.next_offset for each in copy.stores] == [
                    each.next_offset for each in one.places("running")[key].stores
                ]

            wait_for(follows, "a standby without lag")
            assert [each.lag for each in at_work.stores] == [0] * len(at_work.stores)
            restored.clear()
            one.leave()
            other.wait_for("running", 2)
            cluster.append(counting.words, _WORDS)
            wait_for(lambda: len(cluster.read(counting.counts)) == 400, "all counts")

    assert sum(each.rows for each in restored) == 0
    expected = [each.key for each in _WORDS] * 2
    last = {each.key: each.value for each in cluster.read(counting.counts)}
    assert last == {key: expected.count(key) for key in expected}


@pytest.mark.spec("KFK-17")
def test_the_rule_of_standbys() -> None:
    """Never the owner; who is new takes from all; a task in a move keeps what it has."""
    topology = Topology("rule")
    words = Topic("words", key=ss.utf8, value=ss.int64)
    topology.stream(words).group_by_key().count(ss.KeyValue("c", key=ss.utf8, value=ss.int64))
    plan = Plan(topology.build(), {"words": 60})
    owners = {TopicPartition("words", each): f"i{each % 3}" for each in range(59)}
    before = plan.standbys(owners, {"i0", "i1", "i2"}, 1)
    after = plan.standbys(owners, {"i0", "i1", "i2", "i3"}, 1)

    assert before.keys() == {TaskKey(plan.parts[0].name, each) for each in range(59)}
    for key, chosen in before.items():
        assert len(chosen) == 1
        assert chosen != [f"i{key.partition % 3}"]
    moved = {key for key in before if before[key] != after[key]}
    assert {after[key][0] for key in moved} == {"i3"}
    assert 0 < len(moved) < 59 / 2
    assert plan.standbys(owners, {"i0", "i1", "i2"}, 5)[TaskKey(plan.parts[0].name, 0)] in (
        ["i1", "i2"],
        ["i2", "i1"],
    )


@pytest.mark.spec("KFK-18")
def test_an_instance_holds_its_work(cluster: TestCluster, tmp_path: Path) -> None:
    """Paused from the start: it has its tasks and processes nothing, until it may.

    Its metrics say how far its input is ahead of it.
    """
    counting = Counting(cluster)
    cluster.append(counting.words, _WORDS)
    instance = ThreadedInstance(cluster, counting.topology, tmp_path)
    instance.runner.pause()
    with instance:
        instance.wait_for("running", 2)

        assert instance.runner.report().processed == 0
        instance.runner.resume()
        wait_for(lambda: instance.runner.report().processed == 200, "all words")
        instance.runner.pause()
        cluster.append(counting.words, _WORDS)
        instance.runner.resume()
        wait_for(lambda: instance.runner.report().processed == 400, "all words again")

        def lags() -> dict[str, int | float]:
            """Return the consumer lag of each partition."""
            return {
                each.tags["partition"]: each.value
                for each in instance.runner.metrics()
                if each.name == "records-lag" and each.tags["topic"] == counting.words.name
            }

        wait_for(lambda: lags() == {"0": 0, "1": 0}, "partitions that are read to their ends")


@pytest.mark.spec("KFK-13")
def test_what_the_broker_refuses_is_no_record_s_failure(cluster: TestCluster) -> None:
    """A transaction that had timed out was raised at a record, whose policy may be to skip it.

    Seen after 66 kills, as the end of a run: 'cannot write to …: _STATE'. Now the next commit says
    so, and the records are processed again. What is of the record, its size, is still raised.
    """
    topic: Topic[bytes, bytes] = Topic(cluster.name("refused"), partitions=1)
    cluster.create(topic)
    settings = ClientSettings(cluster.address, {"producer.linger.ms": 0})
    writer = TransactionalWriter(settings, topic.name)
    place = TopicPartition(topic.name, 0)
    with pytest.raises(BrokerError, match="MSG_SIZE_TOO_LARGE"):
        writer.write(place, b"k", bytes(2_000_000), 1)
    assert not writer.has_failed
    cluster.producer(**{"transactional.id": topic.name}).init_transactions()

    def has_failed() -> bool:
        writer.write(place, b"k", b"v", 1)
        writer.poll()
        return writer.has_failed

    wait_for(has_failed, "a writer that knows that it is fenced")
    with pytest.raises(InstanceFencedError):
        writer.commit({}, consumer=None)  # type: ignore[arg-type]  # not asked


@pytest.mark.spec("KFK-12")
def test_a_restore_that_nobody_wants_any_more_is_not_begun(
    cluster: TestCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that was lost and came back at once found its own stores open.

    Seen in a soak, when an instance that had been fenced joined anew: both restores were taken up
    in one step, the first was opened although it was cancelled, and the second ended the run with
    a `StoreLockedError`.
    """
    counting = Counting(cluster)
    opened: list[str] = []
    settings = ClientSettings(cluster.address)
    restorer = Restorer(
        counting.topology.build().name,
        settings,
        Cluster(settings),
        offset_reset="earliest",
        internal=(),
        listener=None,
    )
    is_held, may_go, step = Event(), Event(), restorer._step

    def held_step() -> None:
        is_held.set()
        may_go.wait()
        step()

    monkeypatch.setattr(restorer, "_step", held_step)
    is_held.wait()
    plan = Plan(counting.topology.build(), {counting.words.name: 2})
    key = plan.task_keys[0]

    def restore(name: str) -> Restore:
        def open_stores() -> TaskStores:
            opened.append(name)
            return cast("TaskStores", SimpleNamespace(logged={}, close=lambda: None))

        return Restore(plan.task_id(key), open_stores, plan.places(key))

    first, second = restore("first"), restore("second")
    restorer.begin(first)
    first.cancel()
    restorer.begin(second)
    may_go.set()
    finished = wait_for(restorer.finished, "a restore")
    restorer.stop()

    assert finished == [second]
    assert opened == ["second"]


@pytest.mark.spec("KFK-28", "KFK-12")
def test_what_a_changelog_loses_while_it_is_read_is_not_waited_for(
    cluster: TestCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The beginning was deleted after it had been looked for: all restores ended with an error.

    Whoever stands there looks again, and begins where the changelog does.
    """
    counting = Counting(cluster)
    graph = counting.topology.build()
    plan = Plan(graph, {counting.words.name: 2})
    key = plan.task_keys[0]
    changelogs = [
        TopicPartition(f"{graph.name}-{store.name}-changelog", 0) for store in plan.part(key).stores
    ]
    cluster.create(*(Topic(place.topic, partitions=2) for place in changelogs))
    producer = cluster.producer()
    for number in range(5):
        producer.produce(changelogs[0].topic, bytes(8), b"key-%d" % number, 0)
    producer.flush()
    place = KafkaPartition(*changelogs[0], 3)
    [deleted] = cluster.admin.delete_records([place]).values()
    deleted.result()
    settings = ClientSettings(cluster.address)
    looks, asked = [0, 0], Cluster.starts

    def starts(self: Cluster, places: Any) -> dict[TopicPartition, int]:
        found = asked(self, places)
        return found | {changelogs[0]: looks.pop()} if looks and changelogs[0] in found else found

    monkeypatch.setattr(Cluster, "starts", starts)
    restorer = Restorer(
        graph.name,
        settings,
        Cluster(settings),
        offset_reset="earliest",
        internal=(),
        listener=None,
    )

    def open_stores() -> TaskStores:
        part, durability = plan.part(key), Durability.PROCESS_CRASH
        return TaskStores(
            graph.name, part, 0, tmp_path, backend="memory", options=None, durability=durability
        )

    restorer.begin(Restore(plan.task_id(key), open_stores, plan.places(key)))
    [restored] = wait_for(restorer.finished, "a restore")
    restorer.stop()

    assert restored.failure is None
    assert restored.stores is not None
    logged: Any = next(iter(restored.stores.logged.values()))
    assert logged.next_offset == 5
    assert [logged.store.get(f"key-{each}") is not None for each in range(5)] == [
        *(False, False, False),
        *(True, True),
    ]
    restored.stores.close()
    assert looks == []


@pytest.mark.spec("KFK-13")
def test_a_call_that_does_not_come_back_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client may wait for a coordinator without an end, whatever it was told.

    Seen with librdkafka 2.16, after a broker was killed: the instance kept its partitions, and did
    nothing any more. Now another producer goes on, and the call is left to its thread.
    """
    monkeypatch.setattr(writer_module, "_CALL_SECONDS", 0.01)
    monkeypatch.setattr(writer_module, "_STUCK_SECONDS", 0.01)
    calls, never = PatientCalls("stuck"), Event()
    writer = object.__new__(TransactionalWriter)
    writer._calls = calls
    with pytest.raises(InstanceFencedError, match="does not come back from an attempt to commit"):
        writer._call("commit", lambda _: never.wait())
    with pytest.raises(InstanceFencedError):
        writer._call("abort", lambda _: None)
    never.set()
    writer.close()


@pytest.mark.spec("KFK-13")
def test_a_call_beside_another_one_is_not_made_again() -> None:
    """A commit that ran out of time is not over for the client, which refuses to abort meanwhile.

    Seen with librdkafka 2.16, after the topic of an output was deleted: the transaction was to be
    aborted 160,000 times in ten seconds, of a processor of its own and half of the broker's.
    """
    calls = PatientCalls("conflict")
    writer = object.__new__(TransactionalWriter)
    writer._calls = calls
    made = []

    def refuses(_: float) -> None:
        made.append(1)
        raise KafkaException(KafkaError(KafkaError._CONFLICT, "in progress", retriable=True))

    with pytest.raises(InstanceFencedError, match="cannot abort, since it has not ended another"):
        writer._call("abort", refuses)
    writer.close()
    assert len(made) == 1


@pytest.mark.spec("KFK-13")
def test_a_call_that_is_refused_at_once_is_made_again_after_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever else may pass is asked for again, and not as fast as a processor can."""
    pauses: list[float] = []
    clock = SimpleNamespace(sleep=pauses.append, monotonic=time.monotonic)
    monkeypatch.setattr("statestores.kafka.writer.time", clock)
    calls = PatientCalls("again")
    writer = object.__new__(TransactionalWriter)
    writer._calls = calls
    answers = [KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS, retriable=True)] * 2

    def answer(_: float) -> None:
        if answers:
            raise KafkaException(answers.pop())

    writer._call("commit", answer)
    writer.close()
    assert pauses == [writer_module._PAUSE_SECONDS] * 2


def test_a_number_of_standbys_is_a_number(cluster: TestCluster, tmp_path: Path) -> None:
    """Less than none are refused."""
    with pytest.raises(InvalidArgumentError, match="standby_replicas"):
        ThreadedInstance(cluster, Topology("x"), tmp_path, standby_replicas=-1)
