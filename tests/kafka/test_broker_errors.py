"""What the client's errors become: with what whoever starts an instance can do about them."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from statestores.kafka.broker_errors import broker_error


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (KafkaError._TIMED_OUT, "; check bootstrap_servers, the security settings, and that "),
        (KafkaError._TRANSPORT, "; check bootstrap_servers, the security settings, and that "),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "; give the user of these settings the right"),
    ],
)
def test_an_error_says_what_to_do(code: int, advice: str) -> None:
    """A wrong address ended after a minute in "_TIMED_OUT: Failed while waiting for controller"."""
    error = broker_error("look for the topics lines", KafkaException(KafkaError(code)))

    assert str(error).startswith("cannot look for the topics lines: ")
    assert advice in str(error)
