"""Brokers that are gone: without a word, so that connections stay, or for whoever is stopped."""

from pathlib import Path
from threading import Thread

import pytest
from kafka_broker_process import BrokerProcess
from kafka_cluster import TestCluster, wait_for
from kafka_proxy import HalfOpenNetwork

import statestores as ss
from statestores.errors import InvalidOptionError
from statestores.kafka import KafkaRunner, run, writer
from statestores.kafka.client_settings import ClientSettings
from statestores.kafka.group import confirmation
from statestores.kafka.run_arguments import Guarantee
from statestores.kafka.tasks import plain_writer
from statestores.kafka.tasks.plain_writer import PlainWriter
from statestores.processing import Record, Topic, Topology

_SILENCE_SECONDS = 6.0
_PATIENCE_SECONDS = 5.5


@pytest.mark.spec("KFK-52")
def test_a_step_outlives_a_connection_that_nobody_answers(
    broker: BrokerProcess, cluster: TestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker's machine lost its power, and another one led its partitions within seconds.

    The client notices after a minute of silence (`socket.timeout.ms`), and goes to the other one.
    At least once gave up after the same minute, and the run ended a moment before it could go on.
    """
    monkeypatch.setattr(plain_writer, "PATIENCE_SECONDS", _PATIENCE_SECONDS)
    monkeypatch.setattr(plain_writer, "REQUEST_SECONDS", 0.1)
    topic = Topic(cluster.name("rows"))
    cluster.create(topic)
    settings = ClientSettings(
        broker.proxy_address, {"socket.timeout.ms": int(_SILENCE_SECONDS * 1_000)}
    )
    place = ss.TopicPartition(topic.name, 0)
    with HalfOpenNetwork(broker.proxy_address, broker.behind_address) as network:
        writer = PlainWriter(settings)
        writer.write(place, b"key", b"before", 1)
        writer.end_step()
        network.forget()
        writer.write(place, b"key", b"after", 2)
        writer.end_step()
        writer.close()

    assert [each.value() for each in cluster.messages(topic.name, [0])] == [b"before", b"after"]


@pytest.mark.spec("KFK-52")
def test_the_silence_is_that_of_the_more_patient_client() -> None:
    """The member's, or its producer's; librdkafka's default, where nobody has chosen one."""
    for given, silence in (
        ({}, 60.0),
        ({"socket.timeout.ms": 5_000}, 5.0),
        ({"producer.socket.timeout.ms": 5_000, "consumer.socket.timeout.ms": 90_000}, 90.0),
    ):
        assert ClientSettings("broker:9092", given).silence_seconds == silence
    with pytest.raises(InvalidOptionError, match=r"'socket\.timeout\.ms' is a number of ms"):
        _ = ClientSettings("broker:9092", {"socket.timeout.ms": "long"}).silence_seconds


@pytest.mark.spec("KFK-54", "KFK-2")
@pytest.mark.parametrize(
    "guarantee", ["at_least_once", pytest.param("exactly_once", marks=pytest.mark.long)]
)
def test_who_is_stopped_does_not_wait_for_dead_brokers(
    broker: BrokerProcess,
    cluster: TestCluster,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    guarantee: Guarantee,
) -> None:
    """An instance was stopped while its brokers were down, with a commit to make.

    With at least once it waited for two minutes, as one that goes on does, and whoever runs it had
    killed it long since; then it raised. It ends without an error now, and nothing is lost.
    """
    monkeypatch.setattr(plain_writer, "REQUEST_SECONDS", 0.5)
    monkeypatch.setattr(confirmation, "REQUEST_SECONDS", 0.5)
    monkeypatch.setattr(writer, "REQUEST_SECONDS", 0.5)
    monkeypatch.setattr(writer, "_CALL_SECONDS", 0.5)
    name = cluster.name("stopped")
    words = Topic(f"{name}-words", key=ss.utf8, value=ss.int64, partitions=1)
    counts = Topic(f"{name}-counts", key=ss.utf8, value=ss.int64, partitions=1)
    cluster.create(words, counts)
    cluster.append(words, [Record("a", 1, 1 + each) for each in range(5)])
    topology = Topology(name)
    store = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
    topology.stream(words).group_by_key().count(store).to(counts)
    failures: list[BaseException] = []
    runner = KafkaRunner(
        topology,
        broker.proxy_address,
        tmp_path,
        backend="sqlite",
        guarantee=guarantee,
        commit_interval_ms=3_600_000,
        settings={"reconnect.backoff.max.ms": 100},
    )

    def live() -> None:
        try:
            runner.run()
        except BaseException as error:  # noqa: BLE001  # judged below
            failures.append(error)

    instance = Thread(target=live)
    with HalfOpenNetwork(broker.proxy_address, broker.behind_address):
        instance.start()
        wait_for(lambda: failures or runner.report().processed == 5, "five records")
    runner.stop()
    instance.join()

    assert failures == []
    assert "this instance ends without a commit" in caplog.text
    run(
        topology,
        bootstrap_servers=cluster.address,
        state=tmp_path,
        backend="sqlite",
        guarantee=guarantee,
        until="idle",
    )
    assert [record.value for record in cluster.read(counts)][-1] == 5
