"""Errors as they cross the wire: the class by its name, and the message (SRV-12)."""

import inspect
import json
from typing import Any

from statestores import errors
from statestores.errors import (
    AccessDeniedError,
    CapabilityNotSupportedError,
    InvalidArgumentError,
    InvalidTypeError,
    LimitExceededError,
    MisplacedKeyError,
    OffsetOutOfRangeError,
    SerializationError,
    StateStoreError,
    StoreNotFoundError,
    UnknownStateStoreError,
)

_CLASSES: dict[str, type[StateStoreError]] = {
    name: each
    for name, each in vars(errors).items()
    if inspect.isclass(each) and issubclass(each, StateStoreError)
}

_STATUS: dict[type[StateStoreError], int] = {
    InvalidArgumentError: 400,
    InvalidTypeError: 400,
    SerializationError: 400,
    AccessDeniedError: 401,
    UnknownStateStoreError: 404,
    StoreNotFoundError: 404,
    MisplacedKeyError: 409,
    OffsetOutOfRangeError: 410,
    LimitExceededError: 413,
    CapabilityNotSupportedError: 501,
}

TRY_AGAIN = 503
"""The status of an error that is retryable."""

_FAILURE = 500


def as_document(error: StateStoreError) -> dict[str, Any]:
    """Return what the other side is told of *error*."""
    name = type(error).__name__
    if name not in _CLASSES:  # somebody's own: what it is, is said by the first that is ours
        name = next(each.__name__ for each in type(error).__mro__ if each.__name__ in _CLASSES)
    return {"error": name, "message": str(error), "retryable": error.retryable}


def as_bytes(error: StateStoreError) -> bytes:
    """Return the same as JSON."""
    return json.dumps(as_document(error)).encode()


def from_bytes(data: bytes, fallback: str) -> StateStoreError:
    """Return the error that the other side has told, or one that says *fallback*."""
    try:
        document = json.loads(data)
        name, message = document["error"], document["message"]
        known = _CLASSES.get(name, StateStoreError)
        return known(str(message))
    except (ValueError, KeyError, TypeError, RecursionError):
        return StateStoreError(fallback)


def status_of(error: StateStoreError) -> int:
    """Return the HTTP status of *error*."""
    if error.retryable:
        return TRY_AGAIN
    for each in type(error).__mro__:
        if each in _STATUS:
            return _STATUS[each]
    return _FAILURE
