"""Consumers that are no members of a group, and are told what to read."""

from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException

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
