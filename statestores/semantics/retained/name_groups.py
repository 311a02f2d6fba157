"""Rows of the index that name many rows at once (spec/08, LAY-30).

A commit names what it has put in one such row for each span of time, instead of in a row for each.
It lies at the highest time of the rows that it names: once that has expired, all of them have. So
they can be deleted without a look at them, and a name of a row that is gone does no harm.

The key has `TAG` where that of a row for one has its key: escaped, a zero byte is followed by 255,
or by a zero byte as the terminator, and never by 1.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, islice

from statestores.errors import StoreCorruptedError
from statestores.semantics.rows.layout import HISTORY

TAG = b"\x00\x01"

GROUP_KEY_BYTES = 1 + 8 + len(TAG) + 8
"""Namespace, time, tag and number."""

MOST_NAMES = 1_024
"""A group has no more: a commit that may remove few rows reads all of it to find them."""

MOST_BYTES = 64 * 1024
"""Beyond these a group takes no further name."""

FEWEST_NAMES = 4
"""Fewer have a row each, which costs as little, and goes when the row goes that it stands for."""

_LENGTH_BYTES = 4
_MIXED = bytes(_LENGTH_BYTES)
"""In place of the length of all names where they differ: each has its own before it."""


def group_key(time: bytes, number: int) -> bytes:
    """Return the key of the group with *number* whose highest time is *time*, packed."""
    return HISTORY + time + TAG + number.to_bytes(8)


def is_group(index_key: bytes) -> bool:
    """Return whether a row of the index is a group, and not one that stands for a single row."""
    return index_key[9:11] == TAG


def pack_names(names: Sequence[bytes]) -> bytes:
    """Return the stored form of *names*, the keys of rows, of which there is one at least."""
    size, sizes = len(names[0]), list(map(len, names))
    if sizes.count(size) == len(names):
        return size.to_bytes(_LENGTH_BYTES) + b"".join(names)
    lengths = {size: size.to_bytes(_LENGTH_BYTES) for size in set(sizes)}
    each = zip(map(lengths.__getitem__, sizes), names, strict=True)
    return _MIXED + b"".join(chain.from_iterable(each))


def pack_joined(size: int, joined: bytes) -> bytes:
    """Return the stored form of names of *size* bytes each, which are *joined*."""
    return size.to_bytes(_LENGTH_BYTES) + joined


def is_one_group(names: Sequence[bytes], joined: bytes) -> bool:
    """Return whether one group has room for *names*, which are *joined*."""
    return len(names) <= MOST_NAMES and len(joined) <= MOST_BYTES


def unpack_names(index_key: bytes, packed: bytes) -> list[bytes]:
    """Return the names in the group *index_key*.

    Raises:
        StoreCorruptedError: These cannot be names.
    """
    size = int.from_bytes(packed[:_LENGTH_BYTES])
    if size:
        names = [packed[at : at + size] for at in range(_LENGTH_BYTES, len(packed), size)]
        is_whole = bool(names) and len(names[-1]) == size
    else:
        names, at = [], _LENGTH_BYTES
        while at < len(packed):
            stop = at + _LENGTH_BYTES + int.from_bytes(packed[at : at + _LENGTH_BYTES])
            names.append(packed[at + _LENGTH_BYTES : stop])
            at = stop
        is_whole = bool(names) and at == len(packed)
    if not is_whole:
        raise StoreCorruptedError(
            f"the index row {index_key!r} holds {len(packed)} bytes that are no names (LAY-30)"
        )
    return names


def groups_of(names: Sequence[bytes], size_bytes: int) -> Iterator[Sequence[bytes]]:
    """Yield *names*, all of which have *size_bytes*, in as many parts as they need groups."""
    if len(names) <= MOST_NAMES and size_bytes <= MOST_BYTES:
        yield names
        return
    waiting = iter(names)
    while part := list(islice(waiting, 1)):
        size = len(part[0])
        while size < MOST_BYTES and len(part) < MOST_NAMES:
            name = next(waiting, None)
            if name is None:
                break
            part.append(name)
            size += len(name)
        yield part
