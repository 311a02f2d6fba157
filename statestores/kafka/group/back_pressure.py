"""How much may wait of what is read: a partition that is ahead of its task is not read meanwhile.

Bounds are of records and of bytes (KFK-32). The bytes of an instance are shared by its partitions
alike, so none that is empty ever waits for room, and a task that waits for one partition with
another's records in its hands always goes on.
"""

from collections.abc import Collection, Iterable, Mapping

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from statestores.kafka.tasks.kafka_task import KafkaTask
from statestores.spi import TopicPartition

_MOST_RECORDS = 10_000
"""How many records of a partition wait when it is paused."""
_MOST_BYTES = 128 << 20
"""How many bytes of all partitions wait when they are paused."""
_LEAST_BYTES = 1 << 20
"""What each partition may have waiting, however many there are."""
_RESUMED_AT = 4
"""A partition is read again when a fourth of its bounds waits."""
_WAKE_SECONDS = 0.2


class BackPressure:
    """Used by the thread that polls."""

    def __init__(self, consumer: Consumer) -> None:
        """Hold nothing back."""
        self._consumer = consumer
        self.held: set[TopicPartition] = set()
        """Partitions of running tasks that are not read now."""

    def hold(self, places: Iterable[TopicPartition]) -> None:
        """Read none of *places* until little of them waits, and `balance` is called."""
        new = [place for place in places if place not in self.held]
        if new:
            self._consumer.pause([KafkaPartition(*place) for place in new])
            self.held.update(new)

    def balance(self, tasks: Mapping[TopicPartition, KafkaTask]) -> None:
        """Hold back those partitions of *tasks* of which too much waits, and read the others."""
        most_bytes = max(_LEAST_BYTES, _MOST_BYTES // max(1, len(tasks)))
        full, free = [], []
        for place, task in tasks.items():
            records, size = task.waiting(place), task.waiting_bytes(place)
            if place not in self.held:
                if records > _MOST_RECORDS or size > most_bytes:
                    full.append(place)
            elif records * _RESUMED_AT <= _MOST_RECORDS and size * _RESUMED_AT <= most_bytes:
                free.append(place)
        self.hold(full)
        if free:
            self._consumer.resume([KafkaPartition(*place) for place in free])
            self.held.difference_update(free)
            wake(self._consumer, free)

    def keep(self, places: Collection[TopicPartition]) -> None:
        """Forget what is not among *places*, which are read here still."""
        self.held.intersection_update(places)


def wake(consumer: Consumer, resumed: Iterable[TopicPartition]) -> None:
    """Have *resumed* partitions read at once.

    The client's threads look for what was resumed once a second, or when they have to send
    something: this is something.
    """
    for place in resumed:
        try:
            consumer.get_watermark_offsets(KafkaPartition(*place), _WAKE_SECONDS)
        except KafkaException:
            return  # then it takes that second
