"""Who takes part in an application on Kafka: a compacted topic with a record of each instance.

The group's protocol has no room for what instances say of themselves (KIP-848), so each says it in
``<application>-instances``: its name is the key, what it has is the value, again and again as a
sign of life. Every reader reads all of it, and judges by its own clock who is alive (SRV-3).
"""

import json
from contextlib import suppress
from dataclasses import replace
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as KafkaPartition

from statestores.errors import BrokerError, StateStoreError
from statestores.files.strict_json import Fields, parse_object
from statestores.kafka.broker_errors import broker_error, settings_error
from statestores.kafka.client_settings import CLIENT_LOGGER, ClientSettings
from statestores.kafka.cluster import PATIENCE_SECONDS, Cluster
from statestores.kafka.internal_topics import InternalTopic, check_present
from statestores.kafka.readers import open_reader
from statestores.query.metadata import InstanceMetadata
from statestores.query.metadata.signs_of_life import DEFAULT_LEASE_MS, SignsOfLife
from statestores.spi.closing import Closing

if TYPE_CHECKING:
    from collections.abc import Mapping

_SETTINGS = {
    "cleanup.policy": "compact,delete",
    "retention.ms": str(60 * 60 * 1_000),  # a record is of use for as long as a lease
    "segment.bytes": str(1024 * 1024),  # what is being written is not compacted
    "message.timestamp.type": "CreateTime",
}
_READ_SECONDS = 0.2
_SAY_SECONDS = 5.0


def instances_topic(application: str) -> str:
    """Return the name of the topic in which the instances of *application* are."""
    return f"{application}-instances"


class TopicMembership(Closing):
    """The instances of an application: a `statestores.query.metadata.Membership`.

    For an instance, and for whoever asks from outside: `statestores.query.RoutedStores` takes it.
    """

    def __init__(
        self,
        application: str,
        bootstrap_servers: str,
        *,
        settings: "Mapping[str, Any] | None" = None,
        lease_ms: int = DEFAULT_LEASE_MS,
        replication_factor: int = -1,
    ) -> None:
        """Read who is there; the topic is created where it is missing (KFK-21).

        Args:
            application: The topology's name.
            bootstrap_servers: Brokers to begin with, as ``host:port``, separated by commas.
            settings: More settings of the clients, as `statestores.kafka.run` has them.
            lease_ms: How long an instance is believed without a sign of life.
            replication_factor: Copies of the topic, where it is created; -1: as the brokers say.

        Raises:
            InvalidArgumentError: The lease is none.
            InvalidOptionError: The clients refuse their settings.
            TopologyMismatchError: The topic is there, and kept in another way.
            BrokerError: The cluster does not answer.
        """
        self._signs = SignsOfLife(lease_ms=lease_ms)
        self._topic = instances_topic(application)
        clients = ClientSettings(bootstrap_servers, settings)
        self._create(Cluster(clients), replication_factor)
        try:
            self._producer = Producer(
                {**clients.producer(None), "linger.ms": 0, "message.timeout.ms": 5_000},
                logger=CLIENT_LOGGER,
            )
        except KafkaException as error:
            raise settings_error(error) from error
        self._consumer = open_reader(clients, application, {"fetch.wait.max.ms": 100})
        self._lock = Lock()
        self._own: set[str] = set()
        self._is_read = Event()
        self._stop = Event()
        self._consumer.assign([KafkaPartition(self._topic, 0, OFFSET_BEGINNING)])
        self._thread = Thread(target=self._read_on, name=f"read {self._topic}", daemon=True)
        self._thread.start()
        if not self._is_read.wait(PATIENCE_SECONDS):
            self.close()
            raise BrokerError(f"{self._topic!r} could not be read in {PATIENCE_SECONDS:.0f} s")

    def publish(self, instance: InstanceMetadata) -> None:
        """Say what *instance* has.

        Raises:
            BrokerError: The broker does not take it; the next sign of life may get through.
        """
        with self._lock:
            beat = self._signs.next_beat(instance.instance)
            self._own.add(instance.instance)  # known here before it comes back
            self._signs.see(beat, instance)
        self._say(instance.instance, {"beat": beat, "record": instance.as_json()})

    def leave(self, instance: str) -> None:
        """Say that *instance* is gone.

        Raises:
            BrokerError: The broker does not take it; without signs of life it is noticed as well.
        """
        with self._lock:
            self._own.discard(instance)
            self._signs.forget(instance)
        self._say(instance, None)

    def instances(self) -> "Mapping[str, InstanceMetadata]":
        """Return the instances that have given a sign of life within the lease."""
        with self._lock:
            return self._signs.alive()

    def close(self) -> None:
        """End reading; who has published is to leave first. Idempotent."""
        if not self._stop.is_set():
            self._stop.set()
            self._thread.join()
            self._consumer.close()

    def _create(self, cluster: Cluster, replication_factor: int) -> None:
        wanted = InternalTopic(name=self._topic, partitions=1, settings=_SETTINGS)
        if not cluster.partitions([self._topic]):
            cluster.create([wanted], replication_factor)
        found = cluster.partitions([self._topic])
        kept = {"cleanup.policy": _SETTINGS["cleanup.policy"]}  # the rest only saves space
        check_present([replace(wanted, settings=kept)], found, cluster.settings_of(found))

    def _say(self, instance: str, what: dict[str, Any] | None) -> None:
        failures: list[KafkaError] = []
        value = None if what is None else json.dumps(what, separators=(",", ":")).encode()
        try:
            self._producer.produce(
                self._topic,
                key=instance.encode(),
                value=value,
                partition=0,
                on_delivery=lambda error, _: None if error is None else failures.append(error),
            )
            waiting = self._producer.flush(_SAY_SECONDS)
        except (KafkaException, BufferError) as error:
            raise BrokerError(f"cannot write to {self._topic!r}: {error}") from error
        if failures:
            raise broker_error(f"write to {self._topic!r}", KafkaException(failures[0]))
        if waiting:
            raise BrokerError(f"the broker has not taken a record for {self._topic!r} in time")

    def _read_on(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(_READ_SECONDS)
            if message is None:
                continue
            error = message.error()
            if error is None:
                self._take(message.key() or b"", message.value())
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # its name
                self._is_read.set()
            else:
                CLIENT_LOGGER.warning("%s: %s", self._topic, error.str())

    def _take(self, key: bytes, value: bytes | None) -> None:
        """Note a record; one that cannot be read is that of nobody, and hides no other."""
        name = key.decode("utf-8", "replace")
        with self._lock, suppress(StateStoreError):
            if value is None:
                if name not in self._own:
                    self._signs.forget(name)
                return
            where = f"the record of {name!r} in {self._topic!r}"
            fields = Fields(parse_object(value, where), where)
            beat = fields.integer("beat")
            record = InstanceMetadata.from_fields(fields.inside("record"))
            if record.instance == name and name not in self._own:
                self._signs.see(beat, record)
