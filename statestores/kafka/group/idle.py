"""Whether the whole group has nothing left to process: when a run until idle may end (KFK-20).

One instance does not know it of its own partitions alone: what it has just written through a
repartition topic may wait for another instance, which ends, and whose partitions come back. So the
partitions of others are judged by what the group has committed, whoever has them.
"""

import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from statestores.kafka.broker_errors import broker_error
from statestores.kafka.client_settings import ClientSettings, OffsetReset
from statestores.kafka.cluster import Cluster, may_pass
from statestores.kafka.messages import offset_of, place_of
from statestores.kafka.plan import Plan
from statestores.kafka.readers import open_reader
from statestores.kafka.tasks.group_offsets import GroupOffsets
from statestores.kafka.undecided import UndecidedEnds
from statestores.spi import TopicPartition

_LOOK_SECONDS = 0.5
"""How often the partitions of others are looked at."""
_READ_SECONDS = 2.0
"""How long one look may keep the thread that polls."""


class GroupIdle:
    """Used by the thread that polls."""

    def __init__(
        self,
        plan: Plan,
        cluster: Cluster,
        settings: ClientSettings,
        *,
        offset_reset: OffsetReset,
    ) -> None:
        """Know nothing yet; a consumer is made for the first look at partitions of others."""
        self._plan = plan
        self._inputs = plan.inputs
        self._cluster = cluster
        self._settings = settings
        self._offset_reset: OffsetReset = offset_reset
        self._consumer: Consumer | None = None
        self._undecided = UndecidedEnds(cluster)
        self._due = 0.0

    def is_reached(self, reached: Mapping[TopicPartition, int]) -> bool:
        """Whether nothing is left, where all that came of one's own has been read to *reached*.

        It may take several calls until that is known. Where each partition was read to is found out
        before all ends are asked for, so what comes meanwhile is seen.

        Raises:
            BrokerError: The cluster does not answer, or refuses.
        """
        others = self._inputs - reached.keys()
        if others:
            now = time.monotonic()
            if now < self._due:
                return False
            self._due = now + _LOOK_SECONDS
            processed = self._processed_by_others(others)
            if processed is None:
                return False
            reached = {**processed, **reached}
        ends = self._cluster.ends(reached, committed=False)
        return self._undecided.are_reached(reached, ends)

    def close(self) -> None:
        """Close the consumer."""
        if self._consumer is not None:
            self._consumer.close()

    def _processed_by_others(
        self, places: frozenset[TopicPartition]
    ) -> dict[TopicPartition, int] | None:
        """Return where each of *places* is read to; ``None`` while a record there waits."""
        if self._consumer is None:
            self._consumer = open_reader(self._settings, self._plan.application)
        offsets = GroupOffsets(
            self._consumer,
            self._cluster,
            offset_reset=self._offset_reset,
            internal=self._plan.internal,
        )
        known = offsets.committed(places)
        if known is None:
            return None
        known |= offsets.beginnings(places - known.keys())
        ends = self._cluster.ends(places, committed=True)
        # Behind a last record stand the marks of its transaction, which nobody processes.
        unread = {place: offset for place, offset in known.items() if offset < ends[place]}
        ahead = self._read(self._consumer, unread)
        return None if ahead is None else known | ahead

    def _read(
        self, consumer: Consumer, unread: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int] | None:
        found: dict[TopicPartition, int] = {}
        deadline = time.monotonic() + _READ_SECONDS
        consumer.assign([KafkaPartition(*place, offset) for place, offset in unread.items()])
        try:
            while len(found) < len(unread) and time.monotonic() < deadline:
                for message in consumer.consume(1, _LOOK_SECONDS):
                    error = message.error()
                    if error is None:
                        return None
                    if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # its name
                        place = place_of(message)
                        found[place] = offset_of(message)
                    elif not may_pass(error):
                        raise broker_error("look at what others process", KafkaException(error))
        finally:
            consumer.unassign()
        return found if len(found) == len(unread) else None
