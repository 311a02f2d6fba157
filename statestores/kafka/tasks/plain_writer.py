"""What a runner writes at least once: without transactions, and flushed step by step (KFK-43).

The offsets are committed when the brokers have everything. Who has been given up by the group may
not write what others have gone on from, so it is asked before (KFK-44).
"""

import time
from collections.abc import Callable, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from statestores.errors import BrokerError
from statestores.kafka.broker_errors import StoppedWaitingError, broker_error
from statestores.kafka.client_settings import CLIENT_LOGGER, ClientSettings
from statestores.kafka.cluster import PATIENCE_SECONDS, REQUEST_SECONDS
from statestores.kafka.group.confirmation import Confirmation
from statestores.kafka.writer import Producing
from statestores.processing.record import Headers
from statestores.spi import TopicPartition
from statestores.stopping import StopRequest


class PlainWriter(Producing):
    """At least once: what was written is flushed, and then the stores and the offsets commit."""

    markers = 0
    is_atomic = False

    def __init__(
        self,
        settings: ClientSettings,
        largest_batch: int | None = None,
        stopping: StopRequest | None = None,
    ) -> None:
        """Make the producer; with *stopping*, brokers that do not answer are not waited for.

        Raises:
            InvalidOptionError: The client refuses its settings.
        """
        super().__init__(settings.producer(None, largest_batch), settings.largest_bytes)
        # A broker whose machine is gone is noticed after the silence, and then asked anew.
        self._patience_seconds = PATIENCE_SECONDS + settings.silence_seconds
        self._stopping = stopping or StopRequest()
        self._confirmation = Confirmation(self._patience_seconds, self._stopping)

    def write(
        self,
        place: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        time_ms: int,
        headers: Headers = (),
        delivered: Callable[[KafkaError | None, Message], None] | None = None,
    ) -> None:
        """See `Writer.write`."""
        if self._failure is not None:
            return
        tell = self._delivered if delivered is None else self._and_then(delivered)
        try:
            self.produce(place, key, value, time_ms, headers, tell)
        except KafkaException as error:
            self._failure = broker_error(f"write to {place[0]!r}", error)

    def poll(self) -> None:
        """See `Writer.poll`."""
        try:
            self.producer.poll(0)
        except KafkaException as error:
            self._failure = self._failure or broker_error("write records", error)

    def end_step(self) -> None:
        """See `Writer.end_step`."""
        deadline = time.monotonic() + self._patience_seconds
        while waiting := self._flushed():
            if self._stopping.is_set():
                raise StoppedWaitingError(
                    f"the cluster has not taken {waiting} of the records of a commit, and the "
                    "instance is stopped; the next run begins at the last commit"
                )
            if time.monotonic() > deadline:
                raise BrokerError(
                    "the cluster has not taken what was written within "
                    f"{self._patience_seconds:.0f} s; the next run begins at the last commit"
                )

    def commit(self, offsets: Mapping[TopicPartition, int], consumer: Consumer) -> None:
        """See `Writer.commit`."""
        self.end_step()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _flushed(self) -> int:
        """Return how many records still wait."""
        try:
            return self.producer.flush(REQUEST_SECONDS)
        except KafkaException as error:
            self._failure = self._failure or broker_error("write records", error)
            return 0

    def confirm(self, committed: Mapping[TopicPartition, int], consumer: Consumer) -> None:
        """See `Writer.confirm`."""
        self._confirmation.ask(committed, consumer)

    def commit_offsets(self, offsets: Mapping[TopicPartition, int], consumer: Consumer) -> bool:
        """See `Writer.commit_offsets`. What cannot be committed for now is with the next ones."""
        failure = self._confirmation.commit(offsets, consumer)
        if failure is not None:
            CLIENT_LOGGER.warning("consumed offsets could not be committed: %s", failure)
        return failure is None

    def abort(self) -> None:
        """Forget failures; what was written stays."""
        self._failure = None

    def close(self) -> None:
        """See `Writer.close`."""

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self._failure is None:
            doing = f"write to {message.topic()!r}"
            self._failure = broker_error(doing, KafkaException(error))

    def _and_then(
        self, delivered: Callable[[KafkaError | None, Message], None]
    ) -> Callable[[KafkaError | None, Message], None]:
        def both(error: KafkaError | None, message: Message) -> None:
            self._delivered(error, message)
            delivered(error, message)

        return both
