"""All reads of window and session stores over long lives, each against one ``dict``.

Lives are drawn from a number. Times are near zero, near the largest one, or of today; retentions
last from a millisecond to for ever; the memory for names is none, little or all there is. Rows come
late, far ahead, and again. Stores are opened again, rolled back, truncated and replayed, and their
commits fail. Iterators stay half-way through while all that happens. In the end everything expires,
and the engine has to be empty: a row that is left is left for ever.
"""

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from statestores.errors import CommitConflictError, StateStoreError, StoreClosedError
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.retained import name_groups, named_spans, naming, progress
from statestores.semantics.rows.layout import DATA, END
from statestores.spi import Durability, Engine, Session, Window
from statestores.verification.engine_rows import examine_rows
from statestores_conformance.models.retained import RetainedModel
from statestores_conformance.subjects.faulty_engine import Fault, FaultyEngine, KeptOpen, Moment

LIVES = 12
SOAK_LIVES = 5_000
STEPS = 25

LATEST_MS = (1 << 63) - 1
KEYS = (b"", b"\x00", b"\x00\x01", b"\x00\xff", b"a", b"a\x00\x01", b"\xff\xff", b"z" * 300)
KINDS = ("window", "duplicates", "session")
RETENTIONS_MS = (1, 64, 65, 320, 320, 1_000, 3_600_000, LATEST_MS)
BEGINNINGS_MS = (0, 0, 1_700_000_000_000, LATEST_MS - 20_000, LATEST_MS - 50)

pytestmark = pytest.mark.filterwarnings("ignore:the first timestamps of:UserWarning")

Found = tuple[bytes, int, int, bytes]
"""Key, time, a session's start (0 for windows), and value."""


