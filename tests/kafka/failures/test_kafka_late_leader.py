"""Records that a broker refuses, since it does not lead their partition yet, are not lost."""

import pytest
from confluent_kafka import Producer
from kafka_broker_process import BrokerProcess
from kafka_cluster import TestCluster
from kafka_late_leader import LateLeader

import statestores as ss
from statestores.kafka.client_settings import ClientSettings
from statestores.processing import Topic

_PATIENCE_SECONDS = 60.0
_RECORDS = 3


@pytest.mark.spec("KFK-38")
@pytest.mark.parametrize("transactional_id", [None, "late-leader"])
def test_what_is_refused_does_not_count_as_delivered(
    broker: BrokerProcess, cluster: TestCluster, transactional_id: str | None
) -> None:
    """The first records for a new topic were missing, once in some hundred topics.

    Some requests were on their way to the broker. It refused the first, because it had not heard
    that it led the partition, and took the second. The client concluded from this that the first
    was there, too: exactly once was at most once, and a test waited for records in vain.
    """
    topic = Topic(cluster.name("late"), key=ss.utf8, value=ss.int64, partitions=1)
    cluster.create(topic)
    assert cluster.read(topic) == []  # by now, the broker leads it
    settings = ClientSettings(broker.proxy_address, {"reconnect.backoff.max.ms": 200})
    with LateLeader(broker.proxy_address, broker.behind_address, topic.name) as leader:
        producer = Producer({**settings.producer(transactional_id), "log_level": 0})
        if transactional_id is not None:
            producer.init_transactions(_PATIENCE_SECONDS)
            producer.begin_transaction()
        for number in range(_RECORDS):
            producer.produce(topic.name, number.to_bytes(8, "big"), b"k", 0)
            assert leader.is_asked.wait(_PATIENCE_SECONDS)
        if transactional_id is None:
            producer.flush(_PATIENCE_SECONDS)
        else:
            producer.commit_transaction(_PATIENCE_SECONDS)

    assert [record.value for record in cluster.read(topic)] == [*range(_RECORDS)]
