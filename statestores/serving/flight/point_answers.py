"""A few rows as JSON, bytes in base64: for one row, a tenth of the work of an Arrow stream."""

import base64
import json
from typing import Any

from statestores.errors import StateStoreError

_BYTES = "b"


def encoded_rows(answer: Any) -> bytes:
    """Return *answer*, rows of bytes and numbers or a document, as JSON."""
    return json.dumps(answer, default=_encoded, separators=(",", ":")).encode()


def decoded_document(data: bytes) -> Any:
    """Return a document.

    Raises:
        StateStoreError: It is none: the other side is no server of ours.
    """
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise StateStoreError(f"an instance answered what is no JSON: {data[:80]!r}") from error


def decoded_rows(data: bytes) -> list[tuple[Any, ...]]:
    """Return rows of bytes and numbers.

    Raises:
        StateStoreError: They are none.
    """
    try:
        return [tuple(map(_decoded, row)) for row in decoded_document(data)]
    except (TypeError, KeyError, ValueError) as error:
        raise StateStoreError(f"an instance answered what are no rows: {data[:80]!r}") from error


def _encoded(value: object) -> dict[str, str]:
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode("ascii")}
    raise TypeError(f"no row has {value!r}")


def _decoded(value: Any) -> Any:
    return base64.b64decode(value[_BYTES], validate=True) if type(value) is dict else value
