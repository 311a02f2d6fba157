"""The newest sessions of keys that were searched lately: searching these again asks no engine.

Who merges events into sessions searches those of a key before each put, mostly near their end.
Invariants:

* what is here is what the owner sees of a key from some end on, pending writes included: each put
  of a key that is here comes here too, and whatever else changes the store calls `forget`;
* while a put is under way its key is not here, so an interrupt leaves nothing that is wrong;
* only the owner of the store touches it: facades read the engine.
"""

from collections.abc import Iterable
from itertools import islice, starmap

from statestores.semantics.rows.row_cache import KEEP_ONE_IN

Found = tuple[int, int, bytes]
"""End, start and value of a session. Those of a key are sorted: no two have the same times."""

Newest = tuple[int, *tuple[Found, ...]]
"""A time, and all sessions of a key that end then or later. One object: there are very many."""

MOST_SESSIONS = 2
"""Of each key so many are kept: an event meets the last one, or one that ended just before it."""

KEY_OVERHEAD_BYTES = 224
SESSION_OVERHEAD_BYTES = 176
"""What a key takes in memory besides its bytes, and a session besides those of its value."""


class SessionCache:
    """The sessions, and how much memory they take."""

    __slots__ = ("_capacity_bytes", "_dropped", "_held_bytes", "_is_filled", "_misses", "by_key")

    def __init__(self, capacity_bytes: int) -> None:
        """Begin with none; with a capacity of 0 it stays so."""
        self.by_key: dict[bytes, Newest] = {}
        """Those that were put or searched last come last. It is never replaced."""

        self._capacity_bytes = capacity_bytes
        self._held_bytes = 0
        self._dropped = 0  # keys for which there was no room, since what is held was counted
        self._is_filled = False  # whether there was ever no room
        self._misses = 0

    def takes_next(self) -> bool:
        """Return whether a key that was not here is to be kept: few, once there was no room.

        Otherwise keys that come in turns, more than there is room for, would all be kept in vain.
        """
        if not self._is_filled:
            return self._capacity_bytes > 0
        self._misses += 1
        return not self._misses % KEEP_ONE_IN

    def keep(self, key: bytes, from_ms: int, sessions: list[Found]) -> None:
        """Take all *sessions* of *key* that end at *from_ms* or later, which were just read."""
        if len(sessions) > MOST_SESSIONS:
            from_ms = sessions[-MOST_SESSIONS - 1][0] + 1
            sessions = sessions[-MOST_SESSIONS:]
        newest: Newest = (from_ms, *sessions)
        size = _taken(key, newest)
        if size <= self._capacity_bytes:
            self.drop((key,))
            self.by_key[key] = newest
            self._held_bytes += size
            if self._held_bytes > self._capacity_bytes:
                self._make_room()

    def follow(
        self, key: bytes, before: Newest, start_ms: int, end_ms: int, value: bytes | None
    ) -> None:
        """Bring *key* back after a put; *before* is what was here, and was taken out for it."""
        from_ms, *sessions = before
        if end_ms < from_ms:
            self.by_key[key] = before
            return
        held = self._held_bytes
        kept: list[Found] = []
        for each in sessions:
            if each[0] == end_ms and each[1] == start_ms:
                held -= SESSION_OVERHEAD_BYTES + len(each[2])
            else:
                kept.append(each)
        if value is not None:
            held += SESSION_OVERHEAD_BYTES + len(value)
            kept.append((end_ms, start_ms, value))
            if len(kept) > 1:
                kept.sort()
                if len(kept) > MOST_SESSIONS:
                    oldest = kept.pop(0)
                    held -= SESSION_OVERHEAD_BYTES + len(oldest[2])
                    from_ms = oldest[0] + 1
        self.by_key[key] = from_ms, *kept
        self._held_bytes = held
        if held > self._capacity_bytes:
            self._make_room()

    def drop(self, keys: Iterable[bytes]) -> None:
        """Forget *keys*, which were put by another way, or are about to be."""
        if by_key := self.by_key:
            for key in keys:
                found = by_key.pop(key, None)
                if found is not None:
                    self._held_bytes -= _taken(key, found)

    def forget(self) -> None:
        """Forget everything: the store may have changed by other means."""
        self.by_key.clear()
        self._held_bytes = self._dropped = 0
        self._is_filled = False

    def _make_room(self) -> None:
        """Drop the keys that were not used for longest, until a sixteenth of the capacity is free.

        Few go at once: of keys that come in turns, what was not used for longest comes next. To
        count all that is held is dear, so it is done once for as many keys that go as are kept.
        """
        by_key = self.by_key
        self._is_filled = True
        while self._held_bytes > self._capacity_bytes - self._capacity_bytes // 16:
            oldest = list(islice(by_key, len(by_key) // 32 + 1))
            self.drop(oldest)
            self._dropped += len(oldest)
            if self._dropped >= len(by_key):  # an interrupted put may have left its key in the sum
                self._held_bytes = sum(starmap(_taken, by_key.items()))
                self._dropped = 0


def _taken(key: bytes, newest: Newest) -> int:
    """Return what *newest* of *key* take in memory, about."""
    sessions = newest[1:]
    size = KEY_OVERHEAD_BYTES + len(key) + SESSION_OVERHEAD_BYTES * len(sessions)
    for _, _, value in sessions:
        size += len(value)
    return size
