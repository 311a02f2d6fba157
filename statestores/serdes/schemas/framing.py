"""What stands before a value: a byte 0 and the number of its schema, 4 bytes, big-endian."""

from struct import Struct
from typing import Final

from statestores.serdes.refusals import refused_bytes

_HEAD: Final = Struct(">bI")
_MAGIC: Final = 0


def framed(number: int, *parts: bytes) -> bytes:
    """Return *parts* behind the *number* of their schema."""
    return b"".join((_HEAD.pack(_MAGIC, number), *parts))


def unframed(serde: str, data: bytes) -> tuple[int, bytes]:
    """Return the number of the schema and what comes after it.

    Raises:
        SerializationError: *data* does not begin so. The message names *serde*.
    """
    given: object = data  # what the annotation says holds after this
    if not isinstance(given, bytes) or len(data) < _HEAD.size or data[0] != _MAGIC:
        raise refused_bytes(serde, data, "they do not begin with the number of a schema")
    return _HEAD.unpack_from(data)[1], data[_HEAD.size :]
