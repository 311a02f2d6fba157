"""The rows of a key-value store: a namespace byte in front of the key."""

from collections.abc import Generator, Iterator
from typing import cast

from statestores.semantics.layout import DATA, HISTORY, after_prefix


def key_bounds(first: bytes | None, last: bytes | None) -> tuple[bytes, bytes]:
    """Return the half-open bounds of the rows from *first* to *last*, both inclusive.

    The key right above *last* is *last* with a zero byte behind it.
    """
    start = DATA if first is None else DATA + first
    stop = HISTORY if last is None else DATA + last + b"\x00"
    return start, stop


def prefix_bounds(prefix: bytes) -> tuple[bytes, bytes]:
    """Return the half-open bounds of the rows whose key begins with *prefix* (KVS-9)."""
    # The namespace byte is not 0xFF, so there always is a row above all of them.
    return DATA + prefix, cast("bytes", after_prefix(DATA + prefix))


def key_bounds_of(start: bytes, stop: bytes) -> tuple[bytes, bytes | None]:
    r"""Return the half-open bounds of the keys whose rows lie from *start* to *stop*.

    >>> key_bounds_of(*key_bounds(b"a", None)), key_bounds_of(*key_bounds(None, b"b"))
    ((b'a', None), (b'', b'b\x00'))
    """
    return start[1:], stop[1:] if stop.startswith(DATA) else None


def without_namespace(
    rows: Iterator[tuple[bytes, bytes]],
) -> Generator[tuple[bytes, bytes], None, None]:
    """Turn rows into pairs of key and value."""
    for key, value in rows:
        yield key[1:], value
