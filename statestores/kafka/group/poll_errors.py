"""What a member of the group is given instead of a record: what passes, and what does not."""

from confluent_kafka import KafkaError, KafkaException

from statestores.errors import InstanceFencedError, OffsetOutOfRangeError
from statestores.kafka.broker_errors import broker_error
from statestores.kafka.client_settings import CLIENT_LOGGER
from statestores.kafka.cluster import may_pass
from statestores.spi import TopicPartition


def check_passes(error: KafkaError, place: TopicPartition) -> None:
    """Accept an error that passes on its own, which came instead of a record of *place*.

    Raises:
        OffsetOutOfRangeError: There is nothing at the group's offset.
        InstanceFencedError: The group has given up this member.
        BrokerError: It stays.
    """
    if error.code() in {KafkaError._NO_OFFSET, KafkaError._AUTO_OFFSET_RESET}:  # noqa: SLF001  # their names
        raise OffsetOutOfRangeError(
            f"{place.topic!r} has nothing at the group's offset in partition "
            f"{place.partition}: {error.str()}; choose offset_reset='earliest' or 'latest', or "
            "set the group's offsets"
        )
    if error.code() == KafkaError._MAX_POLL_EXCEEDED:  # noqa: SLF001  # its name
        raise InstanceFencedError(
            "the group has given up this instance, because nothing was polled for longer than "
            f"max.poll.interval.ms ({error.str()}): a record, a timer or a commit took so "
            "long; raise the setting 'consumer.max.poll.interval.ms' if they have to"
        )
    if error.fatal() or not may_pass(error):
        raise broker_error("read as a member of the group", KafkaException(error))
    CLIENT_LOGGER.warning("%s: %s", error.name(), error.str())
