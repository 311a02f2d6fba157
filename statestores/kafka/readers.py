"""Consumers that are no members of a group and are told what to read, and how any is read."""

from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message

from statestores.kafka.broker_errors import settings_error
from statestores.kafka.client_settings import CLIENT_LOGGER, ClientSettings


def open_reader(
    settings: ClientSettings, group: str, more: Mapping[str, Any] | None = None
) -> Consumer:
    """Return a reader that may ask for the offsets of *group*, with *more* settings of its own.

    Raises:
        InvalidOptionError: The client refuses its settings.
    """
    try:
        return Consumer({**settings.reader(group), **(more or {})}, logger=CLIENT_LOGGER)
    except KafkaException as error:
        raise settings_error(error) from error


def consumed(consumer: Consumer, most: int, wait_seconds: float) -> list[Message]:
    """Return up to *most* messages that are there; wait up to *wait_seconds* for the first alone.

    The client's `consume` waits for all of them, so a record that comes alone would wait for as
    long as nothing else does.

    Raises:
        KafkaException: The client is told something that is no message's error.
    """
    if not wait_seconds:
        return consumer.consume(most, 0)
    first = consumer.poll(wait_seconds)
    return [] if first is None else [first, *consumer.consume(most, 0)]
