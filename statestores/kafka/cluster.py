"""What is asked of a Kafka cluster outside the flow of records: topics, their ends, old records."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, Uuid
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from statestores.kafka.broker_errors import (
    StoppedWaitingError,
    broker_error,
    error_of,
    settings_error,
)
from statestores.kafka.client_settings import CLIENT_LOGGER, ClientSettings, OffsetReset
from statestores.kafka.client_troubles import told_troubles
from statestores.kafka.internal_topics import InternalTopic
from statestores.spi import TopicPartition
from statestores.stopping import StopRequest

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")

_EARLIEST: Any = OffsetSpec.earliest()  # type: ignore[no-untyped-call]  # the client's
_LATEST: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]

REQUEST_SECONDS = 10.0
"""How long one request may take."""

PATIENCE_SECONDS = 60.0
"""How long requests are repeated that may succeed later: longer than a broker takes to restart."""

_NEW_SECONDS = 10.0
"""How long a topic may be unknown to the one that is asked, which another broker has created."""

_FORBIDDEN = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)
_ENDLESS_MS = str((1 << 63) - 1)
_ANY_TIME = {
    "message.timestamp.before.max.ms": _ENDLESS_MS,
    "message.timestamp.after.max.ms": _ENDLESS_MS,
}
"""So that what a topology keeps for itself may be of any time, as its stores are (KFK-35)."""
_PAUSE_SECONDS = 0.05
_SHORT_SECONDS = 2.0


NO_ID = 22 * "A"
"""What a topic has on brokers before 2.8, which know no ids."""


def spelled(topic_id: Uuid) -> str:
    """Return a topic's id as Kafka spells it; the client has slashes in one of three.

    >>> spelled(Uuid(-1, -17))
    '____________________7w'
    """
    return str(topic_id).replace("+", "-").replace("/", "_")


class Cluster:
    """Any thread may use it."""

    def __init__(self, settings: ClientSettings, stopping: StopRequest | None = None) -> None:
        """Make the client; nothing is asked yet, and nothing twice once *stopping* is set.

        Raises:
            InvalidOptionError: The client refuses its settings.
        """
        try:
            self._settings, self._troubles = told_troubles(settings.admin())
            self._admin = self._client()
        except KafkaException as error:
            raise settings_error(error) from error
        self._stopping = stopping or StopRequest()
        self._deletions: list[Future[Any]] = []

    def _client(self) -> AdminClient:
        return AdminClient(self._settings, logger=CLIENT_LOGGER)

    def partitions(self, topics: Iterable[str]) -> dict[str, int]:
        """Return how many partitions each of *topics* has that is there.

        Raises:
            BrokerError: The cluster does not answer, or does not let us look.
        """
        names = sorted(set(topics))

        def ask() -> dict[str, int]:
            found = {}
            described = self._admin.describe_topics(
                TopicCollection(names), request_timeout=REQUEST_SECONDS
            )
            for name, future in described.items():
                try:
                    found[name] = len(future.result().partitions)
                except KafkaException as error:
                    if error_of(error).code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                        raise
            return found

        return self._repeated("look for the topics " + ", ".join(names), ask) if names else {}

    def ids_of(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the ids of *topics*, which are there: each topic has one that no other has had.

        They are spelled as Kafka's own tools do, and may be names of files.

        Raises:
            BrokerError: As `partitions`.
        """
        names = sorted(set(topics))

        def ask() -> dict[str, str]:
            described = self._admin.describe_topics(
                TopicCollection(names), request_timeout=REQUEST_SECONDS
            )
            return {name: spelled(future.result().topic_id) for name, future in described.items()}

        doing = "look for the topics " + ", ".join(names)
        return self._repeated(doing, ask, unknown_seconds=_NEW_SECONDS) if names else {}

    def settings_of(
        self, topics: Iterable[str], *, as_allowed: bool = False
    ) -> dict[str, dict[str, str]]:
        """Return the settings of *topics*, which are there; of those we may see, if *as_allowed*.

        Raises:
            BrokerError: As `partitions`.
        """
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in topics]

        def ask() -> dict[str, dict[str, str]]:
            asked = self._admin.describe_configs(resources, request_timeout=REQUEST_SECONDS)
            found = {}
            for resource, future in asked.items():
                try:
                    entries = future.result()
                except KafkaException as error:
                    if not (as_allowed and error_of(error).code() in _FORBIDDEN):
                        raise
                else:
                    found[resource.name] = {name: each.value for name, each in entries.items()}
            return found

        doing = "read the settings of topics"
        return self._repeated(doing, ask, unknown_seconds=_NEW_SECONDS) if resources else {}

    def create(self, topics: Iterable[InternalTopic], replication_factor: int) -> None:
        """Create *topics*, and wait until they are there. Another instance may be faster.

        Raises:
            BrokerError: The cluster refuses, or does not answer.
        """
        wanted = {topic.name: topic for topic in topics}
        more = dict(_ANY_TIME)

        def ask() -> None:
            missing = [
                NewTopic(
                    topic.name,
                    num_partitions=topic.partitions,
                    replication_factor=replication_factor,
                    config={**topic.settings, **more},
                )
                for topic in wanted.values()
            ]
            for future in self._admin.create_topics(
                missing, request_timeout=REQUEST_SECONDS
            ).values():
                try:
                    future.result()
                except KafkaException as error:
                    code = error_of(error).code()
                    if code == KafkaError.INVALID_CONFIG and more:
                        more.clear()  # a broker before Kafka 3.6, which takes any time anyway
                        ask()
                    elif code != KafkaError.TOPIC_ALREADY_EXISTS:
                        raise

        if not wanted:
            return
        self._repeated("create the topics " + ", ".join(wanted), ask)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.partitions(wanted).keys() != wanted.keys():
            if time.monotonic() > deadline:
                raise broker_error(
                    "find the topics that were created",
                    KafkaException(KafkaError(KafkaError._TIMED_OUT)),  # noqa: SLF001  # its name
                )
            time.sleep(_PAUSE_SECONDS)

    def starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset that each of *partitions* still has.

        Raises:
            BrokerError: As `partitions`.
        """
        return self._offsets(partitions, _EARLIEST, committed=False)

    def ends(
        self, partitions: Iterable[TopicPartition], *, committed: bool
    ) -> dict[TopicPartition, int]:
        """Return the offset that comes after the last of each of *partitions*.

        With *committed*, the last stable one: an open transaction hides what follows it. Else the
        high watermark.

        Raises:
            BrokerError: As `partitions`.
        """
        return self._offsets(partitions, _LATEST, committed=committed)

    def end_now(self, partition: TopicPartition) -> int:
        """Return the high watermark of *partition*, asked once, for whoever cannot wait.

        Raises:
            KafkaException: There is no answer in a short time.
        """
        return self._offset_now(partition, _LATEST, IsolationLevel.READ_UNCOMMITTED)

    def decided_now(self, partition: TopicPartition) -> tuple[int, int]:
        """Return the first offset that *partition* has, and the last stable one, asked once.

        Raises:
            KafkaException: There is no answer in a short time.
        """
        level = IsolationLevel.READ_COMMITTED
        return (
            self._offset_now(partition, _EARLIEST, level),
            self._offset_now(partition, _LATEST, level),
        )

    def _offset_now(self, partition: TopicPartition, which: Any, level: IsolationLevel) -> int:
        self._admin.poll(0)
        [asked] = self._admin.list_offsets(
            {KafkaPartition(*partition): which},
            isolation_level=level,
            request_timeout=_SHORT_SECONDS,
        ).values()
        offset: int = asked.result().offset
        if offset < 0:
            raise KafkaException(KafkaError(KafkaError.OFFSET_NOT_AVAILABLE))
        return offset

    def beginnings(
        self, partitions: Iterable[TopicPartition], reset: OffsetReset
    ) -> dict[TopicPartition, int]:
        """Return where *partitions* begin of which nothing is committed."""
        if reset == "latest":
            return self.ends(partitions, committed=True)
        return self.starts(partitions)

    def _offsets(
        self, partitions: Iterable[TopicPartition], which: Any, *, committed: bool
    ) -> dict[TopicPartition, int]:
        asked = {KafkaPartition(*each): which for each in partitions}
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED

        def ask() -> dict[TopicPartition, int]:
            found = self._admin.list_offsets(
                asked, isolation_level=level, request_timeout=REQUEST_SECONDS
            )
            try:
                offsets = {
                    TopicPartition(place.topic, place.partition): future.result().offset
                    for place, future in found.items()
                }
            except KafkaException as error:
                if error_of(error).code() == KafkaError.FENCED_LEADER_EPOCH:
                    # The client asks with what it knew before the broker failed, again and again.
                    self._admin = self._client()
                raise
            if any(offset < 0 for offset in offsets.values()):
                # Seen of a broker that has just started: no error, and no offset either.
                raise KafkaException(KafkaError(KafkaError.OFFSET_NOT_AVAILABLE))
            return offsets

        return self._repeated("ask for the offsets of partitions", ask) if asked else {}

    def descriptions(self, topics: Iterable[str]) -> "dict[str, Future[Any]]":
        """Ask for the partitions of *topics*, which are some, for whoever does not wait."""
        self._admin.poll(0)
        names = TopicCollection(list(topics))
        return self._admin.describe_topics(names, request_timeout=REQUEST_SECONDS)

    def members(self, group: str) -> "Future[Any]":
        """Ask for the members of *group*."""
        self._admin.poll(0)
        [asked] = self._admin.describe_consumer_groups(
            [group], request_timeout=REQUEST_SECONDS
        ).values()
        return asked

    def delete_before(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Have the records before *offsets* deleted, some time; failures go to the log.

        They are tried again, since the offsets only grow.
        """
        for done in [each for each in self._deletions if each.done()]:
            self._deletions.remove(done)
            failure = done.exception()
            if failure is not None:
                CLIENT_LOGGER.warning("processed records could not be deleted: %s", failure)
        asked = [KafkaPartition(*place, offset) for place, offset in offsets.items()]
        if asked:
            self._deletions += self._admin.delete_records(asked).values()

    def _repeated(self, doing: str, ask: Callable[[], T], *, unknown_seconds: float = 0.0) -> T:
        answer = repeated(doing, ask, self._why, self._stopping, unknown_seconds=unknown_seconds)
        self._admin.poll(0)
        self._troubles.forget()
        return answer

    def _why(self) -> str | None:
        """Return why there is no answer, as far as the client has said."""
        self._admin.poll(0)  # it tells its troubles in here, and nowhere else
        return self._troubles.last


