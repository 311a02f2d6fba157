"""When rows expire, remembered for as many as memory allows: these need not be looked for.

A sweep finds expired rows by reading several others for each, and on an engine that keeps recent
writes sorted it also passes over everything that was deleted there. For the rows that an opening
has written, or met on its way, it can know when they expire.

Keys lie in buckets, whose number is the time at which all of their rows have expired. Invariants:

* a row whose key is in `_bucket_of` has no time above that number, and is as the engine has it:
  what is pending comes here with `commit`;
* each of these keys is in one bucket exactly, or among those that were taken since the last commit.
  It may be a bucket other than its own: the key moves on when that one is due.

None of this is stored. What it does not know, a sweep must find.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from heapq import heappop, heappush
from typing import NamedTuple

BUCKETS = 32
"""Buckets in the lifetime of a row: it is kept longer by at most one of them, or by what a commit
spans."""

_SPANNED = 8
"""A commit that spans more times than one bucket, and up to this many, has one of its own, unless
it is small."""

ROW_OVERHEAD_BYTES = 160
"""What a row takes in addition to the bytes of its key: an object's header, and places in a list
and in a dictionary that may be one third full."""

DELETIONS_PER_WRITE = 2
"""How many rows known to have expired a commit deletes for each row that it writes. One keeps their
number constant, two work off what a leap of time has left."""

DELETIONS_PER_COMMIT = 64
"""How many it deletes in any case."""

_GONE = -1
"""In place of a bucket's number: the row no longer expires."""


class Dated(NamedTuple):
    """Rows that can expire, and when."""

    keys: Collection[bytes]
    """The rows' keys; at least one."""

    lowest_ms: int
    highest_ms: int
    """Bounds of their times."""

    times_ms: Callable[[], Iterable[int]]
    """Returns the times, in the order of the keys."""


