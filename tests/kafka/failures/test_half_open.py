"""A broker's machine that is gone without a word: its connections stay, and nothing comes back."""

import pytest
from kafka_broker_process import BrokerProcess
from kafka_cluster import TestCluster
from kafka_proxy import HalfOpenNetwork

import statestores as ss
from statestores.errors import InvalidOptionError
from statestores.kafka.client_settings import ClientSettings
from statestores.kafka.tasks import plain_writer
from statestores.kafka.tasks.plain_writer import PlainWriter
from statestores.processing import Topic

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