def repeated(
    doing: str,
    ask: Callable[[], T],
    why: Callable[[], str | None] = lambda: None,
    stopping: StopRequest | None = None,
    *,
    unknown_seconds: float = 0.0,
) -> T:
    """Return what *ask* returns, which is tried again while its failure may pass.

    *why* is asked after each failure for what the client has said of it. A topic that is not known
    may be a new one, for *unknown_seconds*.

    Raises:
        StoppedWaitingError: It has failed, and *stopping* is set.
        BrokerError: It fails for good, or for too long.
    """
    stopping = stopping or StopRequest()
    began = time.monotonic()
    while True:
        try:
            return ask()
        except KafkaException as error:
            reason = why()
            failure = error_of(error)
            is_unknown = failure.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
            patience = unknown_seconds if is_unknown else PATIENCE_SECONDS
            passes = may_pass(failure) or is_unknown
            if not passes or time.monotonic() - began >= patience:
                raise broker_error(doing, error, why=reason) from error
            if stopping.wait(_PAUSE_SECONDS):
                raise StoppedWaitingError(str(broker_error(doing, error, why=reason))) from error


_PASSING = frozenset(
    {
        KafkaError._TIMED_OUT,  # noqa: SLF001  # librdkafka's own codes begin so
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._WAIT_COORD,  # noqa: SLF001
        KafkaError._NOENT,  # noqa: SLF001  # no leader yet, of an admin client
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_CONTROLLER,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.NETWORK_EXCEPTION,
    }
)


def may_pass(error: KafkaError) -> bool:
    """Whether the same request may succeed later."""
    return error.retriable() or error.code() in _PASSING
