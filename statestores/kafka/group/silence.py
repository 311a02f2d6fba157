"""Partitions that should give something and do not: the client has forgotten them (KFK-39).

librdkafka numbers what it is told of a partition, and forgets what comes in the wrong order from
two threads: a start, a seek, a resume (see the caveats). Nobody is told, and nothing comes any
more. So who is silent is asked for, one a second at most, and sought again if there is more.
"""

import time
from collections.abc import Collection, Mapping

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from statestores.errors import InstanceFencedError
from statestores.kafka.client_settings import CLIENT_LOGGER
from statestores.kafka.tasks.kafka_task import KafkaTask
from statestores.spi import TopicPartition

_LOOK_SECONDS = 1.0
_SILENT_SECONDS = 30.0
"""After how long a silent partition is asked for, and twice as long after each seek."""
_MOST_SEEKS = 2
"""After so many without effect, only another client can help."""
_ASK_SECONDS = 0.5


class Silence:
    """Used by the thread that polls."""

    def __init__(self, consumer: Consumer) -> None:
        """Know of no partition yet."""
        self._consumer = consumer
        self._since: dict[TopicPartition, float] = {}
        self._seeks: dict[TopicPartition, int] = {}
        self._due = 0.0

    def heard(self, place: TopicPartition) -> None:
        """Note that something has come of *place*, be it that it ends."""
        self._since[place] = time.monotonic()
        self._seeks.pop(place, None)

    @property
    def is_due(self) -> bool:
        """Whether `find` is to be called."""
        return time.monotonic() >= self._due

    def find(
        self,
        tasks: Mapping[TopicPartition, KafkaTask],
        ends: Mapping[TopicPartition, int],
        held: Collection[TopicPartition],
    ) -> TopicPartition | None:
        """Return a partition of *tasks* that is to be sought again, if there is one.

        Those *held* are not read now. *ends* says where those end whose end has come since they
        were last sought.

        Raises:
            InstanceFencedError: Seeks have not helped.
        """
        now = time.monotonic()
        self._due = now + _LOOK_SECONDS
        self._since = {p: self._since.get(p, now) for p in tasks if p not in held}
        self._seeks = {p: count for p, count in self._seeks.items() if p in self._since}
        place = min(self._since, key=self._asked_at, default=None)
        if place is None or self._asked_at(place) > now:
            return None
        silent = now - self._since[place]
        self._since[place] = now
        try:
            _, end = self._consumer.get_watermark_offsets(KafkaPartition(*place), _ASK_SECONDS)
        except KafkaException as error:  # nobody answers: that is why
            CLIENT_LOGGER.debug("it is not known where %s ends: %s", place, error)
            return None
        if place in ends and end <= max(ends[place], tasks[place].accepted[place]):
            self._seeks.pop(place, None)
            return None
        self._seeks[place] = self._seeks.get(place, 0) + 1
        what = f"nothing has come of {place} for {silent:.0f} s, which ends at offset {end}"
        if self._seeks[place] > _MOST_SEEKS:
            raise InstanceFencedError(f"{what}, and seeks have not helped: another client reads on")
        CLIENT_LOGGER.warning("%s; it is sought again", what)
        return place

    def _asked_at(self, place: TopicPartition) -> float:
        return self._since[place] + _SILENT_SECONDS * (1 << self._seeks.get(place, 0))
