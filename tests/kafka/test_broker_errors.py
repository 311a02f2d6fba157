"""What the client's errors become: with what whoever starts an instance can do about them."""

import logging
import socket
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException
from kafka_cluster import TestCluster
from kafka_patience import Patience

import statestores as ss
from statestores.errors import BrokerError
from statestores.kafka import KafkaRunner
from statestores.kafka import cluster as cluster_module
from statestores.kafka.broker_errors import TransactionAbortedError, broker_error
from statestores.kafka.client_settings import CLIENT_LOGGER, ClientSettings
from statestores.kafka.client_troubles import ClientTroubles
from statestores.kafka.cluster import Cluster
from statestores.kafka.writer import TransactionalWriter
from statestores.processing import Topic, Topology


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (KafkaError._TIMED_OUT, "; check bootstrap_servers, the security settings, and that "),
        (KafkaError._TRANSPORT, "; check bootstrap_servers, the security settings, and that "),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "; give the user of these settings the right"),
        (KafkaError.MSG_SIZE_TOO_LARGE, "; let the client send more (settings={'producer.message."),
    ],
)
def test_an_error_says_what_to_do(code: int, advice: str) -> None:
    """A wrong address ended after a minute in "_TIMED_OUT: Failed while waiting for controller".

    A row of more than a megabyte ended each run in "Broker: Message size too large", although the
    client had refused it, and the error did not say what could be set.
    """
    error = broker_error("look for the topics lines", KafkaException(KafkaError(code)))

    assert str(error).startswith("cannot look for the topics lines: ")
    assert advice in str(error)


@pytest.mark.usefixtures("broker")
def test_what_a_broker_refuses_of_a_transaction_is_told_with_what_to_do(
    cluster: TestCluster,
) -> None:
    """A changelog's max.message.bytes was lowered while an instance ran: the broker refuses a row.

    The client does not know of it, and each transaction was taken back with "Message size too
    large", until the run ended with that. Of a row that the client refuses the advice was given.
    """
    topic = Topic(cluster.name("rows"))
    cluster.create(topic, **{"max.message.bytes": "1000"})
    writer = TransactionalWriter(ClientSettings(cluster.address), topic.name)
    consumer = _Member(
        {**ClientSettings(cluster.address).reader(topic.name), "enable.partition.eof": False}
    )
    try:
        writer.write(ss.TopicPartition(topic.name, 0), b"key", b"v" * 2_000, 1)
        writer.producer.flush(30.0)
        with pytest.raises(TransactionAbortedError) as caught:
            writer.commit({ss.TopicPartition(topic.name, 0): 1}, consumer)
        writer.abort()
    finally:
        consumer.close()
        writer.close()

    assert "and the topic take it (max.message.bytes), or keep less in a row; " in str(caught.value)
    assert "the records are processed again" in str(caught.value)


class _Member(Consumer):
    """A consumer that says that its group has it."""

    def memberid(self) -> str:
        return "one"


@pytest.mark.spec("KFK-33")
def test_why_a_broker_is_not_reached_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A minute of silence ended in "_TIMED_OUT: Failed while waiting for controller".

    The client had said at once that nobody listens there, to a callback that nobody had given.
    """
    patience = Patience()
    monkeypatch.setattr(cluster_module, "time", patience)
    monkeypatch.setattr(cluster_module, "REQUEST_SECONDS", 0.5)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        # Whoever had such a callback hears the same as before.
        cluster = Cluster(ClientSettings(address, {"error_cb": patience.end}))
        with pytest.raises(BrokerError, match=r"the client says: .*Connection refused; check boot"):
            cluster.partitions(["orders"])
        # It was waited for a minute, in which nothing stopped an instance: no signal, and no call.
        topology = Topology("orders")
        topology.stream(Topic("orders")).to(Topic("copies"))
        runner = KafkaRunner(topology, address, tmp_path)
        runner.stop()
        assert runner.run().commits == 0


@pytest.mark.spec("KFK-33")
def test_a_trouble_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """The client tells each attempt, of which there are many; each also says how long it took.

    Of a client that spoke TLS to a listener that does not, each attempt had two reasons, told in
    turn, and both were logged each time, for a minute.
    """
    troubles = ClientTroubles()
    with caplog.at_level(logging.WARNING, CLIENT_LOGGER.name):
        for milliseconds in range(6):
            if milliseconds == 3:
                troubles.forget()
            for text in ("no such host", "no such port"):
                said = f"{text} (after {milliseconds}ms in state CONNECT)"
                troubles.note(KafkaError(KafkaError._RESOLVE, said))
                troubles.note(KafkaError(KafkaError._RESOLVE, said))
                troubles.note(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
        troubles.forget()

    assert [each.args for each in caplog.records] == [("no such host",), ("no such port",)] * 2
    assert troubles.last is None
