"""Keys as text on the command line: which of them a command reads."""

from typing import Any

from statestores.arrow.keys.key_selection import KeySelection
from statestores.reading.key_text import HEX, TEXT, parse_hex, parse_key
from statestores.spi.specification import StoreSpecification


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
    is_hex = prefix.startswith(HEX)
    start = parse_hex(prefix.removeprefix(HEX)) if is_hex else prefix.removeprefix(TEXT).encode()
    return keys.both(KeySelection.prefix(start))