class Life:
    """One store, and what it must show."""

    def __init__(self, engine: Engine, number: int) -> None:
        """Draw what kind of store it is from *number*."""
        self.draw = random.Random(number)
        self.engine = engine
        self.kind = self.draw.choice(KINDS)
        self.retention_ms = self.draw.choice(RETENTIONS_MS)
        self.now = self.draw.choice(BEGINNINGS_MS)
        self.memory = self.draw.choice((0, 1, 2_000, 1 << 20, 1 << 62))
        self.model = RetainedModel(self.retention_ms)
        self.committed = copy.deepcopy(self.model)
        self.sequence = self.committed_sequence = 0
        self.half_way: list[tuple[Iterator[Any], list[Found], Any]] = []
        self.open()

    def open(self) -> None:
        """Open a store that knows only what the engine has."""
        self.watched = FaultyEngine(KeptOpen(self.engine))
        ms = self.retention_ms
        specification: Any = Window(
            "w", retention_ms=ms, window_size_ms=1, retain_duplicates=self.kind == "duplicates"
        )
        if self.kind == "session":
            specification = Session("w", retention_ms=ms)
        self.store: Any = open_on_engine(
            self.watched,
            specification,
            durability=Durability.PROCESS_CRASH,
            read_cache_bytes=self.memory,
        )

    # What happens to it.

    def time(self) -> int:
        """Return a time: mostly around now, sometimes at the horizon, or a retention ahead."""
        horizon = (self.model.stream_time_ms or 0) - self.retention_ms
        time_ms = self.draw.choice(
            [self.now - self.draw.randint(0, 12)] * 6
            + [self.now, self.now + self.draw.randint(0, 3), horizon + self.draw.randint(-1, 2)]
        )
        if self.draw.random() < 0.01:
            time_ms = self.now + self.retention_ms + self.draw.randint(-1, 1)
        return min(LATEST_MS, max(0, time_ms))

    def drawn_put(self, deletions: float) -> tuple[bytes, int, int, bytes | None]:
        """Return key, time, a session's start, and value; often of a row that is there."""
        key, time_ms = self.draw.choice(KEYS), self.time()
        start_ms = max(0, time_ms - self.draw.choice((0, 1, 5, time_ms)))
        if self.model.rows and self.draw.random() < 0.3:
            key, time_ms, start_ms = self.draw.choice(list(self.model.rows))
        value = None if self.draw.random() < deletions else b"%d" % self.draw.randint(0, 99)
        return key, time_ms, start_ms if self.kind == "session" else 0, value

    def expect(self, key: bytes, time_ms: int, start_ms: int, value: bytes | None) -> bool:
        """Put into the model, and return whether that was accepted."""
        if self.kind != "duplicates":
            return self.model.put(key, time_ms, start_ms, value)
        is_accepted = value is not None and self.model.put(key, time_ms, self.sequence, value)
        self.sequence += is_accepted
        return is_accepted

    def put(self) -> None:
        """Put rows one by one, or as columns; time goes on, by some spans or not at all."""
        span_ms = max(1, self.retention_ms // named_spans.SPANS_PER_RETENTION)
        self.now = min(LATEST_MS, self.now + self.draw.choice((0, 1, 2, 5, 9)) * span_ms)
        deletions = self.draw.choice((0, 0, 0.1, 0.6))
        puts = [self.drawn_put(deletions) for _ in range(self.draw.choice((1, 3, 23, 24, 60)))]
        is_session = self.kind == "session"
        expected = [self.expect(*each) for each in puts]
        if self.draw.random() < 0.5:
            keys, times, starts, values = map(list, zip(*puts, strict=True))
            columns = (keys, starts, times, values) if is_session else (keys, values, times)
            assert self.store.put_many(*columns) == sum(expected)
        else:
            for (key, time_ms, start_ms, value), is_accepted in zip(puts, expected, strict=True):
                put = (key, start_ms, time_ms, value) if is_session else (key, value, time_ms)
                assert self.store.put(*put) is is_accepted
        self.now = max(self.now, *(time_ms for _, time_ms, _, _ in puts))

    def keep(self) -> None:
        """Take what is pending for committed; the rows are what the layout says."""
        self.committed, self.committed_sequence = copy.deepcopy(self.model), self.sequence
        examined = examine_rows(self.engine)
        assert examined is None or examined.problems == []

    def forget(self) -> None:
        """Take what is pending for forgotten."""
        self.model, self.sequence = copy.deepcopy(self.committed), self.committed_sequence

    def commit(self) -> None:
        """Commit what is pending, which may be nothing."""
        self.store.commit({})
        self.keep()

    def roll_back(self) -> None:
        """Forget what is pending, unless the engine has it."""
        try:
            self.store.rollback()
            self.forget()
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
            self.keep()

    def open_again(self) -> None:
        """Close, or crash, and open."""
        if self.draw.random() < 0.5:
            self.store.close()
        self.open()
        self.forget()

    def replay(self) -> None:
        """Roll back, and take the same writes as a changelog gives them: the same comes out."""
        if self.draw.random() < 0.2:
            self.store.truncate()
            self.model, self.sequence = RetainedModel(self.retention_ms), 0
            self.keep()
        changes, reached, sequence = self.store.pending_changes(), self.model, self.sequence
        try:
            self.store.rollback()
        except CommitConflictError:
            self.commit()
            return
        self.store.replay(changes)
        self.model, self.sequence = reached, sequence

    # What it shows.

    def expected(self, model: RetainedModel, *, reverse: bool) -> list[Found]:
        """Return all that is visible in *model*."""
        is_session = self.kind == "session"
        rows = [
            (key, time_ms, number if is_session else 0, value)
            for (key, time_ms, number), value in model.visible()
        ]
        return rows[::-1] if reverse else rows

    def found(self, records: Any) -> list[Found]:
        """Return the same of what a read gives."""
        if self.kind == "session":
            return [(each.key, each.end_ms, each.start_ms, each.value) for each in records]
        return [(each.key, each.start_ms, 0, each.value) for each in records]

    def reads(self) -> list[tuple[Iterator[Any], list[Found], Any]]:
        """Ask owner or facade for ranges; return what it gives, and what it must give."""
        view, model = self.draw.choice(
            [
                (self.store, self.model),
                (self.store.read_only(), self.committed),
                (self.store.read_only("read_uncommitted"), self.model),
            ]
        )
        assert view.stream_time_ms == model.stream_time_ms
        reverse = self.draw.random() < 0.5
        rows = self.expected(model, reverse=reverse)
        low, high = sorted([self.draw.choice((0, self.time(), self.time())), self.time()])
        key, first, last = (self.draw.choice(KEYS) for _ in range(3))
        within = [row for row in rows if low <= row[1] <= high]
        of_keys = [row for row in within if first <= row[0] <= last]
        if self.kind != "session":
            given = [
                (view.fetch_all(reverse=reverse), rows),
                (view.fetch_all(low, high, first, last, reverse=reverse), of_keys),
                (
                    view.fetch_range(key, low, high, reverse=reverse),
                    [row for row in within if row[0] == key],
                ),
            ]
        else:
            started = [row for row in rows if row[1] >= low and row[2] <= high]
            given = [
                (view.find_all_sessions(reverse=reverse), rows),
                (view.find_sessions_by_end(low, high, first, last, reverse=reverse), of_keys),
                (
                    view.find_sessions(key, low, high, reverse=reverse),
                    [row for row in started if row[0] == key],
                ),
            ]
        values = {row[:3]: row[3] for row in self.expected(model, reverse=False)}
        for one in [*self.draw.sample(sorted(values), min(2, len(values))), (key, high, 0)]:
            fetch = view.fetch_session if self.kind == "session" else view.fetch
            times = (one[2], one[1]) if self.kind == "session" else (one[1],)
            assert fetch(one[0], *times) == values.get(one)
        return [(iterator, list(expected), self.store) for iterator, expected in given]

    def step_on(self) -> None:
        """Read on where a read was left half-way: it shows what was there at its call."""
        waiting, self.half_way = self.half_way, []
        for iterator, expected, store in waiting:
            if not store.is_open:
                with pytest.raises(StoreClosedError):
                    next(iterator)
                continue
            for _ in range(self.draw.choice((0, 1, 40))):
                records = self.found([each for each in [next(iterator, None)] if each is not None])
                assert records == expected[:1]
                if not records:
                    break
                del expected[0]
            else:
                self.half_way.append((iterator, expected, store))

    def live(self) -> None:
        """Do something, and look at everything; then let all of it expire."""
        for _ in range(STEPS):
            self.draw.choice(
                [self.put] * 5
                + [self.commit] * 4
                + [self.roll_back, self.fail, self.open_again, self.replay]
            )()
            for iterator, expected, _ in self.reads():
                assert self.found(iterator) == expected
            self.step_on()
            self.half_way += self.draw.sample(self.reads(), 1)
        self.commit()
        last_ms = (self.model.stream_time_ms or 0) + self.retention_ms
        if last_ms <= LATEST_MS:
            self.expire(last_ms)

    def expire(self, time_ms: int) -> None:
        """Put at *time_ms*: what is put then remains, with its name, and nothing else."""
        times = (time_ms, time_ms, b"v") if self.kind == "session" else (b"v", time_ms)
        assert self.store.put(b"last", *times)
        before: list[tuple[bytes, bytes]] = []
        while before != (rows := list(self.engine.scan(b"", END))):
            before = rows
            self.store.commit({})
        assert sum(1 for _ in self.engine.scan(DATA, END)) == 2


def small_groups(monkeypatch: pytest.MonkeyPatch, draw: random.Random) -> None:
    """Have groups of a few names, and few removals in a commit, or leave both as they are."""
    if draw.random() < 0.3:
        return
    monkeypatch.setattr(name_groups, "MOST_NAMES", draw.choice((1, 7)))
    monkeypatch.setattr(name_groups, "MOST_BYTES", draw.choice((1, 200, 1 << 16)))
    monkeypatch.setattr(naming, "FEWEST_NAMES", draw.choice((1, 2)))
    monkeypatch.setattr(naming, "_FEWEST_ROWS", draw.choice((1, 5)))
    monkeypatch.setattr(naming, "_FREE_DEATHS", draw.choice((0, 6, 256)))
    monkeypatch.setattr(progress, "REMOVALS_PER_COMMIT", draw.choice((1, 3, 64)))
    monkeypatch.setattr(progress, "REMOVALS_PER_WRITE", draw.choice((1, 2)))


def live(monkeypatch: pytest.MonkeyPatch, backend: str, path: Path, number: int) -> None:
    """Live the life with *number*."""
    with monkeypatch.context() as patch, load_backend(backend).open(path) as engine:
        small_groups(patch, random.Random(number))
        try:
            Life(engine, number).live()
        except Exception as error:
            error.add_note(f"in the life {number} on {backend}")
            raise


@pytest.mark.spec("LAY-20", "LAY-30", "WIN-10", "WIN-11", "WIN-13", "WIN-18", "SES-14", "SES-18")
def test_all_reads_show_the_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A dozen lives in memory."""
    for number in range(LIVES):
        live(monkeypatch, "memory", tmp_path / str(number), number)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("backend", ["memory", "rocksdb", "leveldb", "sqlite"])
def test_many_lives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, backend: str) -> None:
    """The same on every backend, some four hundred times as often."""
    for number in range(SOAK_LIVES):
        live(monkeypatch, backend, tmp_path / str(number), number)
