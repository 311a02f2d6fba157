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


class TransactionAbortedError(BrokerError):
    """The transaction under way cannot be committed; another one can."""

    retryable = True


def error_of(raised: BaseException) -> KafkaError:
    """Return what a `KafkaException` carries."""
    found = raised.args[0] if raised.args else None
    return found if isinstance(found, KafkaError) else KafkaError(KafkaError._FAIL, str(raised))  # noqa: SLF001  # as above


def broker_error(doing: str, raised: BaseException) -> BrokerError | InstanceFencedError:
    """Return the error to raise from *raised*, which came while *doing* something."""
    error = error_of(raised)
    if error.code() in FENCED:
        return InstanceFencedError(
            f"cannot {doing}: the broker has ended this instance's transaction ({error.name()}). "
            "Either it took longer than transaction.timeout.ms, or another process runs with a "
            "copy of the same state directory"
        )
    return BrokerError(f"cannot {doing}: {error.name()}: {error.str()}")


def settings_error(raised: BaseException) -> InvalidOptionError:
    """Return the error for a client that cannot be made of its settings."""
    return InvalidOptionError(f"the Kafka client refuses its settings: {error_of(raised).str()}")
