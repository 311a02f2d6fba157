"""Keys as people write them, and their bytes."""

import json
from typing import Any
from uuid import UUID

from statestores.errors import InvalidArgumentError, SerializationError
from statestores.serdes.raw_serde import serde_or_raw
from statestores.serdes.rows import RowSerde, SortedRowSerde
from statestores.serdes.rows.cells import CellError
from statestores.serdes.rows.plain_values import plain_from_text
from statestores.spi.serde import Serde
from statestores.spi.specification import StoreSpecification

HEX = "hex:"
"""In front of bytes in hexadecimal."""

TEXT = "text:"
"""In front of a text that would be taken for the other."""


def parse_key(text: str, specification: StoreSpecification[Any, Any], *, is_hex: bool) -> bytes:
    """Return the bytes of the key that *text* says, by the key serde of *specification*.

    ``hex:`` in front, or *is_hex*, says that the text is the bytes in hexadecimal; ``text:`` in
    front, that it is not, for a key that begins with ``hex:``.

    Raises:
        InvalidArgumentError: It is no key of the serde, or no hexadecimal number.
    """
    if is_hex or text.startswith(HEX):
        return parse_hex(text.removeprefix(HEX))
    text = text.removeprefix(TEXT)
    serde = serde_or_raw(specification.key)
    try:
        return _encoded(text, serde)
    except (SerializationError, ValueError, RecursionError) as error:
        if isinstance(error, InvalidArgumentError):
            raise
        hint = " (a text is in quotes there)" if serde.name in {"json", "msgpack"} else ""
        reason = f": {error.__cause__}" if isinstance(error.__cause__, CellError) else ""
        raise InvalidArgumentError(
            f"the store's keys are {_NAMES.get(serde.name, serde.name)}{hint}, got {text!r}{reason}"
            "; give one, as a JSON object if it has fields, or the key's bytes as hex:..."
        ) from error


def _encoded(text: str, serde: Serde[Any]) -> bytes:
    """Return the bytes of the key that *text* says.

    Raises:
        InvalidArgumentError: Keys of *serde* have no text form.
        SerializationError, ValueError: It is no key of the serde.
    """
    value: Any
    match serde.name:
        case "bytes":
            value = text.encode()
        case "utf8":
            value = text
        case "int64" | "int64_sorted":
            value = int(number_text(text))
        case "float64":
            value = float(number_text(text))
        case "uuid":
            value = UUID(text)
        case "json" | "msgpack":
            value = json.loads(text)
        case _ if isinstance(serde, RowSerde | SortedRowSerde):
            return serde.encode_plain(plain_from_text(text))
        case name:
            raise InvalidArgumentError(
                f"keys of the serde {name!r} have no text form here; give the key's bytes as "
                "hex:..."
            )
    return serde.encode(value)


def number_text(text: str) -> str:
    """Return *text*, if it is a number as people write it, and not only as Python does.

    Python reads ``1_0`` as 10, and digits of any script, with white space around them. Who looks
    for a key that was written so would be answered with another one.

    Raises:
        ValueError: It is none.
    """
    if not text.isascii() or "_" in text or text != text.strip():
        raise ValueError(text)
    return text


_NAMES = {
    "bytes": "bytes",
    "utf8": "text",
    "int64": "whole numbers of 64 bits",
    "int64_sorted": "whole numbers of 64 bits",
    "float64": "numbers",
    "uuid": "UUIDs",
    "json": "JSON",
    "msgpack": "MessagePack, written as JSON",
}


def parse_hex(digits: str) -> bytes:
    """Return the bytes that *digits* stand for.

    Raises:
        InvalidArgumentError: They stand for none.
    """
    try:
        return bytes.fromhex(digits)
    except ValueError as error:
        raise InvalidArgumentError(
            f"hexadecimal bytes are two of 0-9 and a-f for each byte, got {digits!r}"
        ) from error
