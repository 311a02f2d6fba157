"""Cases on a Kafka cluster: real topics and transactions, and a run until idle for each batch.

Each run begins in an empty directory, so that what a store is comes from its changelog topic alone.
It needs the extra ``kafka``.
"""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, NewTopic

from statestores import open_store
from statestores.errors import BrokerError
from statestores.kafka import KafkaRunner
from statestores.kafka.cluster import repeated
from statestores.kafka.messages import record_of, timestamp_and_headers
from statestores.kafka.readers import consumed
from statestores.processing import Record, Topology
from statestores.processing.serdes import decoded, encoded
from statestores.spi import Durability
from statestores_conformance.topology_vectors.driver_of_runs import DriverOfRuns

_SECONDS = 60.0
_READER = {
    "group.id": "statestores-conformance",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 10,
}
_RUN = {"consumer.fetch.wait.max.ms": 20, "producer.linger.ms": 0}


class KafkaDriver(DriverOfRuns):
    """Runs a topology on a cluster.

    The topology and its topics have the *prefix* of the case's run, so that cases do not meet.
    """

    def __init__(
        self, topology: Topology, directory: Path, backend: str, bootstrap_servers: str, prefix: str
    ) -> None:
        """Begin with an empty directory."""
        super().__init__(topology, directory, backend)
        self._address, self._prefix = bootstrap_servers, prefix
        self._seen: dict[str, int] = {}
        self._runs = 0
        client: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, "log_level": 3}
        # Idempotent: what is sent again must not come behind what was sent after it. And one at a
        # time: of more, the first may be lost (KFK-38).
        alone = {"enable.idempotence": True, "max.in.flight.requests.per.connection": 1}
        self._producer = Producer({**client, "linger.ms": 0, **alone})
        self._consumer = Consumer({**client, **_READER})
        self._stack.callback(self._consumer.close)

    def __enter__(self) -> Self:
        """Create the case's topics, and open what has to be there before the first record."""
        internal = {topic.name for topic in self._graph.internal_topics}
        wanted = [
            NewTopic(name, num_partitions=1) for name in self._graph.topics if name not in internal
        ]
        admin = AdminClient({"bootstrap.servers": self._address})
        for future in admin.create_topics(wanted).values():
            future.result(_SECONDS)
        deadline = time.monotonic() + _SECONDS
        while not {topic.topic for topic in wanted} <= admin.list_topics().topics.keys():
            if time.monotonic() > deadline:
                raise BrokerError(f"the cluster does not show the topics that it made: {wanted}")
        return super().__enter__()

    def read_all(self, topic: str) -> list[Record[Any, Any]]:
        self.settle()
        name = self._prefix + topic
        opened = self._graph.topics[name]
        place = KafkaPartition(name, 0, self._seen.get(name, 0))
        self._consumer.assign([place])
        _, end = repeated(  # of a topic that is new, the broker may not know yet that it leads it
            f"ask where {name!r} ends",
            lambda: self._consumer.get_watermark_offsets(place, _SECONDS),
        )
        found = []
        while self._seen.get(name, 0) < end:  # it may take moments until it is known as committed
            for message in consumed(self._consumer, 100, 0.1):
                error = message.error()
                self._seen[name] = (message.offset() or 0) + (error is None)
                if error is None:
                    raw = record_of(message)
                    key, value = decoded(opened.key, raw.key), decoded(opened.value, raw.value)
                    found.append(Record(key, value, raw.time_ms, raw.headers))
                elif error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001  # its name
                    raise KafkaException(error)
        return found

    @property
    def _state(self) -> Path:
        return self._directory / str(self._runs)

    def _append(self, topic: str, records: Iterable[Record[Any, Any]]) -> None:
        opened = self._graph.topics[self._prefix + topic]
        for record in records:
            stamp, headers = timestamp_and_headers(record.time_ms, record.headers)
            self._producer.produce(
                opened.name,
                encoded(opened.value, record.value),
                encoded(opened.key, record.key),
                0,
                timestamp=stamp,
                headers=headers or [],
            )
        self._producer.flush()

    def _open_store(self, name: str) -> Any:
        opened = open_store(
            self._state / name / "0", self._graph.stores[name], backend=self._backend
        )
        return self._stack.enter_context(opened)

    def _run(self) -> None:
        self._runs += 1
        runner = KafkaRunner(
            self._topology,
            self._address,
            self._state,
            backend=self._backend,
            durability=Durability.PROCESS_CRASH,
            settings=_RUN,
            until="idle",
            clock_ms=lambda: self._wall_ms,
        )
        progress = runner.run()
        self.dropped_total += progress.dropped
