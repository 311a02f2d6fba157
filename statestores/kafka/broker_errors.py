"""The client's errors as ours: what failed, what the broker said, and what to do about it."""

from confluent_kafka import KafkaError

from statestores.errors import BrokerError, InstanceFencedError, InvalidOptionError

FENCED = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001  # librdkafka's own codes begin so
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.UNKNOWN_PRODUCER_ID,
        KafkaError.INVALID_TXN_STATE,
    }
)
"""What a producer is told whose transaction was ended by somebody else."""

_OF_SETTINGS = frozenset({KafkaError._INVALID_ARG, KafkaError._CONFLICT})  # noqa: SLF001  # as above


_UNANSWERED = (
    "; check bootstrap_servers, the security settings, and that the brokers run and can be reached"
)
_FORBIDDEN = "; give the user of these settings the right, or use those of another one"

_GONE = (
    "; the topic was deleted, or has fewer partitions: create it again as it was, and start again"
)

_TOO_LARGE = (
    "; let the client send more (settings={'producer.message.max.bytes': ...}) and the topic take "
    "it (max.message.bytes), or keep less in a row"
)

_ADVICE = {
    KafkaError.MSG_SIZE_TOO_LARGE: _TOO_LARGE,
    **dict.fromkeys(
        (
            KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001  # as above
            KafkaError._AUTHENTICATION,  # noqa: SLF001  # as above
            KafkaError._RESOLVE,  # noqa: SLF001  # as above
            KafkaError._SSL,  # noqa: SLF001  # as above
            KafkaError._TIMED_OUT,  # noqa: SLF001  # as above
            KafkaError._TRANSPORT,  # noqa: SLF001  # as above
        ),
        _UNANSWERED,
    ),
    **dict.fromkeys(
        (
            KafkaError.CLUSTER_AUTHORIZATION_FAILED,
            KafkaError.GROUP_AUTHORIZATION_FAILED,
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        _FORBIDDEN,
    ),
    **dict.fromkeys(
        (
            KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001  # as above
            KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001  # as above
            KafkaError.UNKNOWN_TOPIC_OR_PART,
        ),
        _GONE,
    ),
}
"""What whoever starts an instance can do about an error of these."""


class TransactionAbortedError(BrokerError):
    """The transaction under way cannot be committed; another one can."""

    retryable = True


class TooManyAbortsError(BrokerError):
    """One transaction after the other could not be committed, and the next will not be, either."""


class StoppedWaitingError(BrokerError):
    """The cluster does not answer, and nobody waits for it any more: the instance is stopped."""


def error_of(raised: BaseException) -> KafkaError:
    """Return what a `KafkaException` carries."""
    found = raised.args[0] if raised.args else None
    return found if isinstance(found, KafkaError) else KafkaError(KafkaError._FAIL, str(raised))  # noqa: SLF001  # as above


def advice_on(error: KafkaError) -> str:
    """Return what can be done about *error*, to be put behind it; empty if that is not known."""
    return _ADVICE.get(error.code(), "")


def broker_error(
    doing: str, raised: BaseException, *, why: str | None = None
) -> BrokerError | InstanceFencedError:
    """Return the error to raise from *raised*, which came while *doing* something.

    *why* is what the client has said of it before, if anything.
    """
    error = error_of(raised)
    if error.code() in FENCED:
        return InstanceFencedError(
            f"cannot {doing}: the broker has ended this instance's transaction ({error.name()}). "
            "Either it took longer than transaction.timeout.ms, or another process runs with a "
            "copy of the same state directory"
        )
    advice = advice_on(error)
    told = "" if why is None else f"; the client says: {why}"
    return BrokerError(f"cannot {doing}: {error.name()}: {error.str()}{told}{advice}")


def settings_error(raised: BaseException) -> InvalidOptionError:
    """Return the error for a client that cannot be made of its settings."""
    return InvalidOptionError(
        f"the Kafka client refuses its settings: {error_of(raised).str()}; they are librdkafka's, "
        "such as security.protocol"
    )
