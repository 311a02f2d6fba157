"""Whether the group still has this member, asked before records are written that nobody refuses.

A broker takes what a producer without transactions writes, also when others have its tasks by now
(KFK-44). The group itself is asked by a commit of offsets, which it takes of its members only.
"""

import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from statestores.errors import InstanceFencedError
from statestores.kafka.broker_errors import StoppedWaitingError, broker_error, error_of
from statestores.kafka.cluster import PATIENCE_SECONDS, REQUEST_SECONDS, may_pass
from statestores.spi import TopicPartition
from statestores.stopping import StopRequest

_BELIEVED_SECONDS = 1.0
"""How long an answer holds: less than any group waits for a member that it does not hear."""
_PAUSE_SECONDS = 0.05
_GIVEN_UP = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError.FENCED_INSTANCE_ID,
    }
)
_UNSETTLED = frozenset({KafkaError.ILLEGAL_GENERATION, KafkaError.STALE_MEMBER_EPOCH})
"""What a member is told that has yet to hear of a new generation, and one that is given up, too."""


class Confirmation:
    """What the group has last said of this member. One thread uses it."""

    def __init__(
        self, patience_seconds: float = PATIENCE_SECONDS, stopping: StopRequest | None = None
    ) -> None:
        """Nothing is known yet.

        A group that does not answer is asked for *patience_seconds*; once it is *stopping*, for ten
        more at most.
        """
        self._patience_seconds = patience_seconds
        self._stopping = stopping or StopRequest()
        self._until = 0.0

    def commit(
        self, offsets: Mapping[TopicPartition, int], consumer: Consumer
    ) -> KafkaException | None:
        """Commit *offsets*; return why not, where it is still a member.

        Raises:
            InstanceFencedError: The group has given up this member.
        """
        asked = time.monotonic()
        try:
            failure = _commit(offsets, consumer)
        except KafkaException as error:
            failure = error
        if failure is None:
            self._until = asked + _BELIEVED_SECONDS
        elif error_of(failure).code() in _GIVEN_UP:
            raise _given_up(failure) from failure
        return failure

    def ask(self, committed: Mapping[TopicPartition, int], consumer: Consumer) -> None:
        """See that this is a member still, unless the group said so just now.

        It is asked to take what it has *committed* already, which changes nothing.

        Raises:
            InstanceFencedError: The group has given up this member.
            StoppedWaitingError: It does not answer, and the instance is stopped.
            BrokerError: It refuses, or does not answer.
        """
        deadline = time.monotonic() + self._patience_seconds
        is_stopped = False
        while time.monotonic() >= self._until:
            if self._stopping.is_set() and not is_stopped:
                is_stopped = True
                _see_brokers(committed, consumer)
                deadline = min(deadline, time.monotonic() + REQUEST_SECONDS)
            failure = self.commit(committed, consumer)
            if failure is None:
                return
            error = error_of(failure)
            if error.code() == KafkaError.REBALANCE_IN_PROGRESS:
                return  # which is told to members of the present generation only
            is_over = time.monotonic() > deadline
            if error.code() in _UNSETTLED:
                if is_over:
                    raise _given_up(failure) from failure
            elif is_over or not may_pass(error):
                refused = broker_error("ask the group for this member", failure)
                if is_stopped and may_pass(error):
                    raise StoppedWaitingError(str(refused)) from failure
                raise refused from failure
            time.sleep(_PAUSE_SECONDS)


def _see_brokers(committed: Mapping[TopicPartition, int], consumer: Consumer) -> None:
    """Find out whether any broker answers: a commit waits for its own one as long as a session.

    Raises:
        StoppedWaitingError: None does.
    """
    try:
        consumer.list_topics(next(iter(committed)).topic, timeout=REQUEST_SECONDS)
    except KafkaException as error:
        raise StoppedWaitingError(str(broker_error("reach the brokers", error))) from error


def _commit(offsets: Mapping[TopicPartition, int], consumer: Consumer) -> KafkaException | None:
    """Commit *offsets*, and return the first failure of a partition."""
    places = [KafkaPartition(*place, offset) for place, offset in offsets.items()]
    answered = consumer.commit(offsets=places, asynchronous=False)
    failures = [each.error for each in answered if each.error is not None]
    return KafkaException(failures[0]) if failures else None


def _given_up(failure: KafkaException) -> InstanceFencedError:
    error = error_of(failure)
    return InstanceFencedError(
        f"the group has given up this instance, and others have its tasks ({error.name()}): it was "
        "stopped, or could not reach the brokers, for longer than session.timeout.ms"
    )
