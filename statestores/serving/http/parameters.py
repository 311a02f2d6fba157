"""What a request asks, read strictly from its address and its body."""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

from statestores.errors import InvalidArgumentError, StoreCorruptedError
from statestores.files.strict_json import parse_object
from statestores.reading.key_text import HEX, parse_hex, parse_key
from statestores.serving.query import position_from_json
from statestores.spi.specification import StoreSpecification
from statestores.text.times import parse_time

SHARED = ("partition", "stale", "max_lag", "at_least")
"""What every read takes."""

_MAX = (1 << 63) - 1
_MAX_TIME_TEXT = 64


def check_encoding(query: bytes) -> None:
    """Accept the part of an address behind the question mark, whose escapes are UTF-8 text.

    Whoever decodes it puts U+FFFD in the place of what is none, and so another key is read.

    Raises:
        InvalidArgumentError: They are not.
    """
    try:
        unquote_to_bytes(query).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            f"the escapes of an address are of UTF-8 text, and those behind the question mark are "
            f"not ({error.reason}); a key of other bytes is written as hex:..."
        ) from error


class Parameters:
    """The parameters of a request, each asked for by name; others are refused."""

    def __init__(self, given: Iterable[tuple[str, str]], *allowed: str) -> None:
        """Take what is *given*.

        Raises:
            InvalidArgumentError: A name is not among those *allowed*, or is there twice.
        """
        self._values: dict[str, str] = {}
        for name, value in given:
            if name not in allowed:
                raise InvalidArgumentError(
                    f"there is no parameter {name!r:.80}; there are: {', '.join(allowed) or 'none'}"
                )
            if name in self._values:
                raise InvalidArgumentError(f"the parameter {name!r} is there twice")
            self._values[name] = value

    def text(self, name: str) -> str | None:
        """Return a text, if it is given."""
        return self._values.get(name)

    def integer(self, name: str) -> int | None:
        """Return an integer from 0, if it is given."""
        value = self._values.get(name)
        if value is None:
            return None
        is_number = value.isascii() and value.isdigit() and len(value) <= len(str(_MAX))
        if not is_number or int(value) > _MAX:
            raise InvalidArgumentError(
                f"{name!r} is an integer from 0 to {_MAX}, got {value!r:.80}"
            )
        return int(value)

    def flag(self, name: str) -> bool:
        """Return true or false; false when it is not given."""
        value = self._values.get(name, "false")
        if value not in {"true", "false"}:
            raise InvalidArgumentError(f"{name!r} is true or false, got {value!r:.80}")
        return value == "true"

    def time(self, name: str) -> int | None:
        """Return a time in milliseconds, if it is given: as such, or as ISO 8601."""
        value = self._values.get(name)
        if value is not None and len(value) > _MAX_TIME_TEXT:
            raise InvalidArgumentError(f"{name!r} is a time, got {len(value)} characters")
        return None if value is None else parse_time(value)

    def key(self, name: str, specification: StoreSpecification[Any, Any]) -> bytes | None:
        """Return the bytes of a key, if it is given."""
        value = self._values.get(name)
        return None if value is None else parse_key(value, specification, is_hex=False)

    def prefix(self, name: str) -> bytes | None:
        """Return the first bytes of keys, if they are given."""
        value = self._values.get(name)
        if value is None:
            return None
        return parse_hex(value.removeprefix(HEX)) if value.startswith(HEX) else value.encode()

    def shared(self) -> dict[str, Any]:
        """Return the fields of a query that every read takes."""
        at_least = self._values.get("at_least")
        document = None
        if at_least is not None:
            try:
                document = parse_object(b'{"at_least":' + at_least.encode() + b"}", "at_least")[
                    "at_least"
                ]
            except StoreCorruptedError as error:
                raise InvalidArgumentError(str(error)) from error
        return {
            "partition": self.integer("partition"),
            "include_stale": self.flag("stale"),
            "max_lag": self.integer("max_lag"),
            "at_least": None if document is None else position_from_json(document),
        }


def keys_of_body(
    body: bytes, specification: StoreSpecification[Any, Any], max_keys: int
) -> tuple[tuple[bytes, ...], Mapping[str, Any]]:
    """Return the keys of a batch, written as in addresses, and the document that has them.

    Raises:
        InvalidArgumentError: It has none, too many, or other fields.
    """
    try:
        document = parse_object(body, "the body")
    except StoreCorruptedError as error:
        raise InvalidArgumentError(str(error)) from error
    for name in document:
        if name not in {"keys", "as_of"}:
            raise InvalidArgumentError(f"there is no field {name!r:.80}; there are: keys, as_of")
    keys = document.get("keys")
    if type(keys) is not list or len(keys) > max_keys:
        raise InvalidArgumentError(f"'keys' is a list of up to {max_keys} keys")
    if not all(type(each) is str for each in keys):
        raise InvalidArgumentError("'keys' has texts, written as the key of an address is")
    return tuple(parse_key(each, specification, is_hex=False) for each in keys), document
