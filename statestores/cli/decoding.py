"""Stored keys and values as the values that a store's serdes make of them."""

from collections.abc import Callable
from typing import Any

from statestores.errors import SerializationError
from statestores.serdes.raw_serde import serde_or_raw
from statestores.spi.serde import Serde
from statestores.spi.specification import StoreSpecification


class Decoder:
    """Decodes keys and values of a store by its serdes, or leaves them as they are."""

    def __init__(self, specification: StoreSpecification[Any, Any] | None, *, raw: bool) -> None:
        """Decode for a store of *specification*, if that is known, unless *raw*."""
        known = None if raw else specification
        self.key = _decoding("key", serde_or_raw(None if known is None else known.key))
        self.value = _decoding("value", serde_or_raw(None if known is None else known.value))


def _decoding(what: str, serde: Serde[Any]) -> Callable[[bytes], Any]:
    """Return the function that decodes, with a word about ``--raw`` in its errors."""

    def decode(data: bytes) -> Any:
        try:
            return serde.decode(data)
        except SerializationError as error:
            raise SerializationError(f"a {what} is damaged: {error}; --raw shows bytes") from error

    return decode
