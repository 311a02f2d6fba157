"""Where the group goes on: what it has committed, and where it begins what it has not."""

from collections.abc import Collection, Iterable, Mapping

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from statestores.errors import OffsetOutOfRangeError
from statestores.kafka.broker_errors import broker_error, error_of
from statestores.kafka.client_settings import CLIENT_LOGGER, OffsetReset
from statestores.kafka.cluster import Cluster, may_pass
from statestores.spi import TopicPartition

_ASK_SECONDS = 1.0


class GroupOffsets:
    """Asks by a consumer of one's own, which names the group and is no member."""

    def __init__(
        self,
        consumer: Consumer,
        cluster: Cluster,
        *,
        offset_reset: OffsetReset,
        internal: Collection[str],
    ) -> None:
        """Topics that are *internal* begin where they begin, whatever the reset."""
        self._consumer = consumer
        self._cluster = cluster
        self._internal = frozenset(internal)
        self._offset_reset: OffsetReset = offset_reset

    def committed(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int] | None:
        """Return the next offsets of those of *places* that have one.

        ``None`` while a transaction is about to say it, or nobody answers.

        Raises:
            BrokerError: The broker refuses.
        """
        asked = [KafkaPartition(*place) for place in places]
        try:
            committed = self._consumer.committed(asked, timeout=_ASK_SECONDS)
        except KafkaException as error:
            if may_pass(error_of(error)):
                return None
            raise broker_error("read the group's committed offsets", error) from error
        for found in committed:
            if found.error is not None:
                if may_pass(found.error):
                    return None
                raise broker_error(
                    f"read the committed offset of {found.topic!r}", KafkaException(found.error)
                )
        return {
            TopicPartition(found.topic, found.partition): found.offset
            for found in committed
            if found.offset >= 0
        }

    def with_records(self, committed: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the next offsets, moved to the first record where theirs are deleted (KFK-37).

        Raises:
            OffsetOutOfRangeError: There are such, and the reset is an error.
            BrokerError: The cluster does not answer.
        """
        known = dict(committed)
        for place, start in self._cluster.starts(known).items():
            if known[place] >= start:
                continue
            what = (
                f"the group's next offset in partition {place.partition} of {place.topic!r} is "
                f"{known[place]}, and its records begin at {start}: what was between was deleted "
                "before it was processed"
            )
            if self._offset_reset == "error":
                raise OffsetOutOfRangeError(
                    f"{what}; choose offset_reset='earliest' to go on there, or set the group's "
                    "offsets, and have the topic keep records for longer"
                )
            CLIENT_LOGGER.warning("%s; have the topic keep records for longer", what)
            known[place] = start
        return known

    def must_say(self, begun: Iterable[TopicPartition]) -> bool:
        """Whether the group is to be told where *begun* began: whoever asks later begins later."""
        return self._offset_reset == "latest" and any(
            place.topic not in self._internal for place in begun
        )

    def beginnings(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where *places* begin of which nothing is committed.

        Raises:
            BrokerError: The cluster does not answer.
        """
        wanted = list(places)
        # What waits there is the application's own, also from before a task's first time.
        internal = [place for place in wanted if place.topic in self._internal]
        others = [place for place in wanted if place.topic not in self._internal]
        begun = self._cluster.beginnings(others, self._offset_reset)
        return begun | self._cluster.starts(internal)
