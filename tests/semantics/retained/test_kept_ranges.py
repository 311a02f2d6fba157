"""Ranges of one key that a window store reads from memory, over random lives, against a model.

Nobody reads all keys here, and no facade looks at pending writes: either makes rows of what waits
under its start, and then ranges ask the engine. Whether they did not is asked, too.
"""

import copy
import random
from typing import Any

import pytest

from statestores.errors import CommitConflictError, StateStoreError, StoreClosedError
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.spi import Durability, Window
from statestores_conformance.models.retained import RetainedModel
from statestores_conformance.subjects.faulty_engine import (
    Fault,
    FaultyEngine,
    KeptOpen,
    Moment,
    wait_failed,
)

LIVES = 30
STEPS = 60
KEYS = [b"", b"\x00", b"\x00\xff", *(b"k%02d" % number for number in range(30))]
RETENTION_MS = 640
"""A span has ten milliseconds."""

WINDOW = Window("windows", retention_ms=RETENTION_MS, window_size_ms=5)


class Life:
    """One store, and what it must show."""

    def __init__(self, number: int) -> None:
        """Draw everything from *number*."""
        self.draw = random.Random(number)
        self.engine = load_backend("memory").open("unused")
        self.model = RetainedModel(RETENTION_MS)
        self.committed = copy.deepcopy(self.model)
        self.now = 0
        self.memory = self.draw.choice((0, 6_000, 30_000, 1 << 20, 1 << 20))
        self.repeated = self.draw.choice((1, 1, 200))
        self.deletions = self.draw.choice((0, 0, 0, 0.01))
        self.from_memory = 0
        self.open()

    def open(self) -> None:
        """Open a store that knows only what the engine has."""
        self.watched = FaultyEngine(KeptOpen(self.engine))
        self.store: Any = open_on_engine(
            self.watched,
            WINDOW,
            durability=Durability.PROCESS_CRASH,
            read_cache_bytes=self.memory,
        )

    # What happens to it.

    def put(self) -> None:
        """Put a window of many keys, or of few."""
        self.now += self.draw.choice((0, 0, 5, 5, 10, 35))
        if self.draw.random() < 0.02:
            self.now += RETENTION_MS
        start_ms = max(0, self.now - self.draw.choice((0, 0, 0, 5, 5, 20)))
        count = self.draw.choice((25, 31, 31, *[33] * 5, self.draw.choice((1, 3, 33))))
        is_column = self.draw.random() < 0.3
        keys = self.draw.sample(KEYS, count)
        values = [
            None
            if self.draw.random() < self.deletions
            else b"%d" % self.draw.randrange(99) * self.repeated
            for _ in keys
        ]
        expected = [
            self.model.put(key, start_ms, 0, value) for key, value in zip(keys, values, strict=True)
        ]
        if is_column:
            assert self.store.put_many(keys, values, [start_ms] * count) == sum(expected)
            return
        assert expected == [
            self.store.put(key, value, start_ms) for key, value in zip(keys, values, strict=True)
        ]

    def commit(self) -> None:
        """Commit what is pending, which may be nothing."""
        self.store.commit({})
        self.committed = copy.deepcopy(self.model)

    def roll_back(self) -> None:
        """Forget what is pending, unless the engine has it."""
        try:
            self.store.rollback()
            self.model = copy.deepcopy(self.committed)
        except CommitConflictError:
            self.commit()

    def fail(self) -> None:
        """Have the engine fail in a commit, before or after it has the batch."""
        moment = self.draw.choice(list(Moment))
        self.watched.plan(Fault(call="apply", at=1, moment=moment))
        with pytest.raises(StateStoreError):
            self.store.commit({})
        self.watched.plan(None)
        if moment is Moment.AFTER:
            self.committed = copy.deepcopy(self.model)

    def doubt(self) -> None:
        """Have a commit in doubt until the store is opened again: its writes are pending."""
        moment = self.draw.choice(list(Moment))
        self.watched.plan(Fault(call="apply", at=1, moment=moment, error=wait_failed))
        with pytest.raises(StateStoreError):
            self.store.commit({})
        self.watched.plan(None)
        for _ in range(9):
            self.look()
        if moment is Moment.AFTER:
            self.committed = copy.deepcopy(self.model)
        self.open_again()

    def open_again(self) -> None:
        """Crash, and open."""
        self.open()
        self.model = copy.deepcopy(self.committed)

    def replay(self) -> None:
        """Roll back, and take the same writes as a changelog gives them."""
        changes, reached = self.store.pending_changes(), self.model
        try:
            self.store.rollback()
        except CommitConflictError:
            self.commit()
            return
        self.store.replay(changes)
        self.model = reached

    # What it shows.

    def look(self) -> None:
        """Ask for windows of a key, in either order."""
        scans = self.watched._faults.counted["scan"]
        key = self.draw.choice(KEYS)
        back_ms = self.draw.choice((20, 60, RETENTION_MS + 20))
        low, high = sorted(max(0, self.now - self.draw.randrange(-5, back_ms)) for _ in range(2))
        bounds = self.draw.choice([(low, high), (None, high), (low, None), (None, None)])
        reverse = self.draw.random() < 0.5
        expected = [
            (each, time_ms, time_ms + 5, value)
            for (each, time_ms, _), value in self.model.visible()
            if each == key
            and (bounds[0] is None or bounds[0] <= time_ms)
            and (bounds[1] is None or time_ms <= bounds[1])
        ]
        found = list(self.store.fetch_range(key, *bounds, reverse=reverse))
        self.from_memory += bool(found) and self.watched._faults.counted["scan"] == scans

        assert found == (expected[::-1] if reverse else expected)

    def live(self) -> None:
        """Do something, and look."""
        mishaps = [self.roll_back, self.fail, self.doubt, self.open_again, self.replay]
        for _ in range(STEPS):
            self.draw.choice(
                [self.put] * 8 + [self.commit] * 5 + self.draw.choice(([], [], mishaps))
            )()
            for _ in range(self.draw.choice((0, 0, 12))):
                self.look()


