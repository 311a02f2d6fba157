"""Sessions over random lives, at the horizon above all: what is found, counted, kept and let go.

The model knows no index, no cache and no engine. Beside what is found it counts what the metrics
and `uncommitted_bytes` are to say, and which point reads have to ask the engine.
"""

import copy
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from statestores.errors import StateStoreError
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.every_kind.arguments import MAX_TIME_MS
from statestores.spi import Changes, Durability, Engine, EngineSnapshot, Session
from statestores_conformance.models.retained import RetainedModel
from statestores_conformance.subjects.faulty_engine import Fault, FaultyEngine, KeptOpen, Moment

LIVES = 16
STEPS = 50
RETENTION_MS = 12
KEYS = (b"", b"\x00", b"a", b"a\x00", b"b")
SESSION = Session("s", retention_ms=RETENTION_MS)


class Watched(KeptOpen):
    """An engine that stays open, and knows which of its snapshots are."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.open_snapshots: set[int] = set()

    def snapshot(self) -> EngineSnapshot:  # noqa: D102  # as of the base
        snapshot = super().snapshot()
        close, number = snapshot.close, id(snapshot)
        self.open_snapshots.add(number)

        def closing() -> None:
            self.open_snapshots.discard(number)
            close()

        snapshot.close = closing  # type: ignore[method-assign]  # for this one
        return snapshot


class Life:
    """One store, and what it must show."""

    def __init__(self, engine: Engine, number: int) -> None:
        """Draw everything from *number*."""
        self.draw = Random(number)
        self.engine = engine
        self.cache_bytes = (0, 1_500, 1 << 20)[number % 3]
        self.now = MAX_TIME_MS - 30 if number % 8 == 7 else self.draw.choice((0, 0, 1_000))
        self.model = RetainedModel(RETENTION_MS)
        self.committed = copy.deepcopy(self.model)
        self.open()

    def open(self) -> None:
        """Open a store that knows only what the engine has, and has counted nothing."""
        self.watched = Watched(self.engine)
        self.faulty = FaultyEngine(self.watched)
        self.store: Any = open_on_engine(
            self.faulty,
            SESSION,
            durability=Durability.PROCESS_CRASH,
            read_cache_bytes=self.cache_bytes,
        )
        self.puts = self.dropped = self.below = self.pending_bytes = 0
        self.model = copy.deepcopy(self.committed)
        self.pending: dict[tuple[bytes, int, int], bytes | None] = {}

    # What is drawn.

    def end(self) -> int:
        """Return an end: about now, or about the horizon."""
        about = self.now - self.draw.choice((0, 0, 1, 3, RETENTION_MS, RETENTION_MS))
        return min(MAX_TIME_MS, max(0, about + self.draw.choice((-1, 0, 0, 1))))

    def times(self) -> tuple[int, int]:
        """Return start and end of a session."""
        end_ms = self.end()
        return max(0, end_ms - self.draw.choice((0, 0, 1, 2, 20))), end_ms

    def value(self) -> bytes | None:
        """Return a value, or a deletion."""
        return self.draw.choice((None, b"", b"%d" % self.draw.randrange(999)))

    def bound(self) -> int | None:
        """Return the bound of a search."""
        return self.draw.choice((None, 0, MAX_TIME_MS, self.end(), self.end(), self.end()))

    # What happens to it.

    def model_put(self, key: bytes, start_ms: int, end_ms: int, value: bytes | None) -> bool:
        """Put into the model, and count."""
        accepted = self.model.put(key, end_ms, start_ms, value)
        if accepted:
            self.pending[key, end_ms, start_ms] = value
            self.pending_bytes += len(key) + 16 + len(value or b"")
        return accepted

    def put(self) -> None:
        """Put a session, or remove one."""
        self.now = min(MAX_TIME_MS, self.now + self.draw.choice((0, 0, 1, 2)))
        if self.draw.random() < 0.03:
            self.now = min(MAX_TIME_MS, self.now + RETENTION_MS)
        key, (start_ms, end_ms), value = self.draw.choice(KEYS), self.times(), self.value()
        if self.model.rows and self.draw.random() < 0.4:  # one that is there
            key, end_ms, start_ms = self.draw.choice(sorted(self.model.rows))
        if value is None:
            accepted = self.store.remove(key, start_ms, end_ms)
        else:
            accepted = self.store.put(key, start_ms, end_ms, value)

        assert accepted is self.model_put(key, start_ms, end_ms, value)
        self.puts += accepted
        self.dropped += not accepted

    def put_many(self) -> None:
        """Put columns, of which some may be too late, or become so within the call."""
        count = self.draw.choice((0, 1, 3, 8, 30))
        keys = self.draw.choices(KEYS, k=count)
        times = [self.times() for _ in keys]
        if self.draw.random() < 0.3:  # all at one time
            times = times[:1] * count
        values = [self.value() for _ in keys]
        accepted = self.store.put_many(
            keys, [start for start, _ in times], [end for _, end in times], values
        )
        expected = [
            self.model_put(key, *each, value)
            for key, each, value in zip(keys, times, values, strict=True)
        ]

        assert accepted == sum(expected)
        self.puts += sum(expected)
        self.dropped += count - sum(expected)

    def changes(self) -> tuple[list[bytes], list[bytes | None], list[int], list[int]]:
        """Return keys, values, starts and ends of a few changes."""
        keys = self.draw.choices(KEYS, k=self.draw.randrange(4))
        times = [self.times() for _ in keys]
        return (
            keys,
            [self.value() for _ in keys],
            [start for start, _ in times],
            [end for _, end in times],
        )

    def replay(self) -> None:
        """Replay changes: as puts, which nobody counts."""
        keys, values, starts, ends = self.changes()
        self.store.replay(Changes(keys, values, starts, end_times_ms=ends))
        for key, value, start_ms, end_ms in zip(keys, values, starts, ends, strict=True):
            self.model_put(key, start_ms, end_ms, value)

    def load(self) -> None:
        """Load changes: whatever their times are, and stream time comes after."""
        keys, values, starts, ends = self.changes()
        stream_time_ms = self.draw.choice((None, None, self.end()))
        self.store.load(
            Changes(keys, values, starts, end_times_ms=ends), stream_time_ms=stream_time_ms
        )
        for key, value, start_ms, end_ms in zip(keys, values, starts, ends, strict=True):
            self.model.rows.pop((key, end_ms, start_ms), None)
            if value is not None:
                self.model.rows[key, end_ms, start_ms] = value
            self.pending[key, end_ms, start_ms] = value
            self.pending_bytes += len(key) + 16 + len(value or b"")
        reached = [self.model.stream_time_ms, stream_time_ms, *ends]
        self.model.stream_time_ms = max(
            (each for each in reached if each is not None), default=None
        )

    def ended(self) -> None:
        """Note that nothing is pending any more."""
        self.pending.clear()
        self.pending_bytes = 0

    def commit(self) -> None:
        """Commit."""
        self.store.commit({})
        self.committed = copy.deepcopy(self.model)
        self.ended()

    def roll_back(self) -> None:
        """Forget what is pending."""
        self.store.rollback()
        self.model = copy.deepcopy(self.committed)
        self.ended()

    def fail(self) -> None:
        """Have a commit fail before the engine has it, or after."""
        value = b"%d" % self.draw.getrandbits(60)  # else the engine may have all of it already
        assert self.store.put(b"failed", self.now, self.now, value)
        assert self.model_put(b"failed", self.now, self.now, value)
        self.puts += 1
        moment = self.draw.choice(list(Moment))
        self.faulty.plan(Fault(call="apply", at=1, moment=moment))
        with pytest.raises(StateStoreError):
            self.store.commit({})
        self.faulty.plan(None)
        if moment is Moment.AFTER:
            self.committed = copy.deepcopy(self.model)
            self.ended()
            self.reads()
            self.store.commit({})  # else the next rollback says once that this one is there
        elif self.draw.random() < 0.5:
            self.roll_back()

    def open_again(self) -> None:
        """Close, and open again: what is pending is gone, and all counters are."""
        self.store.close()
        assert not self.watched.open_snapshots
        self.open()

    def truncate(self) -> None:
        """Empty it."""
        self.store.truncate()
        self.model.clear()
        self.committed.clear()
        self.ended()

    # What is read.

    def found(self, of: RetainedModel) -> list[tuple[bytes, int, int, bytes]]:
        """Return key, start, end and value of what is visible of *of*, in order."""
        return [(key, start, end, value) for (key, end, start), value in of.visible()]

    def reads(self) -> None:
        """Read by every way, as the owner and by both facades."""
        for reader, of in (
            (self.store, self.model),
            (self.store.read_only("read_uncommitted"), self.model),
            (self.store.read_only(), self.committed),
        ):
            every = self.found(of)
            self.read_ranges(reader, every, of)
            self.read_points(reader, every, of)
            assert reader.stream_time_ms == of.stream_time_ms
        assert not self.watched.open_snapshots

    def is_below(self, time_ms: int | None, of: RetainedModel) -> bool:
        """Return whether a read of *time_ms* asks for what has expired."""
        return time_ms is not None and not of.is_visible(time_ms)

    def read_ranges(
        self, reader: Any, every: list[tuple[bytes, int, int, bytes]], of: RetainedModel
    ) -> None:
        """Search one key, many, and by the end."""
        reverse = self.draw.random() < 0.3
        step = -1 if reverse else 1
        key, first, last = (self.draw.choice(KEYS) for _ in range(3))
        earliest, latest = self.bound(), self.bound()
        within = [
            row
            for row in every
            if (earliest is None or row[2] >= earliest) and (latest is None or row[1] <= latest)
        ]
        of_key = [row for row in within if row[0] == key]
        of_keys = [row for row in within if first <= row[0] <= last]
        assert list(reader.find_sessions(key, earliest, latest, reverse=reverse)) == of_key[::step]
        assert list(reader.find_sessions(key, earliest, latest)) == of_key
        assert (
            list(reader.find_all_sessions(earliest, latest, first, last, reverse=reverse))
            == (of_keys[::step])
        )
        assert list(reader.find_all_sessions(earliest, latest, key, key)) == of_key
        assert list(reader.find_all_sessions(reverse=reverse)) == every[::step]
        low, high = self.bound(), self.bound()
        if low is not None and high is not None:
            low, high = sorted((low, high))
        ending = [
            row
            for row in every
            if (low is None or row[2] >= low) and (high is None or row[2] <= high)
        ]
        of_keys = [row for row in ending if first <= row[0] <= last]
        assert list(reader.find_sessions_by_end(low, high, reverse=reverse)) == ending[::step]
        assert list(reader.find_sessions_by_end(low, high, first, last)) == of_keys
        self.below += 2 * self.is_below(high, of)

    def read_points(
        self, reader: Any, every: list[tuple[bytes, int, int, bytes]], of: RetainedModel
    ) -> None:
        """Fetch what is there, and what is not; one by one and together."""
        values = {row[:3]: row[3] for row in every}
        wanted = [(self.draw.choice(KEYS), *self.times()) for _ in range(3)]
        wanted += self.draw.sample(sorted(values), min(2, len(values)))
        wanted += [(key, start, end) for key, end, start in sorted(of.rows)[:2]]
        expected = [values.get(each) for each in wanted]
        engine_gets = self.store._engine_gets
        self.faulty.plan(None)  # counts anew
        assert [reader.fetch_session(*each) for each in wanted] == expected
        if reader is self.store:
            assert self.store._engine_gets - engine_gets == self.faulty.calls["get"]
        assert reader.fetch_many(*map(list, zip(*wanted, strict=True))) == expected
        self.below += 2 * sum(self.is_below(end, of) for _, _, end in wanted)

    def live(self) -> None:
        """Do something, and look at everything."""
        for _ in range(STEPS):
            self.draw.choice(
                [self.put] * 12
                + [self.put_many, self.commit, self.commit, self.commit]
                + [self.replay, self.load]
                + self.draw.choice(
                    (
                        [self.put],
                        [self.roll_back, self.fail, self.open_again],
                        [self.truncate],
                    )
                )
            )()
            self.reads()
            store = self.store
            assert store.uncommitted_bytes == self.pending_bytes
            assert store.has_pending_writes is bool(self.pending)
            counted = (store._puts, store._dropped, store._below_horizon)
            assert counted == (self.puts, self.dropped, self.below)
            self.look_at_pending()
        self.commit()
        content = self.store.committed_content()
        rows = [row for changes in content.changes for row in self.rows_of(changes)]
        assert content.stream_time_ms == self.model.stream_time_ms
        assert rows == self.found(self.model)
        assert not self.watched.open_snapshots

    def rows_of(self, changes: Changes) -> Iterator[tuple[Any, ...]]:
        """Return what `found` does of *changes*."""
        times, ends = changes.times_ms, changes.end_times_ms
        assert times is not None
        assert ends is not None
        return zip(changes.keys, times, ends, changes.values, strict=True)

    def look_at_pending(self) -> None:
        """The pending changes come in the order of their times, so none has expired on its way."""
        changes = self.store.pending_changes()
        rows = {(key, end, start): value for key, start, end, value in self.rows_of(changes)}
        assert rows == self.pending
        assert list(changes.end_times_ms) == sorted(changes.end_times_ms)


@pytest.mark.spec(
    "SES-2", "SES-3", "SES-5", "SES-6", "SES-8", "SES-9", "SES-10", "SES-11", "SES-12"
)
@pytest.mark.spec("SES-13", "SES-23", "COM-16", "COM-17", "COM-34", "ROF-8", "MET-6", "MET-12")
def test_a_life_of_sessions_is_that_of_the_model() -> None:
    """Sixteen lives, some of which end with time itself."""
    for number in range(LIVES):
        with load_backend("memory").open("unused") as engine:
            try:
                Life(engine, number).live()
            except Exception as error:
                error.add_note(f"in the life {number}")
                raise
