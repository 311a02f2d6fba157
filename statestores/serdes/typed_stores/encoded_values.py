"""From many values at once to the bytes that a store of bytes takes.

``None`` is never passed to a serde. It is passed down as it is, and the store below decides: a
deletion as a value, an error as a key.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from statestores.serdes.arrow_columns import is_arrow
from statestores.spi.serde import Serde
from statestores.spi.stores.store import Values
from statestores.spi.values import as_list

T = TypeVar("T")


def encode_values(serde: Serde[Any], name: str, values: Values[Any]) -> Values[Any]:
    """Return *values*, of the argument *name*, as bytes: an Arrow column as one, others as a list.

    Raises:
        InvalidTypeError: It is neither an iterable nor a column.
        SerializationError: One of the values is not of the serde's type.
    """
    if is_arrow(values):
        column: Values[Any] = serde.encode_array(values)
        return column
    encode = serde.encode
    return [None if value is None else encode(value) for value in as_list(name, values)]


def decode_values(decode: Callable[[bytes], T], values: list[bytes | None]) -> list[T | None]:
    """Return the values of what a store has found; ``None`` stays ``None``."""
    return [None if data is None else decode(data) for data in values]
