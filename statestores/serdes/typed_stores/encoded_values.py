"""From many values at once to the bytes that a store of bytes takes, and back.

``None`` is never passed to a serde. It is passed down as it is, and the store below decides: a
deletion as a value, an error as a key.
"""

from typing import Any

from statestores.serdes.arrow_columns import is_arrow
from statestores.serdes.eight_byte_lists import Code, packed_list, unpacked_list
from statestores.serdes.float64_serde import Float64Serde
from statestores.serdes.int64_serde import Int64Serde
from statestores.serdes.raw_serde import raw
from statestores.spi.serde import Serde
from statestores.spi.stores.store import Values
from statestores.spi.values import as_list

_NUMBERS: dict[type, tuple[Code, type]] = {
    Int64Serde: ("q", int),
    Float64Serde: ("d", float),
}
"""The serdes whose values are encoded all at once, and the type that those must have."""

_BYTES = {bytes, type(None)}


def encode_values(serde: Serde[Any], name: str, values: Values[Any]) -> Values[Any]:
    """Return *values*, of the argument *name*, as bytes: an Arrow column as one, others as a list.

    Raises:
        InvalidTypeError: It is neither an iterable nor a column.
        SerializationError: One of the values is not of the serde's type.
    """
    if is_arrow(values):
        column: Values[Any] = serde.encode_array(values)
        return column
    value_list = as_list(name, values)
    if serde is raw and set(map(type, value_list)) <= _BYTES:
        return value_list
    numbers = _NUMBERS.get(type(serde))
    if numbers is not None and set(map(type, value_list)) == {numbers[1]}:
        packed = packed_list(value_list, numbers[0])
        if packed is not None:
            return packed
    encode = serde.encode
    return [None if value is None else encode(value) for value in value_list]


def decode_values(serde: Serde[Any], values: list[bytes | None]) -> list[Any]:
    """Return the values of what a store has found; ``None`` stays ``None``.

    Raises:
        SerializationError: One is not the serde's.
    """
    numbers = _NUMBERS.get(type(serde))
    if numbers is not None:
        present = [data for data in values if data is not None]
        unpacked = unpacked_list(present, numbers[0])
        if unpacked is not None:
            if len(present) == len(values):
                return unpacked
            following = iter(unpacked)
            return [None if data is None else next(following) for data in values]
    decode = serde.decode
    return [None if data is None else decode(data) for data in values]
