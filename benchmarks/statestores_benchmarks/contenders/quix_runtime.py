"""Quix Streams' own runtime, its `Application` as it is, with memory in the place of the broker.

What talks to a broker is replaced, and nothing else: the client inside its producer keeps what is
produced, and its consumer polls messages that are there already, as objects with the methods of
`confluent_kafka.Message`. Making those, sending, fetching and acknowledging are not in the figures,
and neither are changelog topics, which are switched off: all of it to its advantage. Its loop,
(de)serializers, composed `StreamingDataFrame`, state in RocksDB and checkpoints are its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NEEDS = ("quixstreams",)

_GROUP = "bench"
_NOWHERE = "nowhere:1"
"""The broker's address. Nothing asks for it."""


@dataclass(slots=True)
class BrokerMessage:
    """A message as the client gives it."""

    name: str
    key_bytes: bytes | None
    value_bytes: bytes
    time_ms: int
    at: int

    def topic(self) -> str:
        """Return the topic."""
        return self.name

    def partition(self) -> int:
        """Return the partition, of which there is one."""
        return 0

    def offset(self) -> int:
        """Return the offset."""
        return self.at

    def key(self) -> bytes | None:
        """Return the key."""
        return self.key_bytes

    def value(self) -> bytes:
        """Return the value."""
        return self.value_bytes

    def timestamp(self) -> tuple[int, int]:
        """Return that the producer has set the time, and the time."""
        return 1, self.time_ms

    def headers(self) -> None:
        """Return that there are none."""

    def error(self) -> None:
        """Return that there is none."""

    def leader_epoch(self) -> int | None:
        """Return that there is none."""
        return None

    def __len__(self) -> int:
        return len(self.value_bytes)


class Produced:
    """The client of a producer: it keeps what it is given."""

    instantiated = True

    def __init__(self) -> None:
        self.records: list[tuple[Any, Any]] = []
        """The keys and values that were produced, in order."""

    def produce(self, topic: str, value: Any, key: Any = None, **more: Any) -> None:
        """Keep a message."""
        del topic, more
        self.records.append((key, value))

    def poll(self, timeout: float = 0) -> None:
        """Deliver nothing."""

    def flush(self, timeout: float | None = None) -> int:
        """Return that nothing is left."""
        del timeout
        return 0

    def _broker_available(self) -> None: ...

    def raise_if_broker_unavailable(self, timeout: float) -> None:
        """Be available."""


def application(
    directory: Path, messages: Sequence[BrokerMessage], *, commit_every: int
) -> tuple[Any, Produced]:
    """Return an application that processes *messages* and stops, and what it has produced.

    It commits every *commit_every* messages, like the others that it is compared with.
    """
    from quixstreams import Application  # noqa: PLC0415  # it may be absent
    from quixstreams.internal_producer import InternalProducer  # noqa: PLC0415  # the same

    produced = Produced()

    class Stood(Application):  # type: ignore[misc]  # a class without types
        def _get_internal_producer(self, *_: Any, **__: Any) -> Any:
            producer = InternalProducer(_NOWHERE)
            producer._producer = produced  # noqa: SLF001  # the client: the broker's place
            return producer

        def _get_internal_consumer(self, *_: Any, **__: Any) -> Any:
            return _consumer(messages, self.stop)

        def _setup_signal_handlers(self) -> None: ...

    app = Stood(
        broker_address=_NOWHERE,
        consumer_group=_GROUP,
        state_dir=str(directory),
        auto_offset_reset="earliest",
        commit_interval=3_600,
        commit_every=commit_every,
        use_changelog_topics=False,
        topic_manager=_topic_manager(),
        loglevel=None,
    )
    return app, produced


def _consumer(  # noqa: C901  # a class of methods that do nothing
    messages: Sequence[BrokerMessage], stop: Callable[[], object]
) -> Any:
    """Return a consumer that polls *messages*, and then calls *stop*."""
    from confluent_kafka import TopicPartition  # noqa: PLC0415  # it may be absent
    from quixstreams.internal_consumer import InternalConsumer  # noqa: PLC0415  # the same

    given = iter(messages)

    class Consumer(InternalConsumer):  # type: ignore[misc]  # a class without types
        def subscribe(self, topics: list[Any], on_assign: Callable[..., Any], **_: Any) -> None:
            self._topics = {topic.name: topic for topic in topics}
            on_assign(self, [TopicPartition(topic.name, 0) for topic in topics])

        def poll(self, timeout: float | None = None) -> Any:
            del timeout
            message = next(given, None)
            if message is None:
                stop()
            return message

        def assign(self, partitions: Any) -> None: ...
        def pause(self, partitions: Any) -> None: ...
        def resume(self, partitions: Any) -> None: ...
        def close(self) -> None: ...
        def _broker_available(self) -> None: ...
        def raise_if_broker_unavailable(self, timeout: float) -> None: ...
        def commit(self, **_: Any) -> list[Any]:
            return []

        def committed(self, partitions: list[Any], timeout: float | None = None) -> list[Any]:
            del timeout
            return partitions

        def get_watermark_offsets(self, partition: Any, **_: Any) -> tuple[int, int]:
            del partition
            return 0, len(messages)

    return Consumer(_NOWHERE, _GROUP, "earliest", auto_commit_enable=False)


def _topic_manager() -> Any:
    """Return what finds every topic on the broker, with one partition."""
    from quixstreams.models.topics import TopicConfig, TopicManager  # noqa: PLC0415  # it may be absent

    unlimited = {"retention.ms": "-1", "retention.bytes": "-1"}
    there = TopicConfig(num_partitions=1, replication_factor=1, extra_config=unlimited)

    class Admin:
        def inspect_topics(self, names: list[str], timeout: float) -> dict[str, Any]:
            del timeout
            return dict.fromkeys(names, there)

    return TopicManager(topic_admin=Admin(), consumer_group=_GROUP)