class DueRows:
    """The keys of rows, by when they expire."""

    __slots__ = (
        "_bucket_of",
        "_buckets",
        "_capacity_bytes",
        "_held_bytes",
        "_is_pass_whole",
        "_numbers",
        "_taken",
        "_width_ms",
        "has_begun",
        "is_complete",
    )

    def __init__(self, lifetime_ms: int, capacity_bytes: int) -> None:
        """Begin with none. Rows live for *lifetime_ms*; with a capacity of 0 it stays so."""
        self._width_ms = max(1, lifetime_ms // BUCKETS)
        self._capacity_bytes = capacity_bytes
        self.has_begun = False
        """Whether rows expire already, and are remembered: it would cost a tenth of a put
        before."""
        self.forget()

    def forget(self) -> None:
        """Forget everything: the engine may have changed by other means."""
        self.is_complete = False
        """Whether these are all rows of the store that can expire."""
        self._is_pass_whole = False
        self._bucket_of: dict[bytes, int] = {}
        self._buckets: dict[int, list[bytes]] = {}
        self._numbers: list[int] = []  # a heap of the keys of _buckets
        self._taken: list[bytes] = []
        self._held_bytes = 0

    def __contains__(self, key: bytes) -> bool:
        """Whether it knows the row."""
        return key in self._bucket_of

    @property
    def learns(self) -> bool:
        """Whether there is room for rows that a walk meets; if not, it need not report them."""
        if self._held_bytes < self._capacity_bytes:
            return True
        self._is_pass_whole = False
        return False

    def take(
        self, rows: dict[bytes, bytes | None], horizon_ms: int, most: int
    ) -> Collection[bytes]:
        """Add the deletion of up to *most* expired rows to *rows*, the batch of a commit.

        What is among *rows* is left as it is. Return the keys of those that have expired, in order:
        engines that sort take them faster that way.
        """
        self.has_begun = self._capacity_bytes > 0
        due: list[bytes] = []
        bucket_of, numbers = self._bucket_of, self._numbers
        while most > 0 and numbers and numbers[0] <= horizon_ms:
            number = numbers[0]
            keys = self._buckets[number]
            if len(keys) <= most:
                heappop(numbers)
                del self._buckets[number]
            else:
                self._buckets[number] = keys[most:]
                del keys[most:]
            most -= len(keys)
            found = [key for key in keys if bucket_of[key] == number]
            if len(found) < len(keys):
                self._move_on([key for key in keys if bucket_of[key] != number])
            due += found
        if due:
            self._taken += due
            due.sort()
            if rows.keys().isdisjoint(due):
                rows.update(dict.fromkeys(due))
            else:
                for key in due:
                    rows.setdefault(key)
        return due

    def commit(
        self, rows: Mapping[bytes, bytes | None], dated: Dated | None, gone: Collection[bytes] = ()
    ) -> None:
        """Note that the engine has the batch *rows*.

        The *dated* ones among them can expire, and those that are *gone* no longer can.
        """
        bucket_of = self._bucket_of
        taken, self._taken = self._taken, []
        deleted = [key for key in taken if rows.get(key, b"") is None]
        if len(gone) > len(deleted):  # others as well
            bucket_of.update({key: _GONE for key in gone if key in bucket_of})
        if dated is not None:
            self._enter(dated)
        if len(deleted) < len(taken):  # put again since, or not deleted after all
            self._move_on([key for key in taken if rows.get(key, b"") is not None])
        self._drop(deleted)

    def begin_pass(self) -> None:
        """Note that a walk over all rows of the store begins: each will be given to `learn`."""
        self._is_pass_whole = True

    def learn(self, times_ms: dict[bytes, int]) -> None:
        """Take rows that the engine was found to have, with no change of them pending."""
        bucket_of = self._bucket_of
        fresh = {key: time_ms for key, time_ms in times_ms.items() if key not in bucket_of}
        if fresh:
            times = fresh.values()
            self._enter(Dated(fresh, min(times), max(times), fresh.values))

    def end_pass(self) -> None:
        """Note that a walk over all rows is over."""
        self.is_complete = self.is_complete or self._is_pass_whole

    def _enter(self, dated: Dated) -> None:
        """Put keys into buckets."""
        width_ms, last_ms = self._width_ms, dated.highest_ms
        spanned_ms = last_ms - dated.lowest_ms
        if spanned_ms <= _SPANNED * width_ms:
            has_its_own = spanned_ms > width_ms and len(dated.keys) >= BUCKETS
            self._fill(last_ms if has_its_own else self._end_of(last_ms), dated.keys)
            return
        buckets: dict[int, list[bytes]] = {}
        for key, time_ms in zip(dated.keys, dated.times_ms(), strict=True):
            buckets.setdefault(self._end_of(time_ms), []).append(key)
        for number, keys in buckets.items():
            self._fill(number, keys)

    def _end_of(self, time_ms: int) -> int:
        """Return the last time of the bucket that has *time_ms*, which is its number."""
        return time_ms - time_ms % self._width_ms + self._width_ms - 1

    def _fill(self, number: int, keys: Collection[bytes]) -> None:
        """Put *keys* into the bucket *number*, unless there is no room."""
        bucket_of = self._bucket_of
        if bucket_of.keys().isdisjoint(keys):
            fresh = list(keys)
        else:
            fresh = [key for key in keys if key not in bucket_of]
        size = ROW_OVERHEAD_BYTES * len(fresh) + sum(map(len, fresh))
        if self._held_bytes + size > self._capacity_bytes:
            self.is_complete = self._is_pass_whole = False
            keys = [key for key in keys if key in bucket_of]
        else:
            self._held_bytes += size
            self._append(number, fresh)
        for key in keys:
            bucket_of[key] = number

    def _append(self, number: int, keys: list[bytes]) -> None:
        bucket = self._buckets.get(number)
        if bucket is not None:
            bucket += keys
        elif keys:
            self._buckets[number] = keys
            heappush(self._numbers, number)

    def _move_on(self, keys: Collection[bytes]) -> None:
        """Put *keys*, which are in no bucket, into their own, or drop them if they are gone."""
        bucket_of = self._bucket_of
        for key in keys:
            if bucket_of[key] != _GONE:
                self._append(bucket_of[key], [key])
        self._drop([key for key in keys if bucket_of[key] == _GONE])

    def _drop(self, keys: list[bytes]) -> None:
        """Forget *keys*, which are in no bucket."""
        bucket_of = self._bucket_of
        for key in keys:
            del bucket_of[key]
        self._held_bytes -= ROW_OVERHEAD_BYTES * len(keys) + sum(map(len, keys))
