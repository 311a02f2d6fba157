"""What a runner writes: outputs, changes, and the offsets that it has consumed (KFK-6).

With exactly once they are one transaction, which begins with the first of them. With at least once
see `plain_writer`.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as KafkaPartition

from statestores.errors import BrokerError, InstanceFencedError, StateStoreError
from statestores.kafka.broker_errors import (
    FENCED,
    TransactionAbortedError,
    advice_on,
    broker_error,
    error_of,
    settings_error,
)
from statestores.kafka.client_settings import CLIENT_LOGGER, ClientSettings
from statestores.kafka.cluster import PATIENCE_SECONDS, REQUEST_SECONDS, may_pass
from statestores.kafka.messages import timestamp_and_headers
from statestores.kafka.patient_calls import CallStuckError, PatientCalls
from statestores.processing.record import Headers
from statestores.spi import TopicPartition

_OF_A_RECORD = frozenset({KafkaError.MSG_SIZE_TOO_LARGE})
_FRAMING_BYTES = 256
"""More than what a record takes beside key, value and headers."""
_ROOM_SECONDS = 0.05
_CALL_SECONDS = 5.0
_STUCK_SECONDS = 5.0
"""How much longer than it was told a call may take before it is given up with its producer."""
_PAUSE_SECONDS = 0.1
"""How long to wait before a call is made again, since some are refused at once."""


class Writer(Protocol):
    """The producer of a runner. One thread uses it."""

    def write(
        self,
        place: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        time_ms: int,
        headers: Headers = (),
        delivered: "Callable[[KafkaError | None, Message], None] | None" = None,
    ) -> None:
        """Add a record to what the next commit makes visible.

        It is called while a record is processed, whose policy would take what is raised here for
        the record's own failure, and may skip it. So only that is raised; of anything else the next
        commit tells, and what is written until then is forgotten.

        Raises:
            BrokerError: The record is too large.
        """

    def end_step(self) -> None:
        """Have what was written survive before anything that is written later (KFK-43).

        A failure is told by the next commit.

        Raises:
            BrokerError: The broker does not answer.
        """

    def commit(self, offsets: Mapping[TopicPartition, int], consumer: Consumer) -> None:
        """Make visible what was written, and with exactly once the *offsets* as part of it.

        Raises:
            TransactionAbortedError: It was not; `abort`, and go on from the last commit.
            InstanceFencedError: It was not; only another producer can go on.
            BrokerError: It is not known, or the broker does not answer.
        """

    def confirm(self, committed: Mapping[TopicPartition, int], consumer: Consumer) -> None:
        """See that the group still has this member, where brokers take what another one writes.

        *committed* is what it has committed of the partitions whose tasks are to be written.

        Raises:
            InstanceFencedError, BrokerError: It has not, or does not say.
        """

    def commit_offsets(self, offsets: Mapping[TopicPartition, int], consumer: Consumer) -> bool:
        """Commit *offsets* where they are not part of `commit`, which they follow.

        Returns whether the group has them; if not, they are to be committed again (KFK-47).

        Raises:
            InstanceFencedError: The group has given up this member: others repeat the records.
        """

    def abort(self) -> None:
        """Take back what was written since the last commit, where that can be done.

        Raises:
            InstanceFencedError, BrokerError: As `commit`.
        """

    def poll(self) -> None:
        """Let the client tell of deliveries."""

    largest_bytes: int
    """Up to how many bytes of key, value and headers a record is never too large."""

    markers: int
    """How many offsets of a partition `commit` takes behind the records."""

    is_atomic: bool
    """Whether a crash leaves all that a commit writes, or nothing of it."""

    @property
    def has_failed(self) -> bool:
        """Whether the next commit will raise."""

    def close(self) -> None:
        """Use it no more."""


class Producing:
    """What both writers have in common: a producer, its patience, and what it failed of."""

    def __init__(self, settings: dict[str, Any], largest_bytes: int) -> None:
        """Make the producer.

        Raises:
            InvalidOptionError: The client refuses its settings.
        """
        try:
            self.producer = Producer(settings, logger=CLIENT_LOGGER)
        except KafkaException as error:
            raise settings_error(error) from error
        self._hand_over = self.producer.produce
        self.largest_bytes = largest_bytes - _FRAMING_BYTES
        self._failure: StateStoreError | None = None

    @property
    def has_failed(self) -> bool:
        """See `Writer.has_failed`."""
        return self._failure is not None

    def produce(
        self,
        place: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        time_ms: int,
        headers: Headers,
        delivered: Callable[[KafkaError | None, Message], None] | None,
    ) -> None:
        """Hand a record over to the client, and wait while it has too many.

        Raises:
            BrokerError: The record is too large.
            KafkaException: The client refuses it.
        """
        if time_ms > 0 and not headers and delivered is None:
            try:
                self._hand_over(
                    place[0], value=value, key=key, partition=place[1], timestamp=time_ms
                )
            except (BufferError, KafkaException):
                pass  # it was not taken: once more, with patience
            else:
                return
        stamp, carried = timestamp_and_headers(time_ms, headers)
        more: dict[str, Any] = {} if delivered is None else {"on_delivery": delivered}
        if carried is not None:
            more["headers"] = carried
        while True:
            try:
                self.producer.produce(
                    place[0], value=value, key=key, partition=place[1], timestamp=stamp, **more
                )
            except BufferError:  # as many as may wait: some will be delivered, or time out
                self.producer.poll(_ROOM_SECONDS)
            except KafkaException as error:
                if error_of(error).code() in _OF_A_RECORD:
                    raise broker_error(f"write to {place[0]!r}", error) from error
                raise
            else:
                return


class TransactionalWriter(Producing):
    """Exactly once: a transaction for each commit."""

    markers = 1
    is_atomic = True

    def __init__(
        self, settings: ClientSettings, transactional_id: str, largest_batch: int | None = None
    ) -> None:
        """Take over *transactional_id*: what an earlier process has left open under it is aborted.

        Raises:
            InvalidOptionError: The client refuses its settings.
            BrokerError: The cluster does not answer, or allows no transactions.
        """
        super().__init__(settings.producer(transactional_id, largest_batch), settings.largest_bytes)
        self._is_open = False
        self._calls = PatientCalls("transactions")
        self._call("begin with transactions", self.producer.init_transactions, PATIENCE_SECONDS)

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
        doing = f"write to {place[0]!r}"
        try:
            if not self._is_open:
                self._begin()
            self.produce(place, key, value, time_ms, headers, delivered)
        except KafkaException as raised:
            error = error_of(raised)
            if _is_for_good(error):
                self._failure = _fatal(doing, raised)
            elif error.code() == KafkaError._STATE:  # noqa: SLF001  # its name
                self._failure = _taken_back(doing, error)
            else:
                self._failure = broker_error(doing, raised)

    def poll(self) -> None:
        """See `Writer.poll`."""
        try:
            self.producer.poll(0)
        except KafkaException as raised:  # a failure for good is told wherever the client is called
            self._failure = self._failure or _fatal("write", raised)

    def end_step(self) -> None:
        """Do nothing: all of a transaction counts, or nothing."""

    def commit(self, offsets: Mapping[TopicPartition, int], consumer: Consumer) -> None:
        """See `Writer.commit`."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        if not self._is_open:
            try:
                self._begin()
            except KafkaException as raised:
                raise _fatal("begin a transaction", raised) from raised
        places = [KafkaPartition(*place, offset) for place, offset in offsets.items()]
        member = consumer.consumer_group_metadata()
        if not consumer.memberid():
            # A broker takes the offsets of nobody for those of who needs no group.
            raise TransactionAbortedError(
                "the group has given up this instance; the transaction is taken back, and the "
                "records are processed again, here or elsewhere"
            )
        self._call(
            "commit consumed offsets with the transaction",
            lambda seconds: self.producer.send_offsets_to_transaction(places, member, seconds),
        )
        self._call("commit the transaction", self.producer.commit_transaction)
        self._is_open = False

    def confirm(self, committed: Mapping[TopicPartition, int], consumer: Consumer) -> None:
        """Do nothing: the transaction of another one is refused."""

    def commit_offsets(self, offsets: Mapping[TopicPartition, int], consumer: Consumer) -> bool:
        """Do nothing: they were part of the transaction."""
        return True

    def abort(self) -> None:
        """See `Writer.abort`."""
        self._failure = None
        if self._is_open:
            self._call("abort the transaction", self.producer.abort_transaction)
            self._is_open = False

    def close(self) -> None:
        """See `Writer.close`."""
        self._calls.end()

    def _begin(self) -> None:
        self.producer.begin_transaction()
        self._is_open = True

    def _call(
        self, doing: str, call: Callable[[float], object], patience_seconds: float = REQUEST_SECONDS
    ) -> None:
        """Call until it is known what has become of it, or *patience_seconds* are over.

        Who then begins anew with another producer finds out: a transaction that was committed is
        in the topics, and another one is ended by the broker.
        """
        deadline = time.monotonic() + patience_seconds
        while True:
            try:
                self._calls.do(partial(call, _CALL_SECONDS), _CALL_SECONDS + _STUCK_SECONDS)
            except CallStuckError as stuck:
                raise InstanceFencedError(
                    f"the client does not come back from an attempt to {doing}; a new producer "
                    "finds out what has become of it"
                ) from stuck
            except KafkaException as raised:
                error = error_of(raised)
                if error.fatal():
                    raise _fatal(doing, raised) from raised
                if error.txn_requires_abort():
                    raise _taken_back(doing, error) from raised
                if error.code() == KafkaError._CONFLICT:  # noqa: SLF001  # its name
                    raise InstanceFencedError(
                        f"the client cannot {doing}, since it has not ended another call: "
                        f"{error.str()}; a new producer finds out what has become of it"
                    ) from raised
                if not may_pass(error):
                    raise broker_error(doing, raised) from raised
                if time.monotonic() > deadline:
                    raise InstanceFencedError(
                        f"the broker has not said within {patience_seconds:.0f} s whether it could "
                        f"{doing}: {error.name()}; a new producer finds out"
                    ) from raised
                time.sleep(_PAUSE_SECONDS)
            else:
                return


def _is_for_good(error: KafkaError) -> bool:
    return error.fatal() or error.code() == KafkaError._FATAL or error.code() in FENCED  # noqa: SLF001  # its name


def _taken_back(doing: str, error: KafkaError) -> TransactionAbortedError:
    return TransactionAbortedError(
        f"could not {doing}: {error.name()}: {error.str()}{advice_on(error)}; the transaction is "
        "taken back, and the records are processed again"
    )


def _fatal(doing: str, raised: KafkaException) -> BrokerError | InstanceFencedError:
    """Return the error for a producer that can do nothing more."""
    error = error_of(raised)
    if error.code() in FENCED:
        return broker_error(doing, raised)
    return InstanceFencedError(
        f"cannot {doing}: the producer has failed for good: {error.name()}: {error.str()}"
    )