@pytest.mark.spec("WIN-3", "WIN-8", "WIN-12")
def test_ranges_show_the_model() -> None:
    """What is kept, what is pending and what the engine has are one range; many are in memory."""
    from_memory = 0
    for number in range(LIVES):
        life = Life(number)
        try:
            life.live()
        except Exception as error:
            error.add_note(f"in the life {number}")
            raise
        from_memory += life.from_memory

    assert from_memory > LIVES


@pytest.mark.spec("WIN-12")
def test_a_range_in_memory_ends_with_its_store() -> None:
    """Records that were found at the call are not given out once the store is closed."""
    life = Life(0)
    for start_ms in (700, 705, 710):
        assert life.store.put_many(KEYS, [b"x"] * len(KEYS), [start_ms] * len(KEYS)) == len(KEYS)
        life.store.commit({})
    scans = life.watched._faults.counted["scan"]
    windows = life.store.fetch_range(KEYS[0], 700)

    assert next(windows).start_ms == 700
    assert life.watched._faults.counted["scan"] == scans
    life.store.close()
    with pytest.raises(StoreClosedError):
        next(windows)


@pytest.mark.spec("COM-43")
def test_a_range_is_right_while_a_commit_is_in_doubt() -> None:
    """What the commit took out of memory is missing there: ranges go by the engine until it ends.

    Otherwise the window would be taken for one that nobody has, and the key would be looked up in
    rows that are gone.
    """
    life = Life(0)
    for value in (b"before", b"after"):
        for start_ms in (700, 705):
            life.store.put_many(KEYS, [value] * len(KEYS), [start_ms] * len(KEYS))
        if value == b"before":
            life.store.commit({})
    life.watched.plan(Fault(call="apply", at=1, moment=Moment.AFTER, error=wait_failed))
    with pytest.raises(StateStoreError):
        life.store.commit({})

    found = [(each.start_ms, each.value) for each in life.store.fetch_range(KEYS[0], 700, 705)]
    assert found == [(700, b"after"), (705, b"after")]
