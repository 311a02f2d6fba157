"""Keys as text in options, turned into a selection of key bytes by the store's serde."""

import json
from typing import TYPE_CHECKING, Any

from statestores.errors import InvalidOptionError, SerializationError
from statestores.reading.key_text import number_text
from statestores.serdes.raw_serde import serde_or_raw
from statestores.serdes.rows import RowSerde, SortedRowSerde
from statestores.serdes.rows.plain_values import plain_from_text
from statestores.spark.options.read_and_write import SourceOptions
from statestores.spi.serde import Serde

if TYPE_CHECKING:
    from statestores.arrow.keys.key_selection import KeySelection

_HEXADECIMAL = "0x"


def selection_from_options(
    options: SourceOptions, key_serde: Serde[Any] | None
) -> "KeySelection | None":
    """Return the keys that *options* ask for; ``None`` for all.

    Raises:
        InvalidOptionError: A text is no key of the serde's, or the serde's bytes do not sort or
            begin as its values do, so that the option would select other keys than it says.
    """
    from statestores.arrow.keys.key_selection import KeySelection  # noqa: PLC0415  # needs pyarrow

    serde = serde_or_raw(key_serde)
    if options.key is not None:
        key = key_from_text("key", options.key, serde)
        return KeySelection(first=key, last=key)
    if options.keys is not None:
        return KeySelection.of(key_from_text("keys", text, serde) for text in options.keys)
    if options.key_prefix is not None:
        if serde.name not in {"utf8", "bytes"}:
            raise InvalidOptionError(
                f"the option 'keyPrefix' needs keys of text or bytes, and these are "
                f"{serde.name!r}; use key, or filter the rows"
            )
        return KeySelection.prefix(key_from_text("keyPrefix", options.key_prefix, serde))
    bounds = {
        name: key_from_text(name, text, serde)
        for name, text in (("keyFrom", options.key_from), ("keyTo", options.key_to))
        if text is not None
    }
    if not bounds:
        return None
    if not serde.sorted:
        raise InvalidOptionError(
            f"the option {next(iter(bounds))!r} needs keys whose bytes sort as they do, and those "
            f"of the serde {serde.name!r} do not; filter the rows instead"
        )
    return KeySelection(first=bounds.get("keyFrom"), last=bounds.get("keyTo"))


def key_from_text(option: str, text: str, serde: Serde[Any]) -> bytes:
    """Return the bytes of the key that *text* stands for.

    Text is itself, numbers are decimal, and everything else is JSON. Bytes are text in UTF-8, or
    hexadecimal digits after ``0x``.

    Raises:
        InvalidOptionError: It does not stand for a key.
    """
    try:
        if serde.name == "bytes":
            if text.startswith(_HEXADECIMAL):
                return bytes.fromhex(text.removeprefix(_HEXADECIMAL))
            return text.encode()
        if serde.name == "float64":
            return serde.encode(float(number_text(text)))
        if isinstance(serde, RowSerde | SortedRowSerde):
            return serde.encode_plain(plain_from_text(text))
        return serde.encode(text if serde.name == "utf8" else json.loads(text))
    except (ValueError, RecursionError, SerializationError) as error:
        raise InvalidOptionError(
            f"the option {option!r} must be a key of the serde {serde.name!r}, got {text!r}: "
            f"{error}"
        ) from error
