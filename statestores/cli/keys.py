"""Keys as text on the command line, and their bytes."""

import json
from typing import Any

from statestores.arrow.keys.key_selection import KeySelection
from statestores.errors import InvalidArgumentError, SerializationError
from statestores.serdes.raw_serde import serde_or_raw
from statestores.spi.specification import StoreSpecification

_HEX = "hex:"
_TEXT = "text:"


def parse_key(text: str, specification: StoreSpecification[Any, Any], *, is_hex: bool) -> bytes:
    """Return the bytes of the key that *text* says, by the key serde of *specification*.

    ``hex:`` in front, or *is_hex*, says that the text is the bytes in hexadecimal; ``text:`` in
    front, that it is not, for a key that begins with ``hex:``.

    Raises:
        InvalidArgumentError: It is no key of the serde, or no hexadecimal number.
    """
    if is_hex or text.startswith(_HEX):
        return parse_hex(text.removeprefix(_HEX))
    text = text.removeprefix(_TEXT)
    serde = serde_or_raw(specification.key)
    value: Any
    try:
        match serde.name:
            case "bytes":
                value = text.encode()
            case "utf8":
                value = text
            case "int64" | "int64_sorted":
                value = int(text)
            case "float64":
                value = float(text)
            case "json" | "msgpack":
                value = json.loads(text)
            case name:
                raise InvalidArgumentError(
                    f"keys of the serde {name!r} have no text form here; give the key's bytes as "
                    "hex:..."
                )
        return serde.encode(value)
    except (SerializationError, ValueError) as error:
        if isinstance(error, InvalidArgumentError):
            raise
        hint = " (a text is in quotes there)" if serde.name in {"json", "msgpack"} else ""
        raise InvalidArgumentError(
            f"the store's keys are {_NAMES.get(serde.name, serde.name)}{hint}, got {text!r}; give "
            "one, or the key's bytes as hex:..."
        ) from error


_NAMES = {
    "bytes": "bytes",
    "utf8": "text",
    "int64": "whole numbers of 64 bits",
    "int64_sorted": "whole numbers of 64 bits",
    "float64": "numbers",
    "json": "JSON",
    "msgpack": "MessagePack, written as JSON",
}


def select_keys(
    specification: StoreSpecification[Any, Any],
    *,
    first: str | None,
    last: str | None,
    prefix: str | None,
) -> KeySelection:
    """Return the keys from *first* to *last*, inclusive, and with *prefix*, which is of bytes.

    Raises:
        InvalidArgumentError: One of them is no key.
    """
    keys = KeySelection(
        first=None if first is None else parse_key(first, specification, is_hex=False),
        last=None if last is None else parse_key(last, specification, is_hex=False),
    )
    if prefix is None:
        return keys
    is_hex = prefix.startswith(_HEX)
    start = parse_hex(prefix.removeprefix(_HEX)) if is_hex else prefix.removeprefix(_TEXT).encode()
    return keys.both(KeySelection.prefix(start))


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
