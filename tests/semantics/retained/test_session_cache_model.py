"""The cache of sessions by itself, against one that counts everything anew at each step."""

from random import Random

import pytest

from statestores.semantics.retained.session_cache import (
    KEY_OVERHEAD_BYTES,
    MOST_SESSIONS,
    SESSION_OVERHEAD_BYTES,
    Found,
    Newest,
    SessionCache,
)

LIVES = 30
STEPS = 120
KEYS = [b"%d" % number for number in range(7)]
WHOLE_BYTES = KEY_OVERHEAD_BYTES + 1 + MOST_SESSIONS * SESSION_OVERHEAD_BYTES
"""What a key takes with as many sessions as are kept, of empty values."""

CAPACITIES = [
    0,
    WHOLE_BYTES - 1,
    WHOLE_BYTES,
    2 * WHOLE_BYTES - 1,
    2 * WHOLE_BYTES,
    4 * WHOLE_BYTES,
    4 * WHOLE_BYTES + 3,
    1 << 20,
]


class Naive:
    """What is to be in a cache: nothing is added up, everything is looked at again."""

    def __init__(self, capacity_bytes: int) -> None:
        """Begin with nothing."""
        self.capacity_bytes = capacity_bytes
        self.by_key: dict[bytes, Newest] = {}
        self.left_bytes = 0
        """What interrupted puts have left in the sum."""

        self.dropped = 0
        """How many keys had no room since that sum was last counted, or was of nothing."""

    @property
    def held_bytes(self) -> int:
        """What is held, as far as the cache can know."""
        return self.left_bytes + sum(map(self.taken, self.by_key))

    def taken(self, key: bytes) -> int:
        """Return what *key* takes."""
        values = [value for _, _, value in self.by_key[key][1:]]
        return (
            KEY_OVERHEAD_BYTES
            + len(key)
            + len(b"".join(values))
            + SESSION_OVERHEAD_BYTES * len(values)
        )

    def take(self, key: bytes, from_ms: int, sessions: list[Found]) -> None:
        """Have the newest *sessions* of *key*, as the one that was used last."""
        newest = sorted(sessions)[-MOST_SESSIONS:]
        if older := sorted(sessions)[:-MOST_SESSIONS]:
            from_ms = older[-1][0] + 1
        self.by_key[key] = (from_ms, *newest)

    def make_room(self) -> bool:
        """Drop the oldest keys until a sixteenth is free; return whether it was needed."""
        if self.held_bytes <= self.capacity_bytes:
            return False
        while self.held_bytes > self.capacity_bytes - self.capacity_bytes // 16:
            for key in list(self.by_key)[: len(self.by_key) // 32 + 1]:
                del self.by_key[key]
                self.dropped += 1
            if self.dropped >= len(self.by_key):
                self.left_bytes = self.dropped = 0
        return True


class Life:
    """A cache and what it must be."""

    def __init__(self, number: int) -> None:
        """Draw everything from *number*."""
        self.draw = Random(number)
        self.cache = SessionCache(CAPACITIES[number % len(CAPACITIES)])
        self.naive = Naive(CAPACITIES[number % len(CAPACITIES)])
        self.is_filled = False
        self.misses = 0

    def value(self) -> bytes:
        """Return a value, mostly an empty one."""
        return b"v" * self.draw.choice((0, 0, 0, 0, 1, 99))

    def keep(self) -> None:
        """Keep what was read of a key, sorted as it is read; too much is not kept."""
        key, from_ms = self.draw.choice(KEYS), self.draw.randrange(5)
        sessions = sorted(
            {
                (from_ms + self.draw.randrange(6), self.draw.randrange(3)): self.value()
                for _ in range(self.draw.randrange(6))
            }.items()
        )
        found = [(end, start, value) for (end, start), value in sessions]
        alone = Naive(self.naive.capacity_bytes)
        alone.take(key, from_ms, found)
        if alone.taken(key) <= alone.capacity_bytes:
            self.naive.by_key.pop(key, None)
            self.naive.by_key |= alone.by_key
        self.cache.keep(key, from_ms, list(found))

    def follow(self) -> None:
        """Put a session of a key that is there."""
        if not self.cache.by_key:
            return
        key = self.draw.choice(list(self.cache.by_key))
        start_ms, end_ms = self.draw.randrange(3), self.draw.randrange(12)
        value = self.draw.choice((None, self.value(), self.value()))
        before = self.cache.by_key.pop(key)
        self.cache.follow(key, before, start_ms, end_ms, value)
        from_ms, *sessions = self.naive.by_key.pop(key)
        if end_ms >= from_ms:
            rows = {(end, start): found for end, start, found in sessions}
            rows.pop((end_ms, start_ms), None)
            if value is not None:
                rows[end_ms, start_ms] = value
            sessions = [(end, start, found) for (end, start), found in rows.items()]
        self.naive.take(key, from_ms, sessions)

    def drop(self) -> None:
        """Drop keys, one of which may come twice, or not be there."""
        keys = self.draw.choices(KEYS, k=self.draw.randrange(4))
        self.cache.drop(keys)
        for key in keys:
            self.naive.by_key.pop(key, None)

    def interrupt(self) -> None:
        """Break off a put: its key is counted until somebody counts anew."""
        if self.cache.by_key:
            key = self.draw.choice(list(self.cache.by_key))
            self.naive.left_bytes += self.naive.taken(key)
            del self.cache.by_key[key], self.naive.by_key[key]

    def forget(self) -> None:
        """Forget all of it, that there was no room among it."""
        self.cache.forget()
        self.naive.by_key.clear()
        self.naive.left_bytes = self.naive.dropped = 0
        self.is_filled = False

    def ask(self) -> None:
        """Ask whether to take a key: all that come, or one in eight once there was no room."""
        if self.is_filled:
            self.misses += 1
            assert self.cache.takes_next() is (self.misses % 8 == 0)
        else:
            assert self.cache.takes_next() is (self.naive.capacity_bytes > 0)

    def live(self) -> None:
        """Do something, and compare."""
        kept = self.cache.by_key
        steps = [self.keep] * 8 + [self.follow] * 8 + [self.drop, self.ask, self.ask]
        for number in range(STEPS):
            step = self.draw.choice(steps)
            if number % 40 == 39:
                step = self.draw.choice((self.interrupt, self.forget))
            step()
            if step in (self.keep, self.follow) and self.naive.make_room():
                self.is_filled = True

            assert list(self.cache.by_key.items()) == list(self.naive.by_key.items())
            assert self.cache._held_bytes == self.naive.held_bytes
            assert self.cache.by_key is kept


@pytest.mark.spec("SES-9", "SES-10")
def test_what_is_in_memory_is_what_was_put_and_used_last() -> None:
    """The newest of each key, from which end on they are all of it, in which order, how large.

    A cache that says of too early an end that it has everything hides sessions, and a session that
    is not merged is counted twice for ever. One that counts too little outgrows its memory.
    """
    for number in range(LIVES):
        try:
            Life(number).live()
        except AssertionError as error:
            error.add_note(f"in the life {number}")
            raise
