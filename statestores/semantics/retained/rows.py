"""The rows of window and session stores: a key, a time that retention looks at, and a number.

Both kinds keep a row until stream time has passed its time by the retention. A window's time is
its start, a session's its end; the number is a session's start, or the sequence of a retained
duplicate. In the engine (spec/08) there is

* in `DATA` the value, ordered by key, time and number, as it is read;
* in `HISTORY` the row's name, ordered by time, so that what expires lies together at the beginning:
  either in a row of its own without a value, or in a group with others (`name_groups`).
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import repeat
from struct import Struct

from statestores.semantics.rows.escaped_keys import escape, unescape
from statestores.semantics.rows.layout import DATA, HISTORY

TIME_BYTES = 8
_TIME = Struct(">Q")
SUFFIX_BYTES = 10
"""The key's terminator, two zero bytes, and the time: one number of ten bytes takes half the time
of a ``Struct``."""
_SUFFIX_AND_NUMBER = Struct(">HQQ")

pack_time = _TIME.pack

pack_suffix_and_number = _SUFFIX_AND_NUMBER.pack
"""Returns the end of a key with a number: 0, the time and the number."""

unpack_time_from = _TIME.unpack_from
"""Returns the time at a place in the key of a row. Faster than a slice and a number of it."""

unpack_times_from = Struct(">QQ").unpack_from
"""Returns the time and the number at a place in the key of a row."""

NEVER = pack_time(1 << 63)
"""Above every time, packed."""

Row = tuple[bytes, bytes]
"""A row of `DATA`, key and value."""


def index_above(time_ms: int) -> bytes:
    """Return the lowest key of the index above all rows with times up to *time_ms*."""
    return HISTORY + pack_time(time_ms + 1)


def index_time(index_key: bytes) -> int:
    """Return the time of a row of the index."""
    return int.from_bytes(index_key[1 : 1 + TIME_BYTES], "big")


_CUT_AT_ONCE = 128
"""So many keys are cut off in one call. With fewer, to make each of them is as fast."""

_MADE_AS_SOON = 4
"""If every so many keys have a zero byte, to make each of them is as fast as to make these anew."""


@lru_cache(maxsize=512)
def _cutter(size: int, count: int) -> Callable[[bytes, int], tuple[bytes, ...]]:
    return Struct(f"{size}s" * count).unpack_from


def _cut(joined: bytes, size: int) -> list[bytes]:
    """Return *joined* in pieces of *size* bytes: a third less than making each of them."""
    at = len(joined) // size % _CUT_AT_ONCE * size
    pieces = list(_cutter(size, at // size)(joined, 0))
    cut = _cutter(size, _CUT_AT_ONCE)
    for first in range(at, len(joined), size * _CUT_AT_ONCE):
        pieces += cut(joined, first)
    return pieces


def unnumbered_key(key: bytes, time_ms: int) -> bytes:
    """Return the key of a row without a number: the lowest of all with this key and time."""
    # `escape`, written out: this is in the path of each fetch and put of a window.
    return DATA + key.replace(b"\x00", b"\x00\xff") + time_ms.to_bytes(SUFFIX_BYTES)


class RetainedRows:
    """The keys of one store's rows: with a number after the time, or without."""

    __slots__ = ("has_number", "suffix_bytes", "time_from_end")

    def __init__(self, *, has_number: bool) -> None:
        self.has_number = has_number
        self.suffix_bytes = _SUFFIX_AND_NUMBER.size if has_number else SUFFIX_BYTES
        self.time_from_end = self.suffix_bytes - 2

    def data_key(self, key: bytes, time_ms: int, number: int = 0) -> bytes:
        """Return the key of a row."""
        if self.has_number:
            return DATA + escape(key) + _SUFFIX_AND_NUMBER.pack(0, time_ms, number)
        return unnumbered_key(key, time_ms)

    def data_keys(
        self,
        keys: list[bytes],
        times_ms: list[int],
        numbers: list[int] | None = None,
        *,
        joined: bytes | None = None,
    ) -> list[bytes]:
        """Return the keys of many rows; *joined* is all of *keys* in one, if it is at hand."""
        escaped = keys
        if b"\x00" in (b"".join(keys) if joined is None else joined):
            escaped = [key.replace(b"\x00", b"\x00\xff") for key in keys]  # `escape`, written out
        suffixes: Iterable[bytes]
        if numbers is not None and self.has_number:
            suffixes = map(_SUFFIX_AND_NUMBER.pack, repeat(0), times_ms, numbers)
        else:
            packed = {time_ms: time_ms.to_bytes(SUFFIX_BYTES) for time_ms in set(times_ms)}
            suffixes = map(packed.__getitem__, times_ms)
        return list(map(b"".join, zip(repeat(DATA), escaped, suffixes)))

    def data_keys_at(self, keys: list[bytes], time_ms: int) -> list[bytes]:
        """Return the keys of rows without a number, all with the same time."""
        return self.joined_keys_at(keys, time_ms)[0]

    def joined_keys_at(self, keys: list[bytes], time_ms: int) -> tuple[list[bytes], bytes | None]:
        """Return `data_keys_at`, and all of them joined if they are many of the same length."""
        suffix = time_ms.to_bytes(SUFFIX_BYTES)
        plain = b"".join(keys)
        zeros = plain.count(b"\x00") if b"\x00" in plain else 0  # mostly: it is found sooner
        if zeros * _MADE_AS_SOON > len(keys):
            keys = [key.replace(b"\x00", b"\x00\xff") for key in keys]  # `escape`, written out
            zeros = 0
        size = len(keys[0]) if keys else 0
        if len(keys) < _CUT_AT_ONCE or list(map(len, keys)).count(size) < len(keys):
            escaped = map(escape, keys) if zeros else keys
            return [DATA + key + suffix for key in escaped], None
        joined = DATA + (suffix + DATA).join(keys) + suffix
        cut = _cut(joined, len(DATA) + size + SUFFIX_BYTES)
        if not zeros:
            return cut, joined
        at = plain.find(b"\x00")
        while at >= 0:
            place = at // size
            cut[place] = DATA + escape(keys[place]) + suffix
            at = plain.find(b"\x00", (place + 1) * size)
        return cut, None

    def index_key(self, data_key: bytes) -> bytes:
        """Return the key in the index of the row *data_key*, where it is named alone."""
        return self.index_keys([data_key])[0]

    def index_keys(self, data_keys: Iterable[bytes]) -> list[bytes]:
        """Return the keys in the index of rows, where they are named alone."""
        if not self.has_number:
            return [HISTORY + key[-TIME_BYTES:] + key[1:-TIME_BYTES] for key in data_keys]
        time_at, number_at = -self.time_from_end, -TIME_BYTES
        return [
            HISTORY + key[time_at:number_at] + key[1:time_at] + key[number_at:] for key in data_keys
        ]

    def highest_time(self, data_keys: Iterable[bytes]) -> bytes:
        """Return the highest time of rows, of which there is one at least, packed."""
        time_at = -self.time_from_end
        time_to = (time_at + TIME_BYTES) or None
        return max([key[time_at:time_to] for key in data_keys])

    def indexed_key(self, index_key: bytes) -> bytes:
        """Return the key of the row that a row of the index stands for."""
        return self.indexed_keys([index_key])[0]

    def indexed_keys(self, index_keys: list[bytes]) -> list[bytes]:
        """Return the keys of the rows that rows of the index stand for."""
        time_end = 1 + TIME_BYTES
        if not self.has_number:
            return [DATA + key[time_end:] + key[1:time_end] for key in index_keys]
        return [
            DATA + key[time_end:-TIME_BYTES] + key[1:time_end] + key[-TIME_BYTES:]
            for key in index_keys
        ]

    def time_of(self, data_key: bytes) -> int:
        """Return the time of a row."""
        time_at = len(data_key) - self.time_from_end
        return int.from_bytes(data_key[time_at : time_at + TIME_BYTES], "big")

    def number_of(self, data_key: bytes) -> int:
        """Return the number of a row. Requires: it has one."""
        return int.from_bytes(data_key[-TIME_BYTES:], "big")

    def key_of(self, data_key: bytes) -> bytes:
        """Return the key that a row belongs to."""
        return unescape(data_key[1 : -self.suffix_bytes])

    def bounds(
        self, first_key: bytes | None, last_key: bytes | None, first_ms: int, last_ms: int
    ) -> tuple[bytes, bytes]:
        """Return half-open bounds of the rows within both inclusive ranges.

        Exact when both keys are the same. Otherwise `within` must leave out the rows of the keys in
        between whose time is out of range.
        """
        start = DATA if first_key is None else unnumbered_key(first_key, first_ms)
        if first_ms > last_ms:
            return start, start
        if last_key is None:
            return start, HISTORY
        return start, unnumbered_key(last_key, last_ms + 1)

    def within(self, rows: Iterable[Row], first_ms: int, last_ms: int) -> Iterator[Row]:
        """Yield the rows with times from *first_ms* to *last_ms*, both inclusive."""
        low, high = pack_time(first_ms), pack_time(last_ms)
        from_end = self.time_from_end
        for row in rows:
            time_at = len(row[0]) - from_end
            if low <= row[0][time_at : time_at + TIME_BYTES] <= high:
                yield row
