"""What a program has made, on its way to Spark's workers."""

from pickle import PicklingError

from pyspark import cloudpickle

from statestores.errors import InvalidTypeError


def check_sendable(given: object, what: str, advice: str) -> None:
    """Accept what Spark can send to its workers, before a query begins with it.

    Raises:
        InvalidTypeError: It cannot; the message says *what* cannot be sent, why, and the *advice*.
    """
    try:
        cloudpickle.dumps(given)  # type: ignore[no-untyped-call]  # Spark's
    except (PicklingError, TypeError, AttributeError, NotImplementedError) as error:
        raise InvalidTypeError(
            f"{what} cannot be sent to Spark's workers: {error}; {advice}"
        ) from error
