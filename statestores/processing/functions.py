"""Functions that users hand over: whether they can be called with what they will be given."""

from inspect import signature

from statestores.errors import InvalidTypeError

ONE_RECORD = ("record",)
"""A function of a record, which has ``key``, ``value``, ``time_ms`` and ``headers``."""


def check_function(step: str, function: object, arguments: tuple[str, ...]) -> None:
    """Accept what *step* can call with *arguments*, so that it fails where it is written down.

    What does not say what it takes, as some functions of C, is accepted.

    Raises:
        InvalidTypeError: It cannot be called, or not with so many arguments.
    """
    wanted = f"a function of ({', '.join(arguments)})"
    if not callable(function):
        raise InvalidTypeError(f"{step} needs {wanted}, got {function!r}")
    try:
        takes = signature(function)
    except (TypeError, ValueError):
        return
    try:
        takes.bind(*arguments)
    except TypeError as error:
        more = "; a record has key, value, time_ms and headers" if arguments == ONE_RECORD else ""
        raise InvalidTypeError(
            f"{step} needs {wanted}, got {function!r}, which takes {takes}: {error}{more}"
        ) from error
