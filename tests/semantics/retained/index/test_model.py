"""Window and session stores whose index has groups, against a model that knows no index.

Groups are small here and memory is short, so that a few steps meet every way into the index. After
each commit the rows are verified, which finds a row that nobody would ever remove; and a leap of
time at the end has to leave nothing but what was put last.
"""

import copy
import os
from itertools import chain
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from statestores.errors import StateStoreError
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.retained import name_groups, naming, progress
from statestores.semantics.retained.named_starts import NOT_KEPT
from statestores.semantics.retained.rows import unnumbered_key
from statestores.semantics.rows.layout import DATA, END
from statestores.spi import Durability, Session, Window
from statestores.verification.engine_rows import examine_rows
from statestores_conformance.models.retained import RetainedModel
from statestores_conformance.subjects.faulty_engine import Fault, FaultyEngine, KeptOpen, Moment

RETENTION_MS = 320
"""A span has five milliseconds."""

KEYS = (b"", b"\x00", b"\x00\x01", b"a", b"a\x00\x01", b"a" * 70)
KINDS: dict[str, Any] = {
    "window": Window("model", retention_ms=RETENTION_MS, window_size_ms=5),
    "duplicates": Window(
        "model", retention_ms=RETENTION_MS, window_size_ms=5, retain_duplicates=True
    ),
    "session": Session("model", retention_ms=RETENTION_MS),
}
MANY = 10_000
"""Commits in which everything that expired must have gone."""

PUTS = st.lists(
    st.tuples(st.integers(0, len(KEYS) - 1), st.integers(0, 12), st.integers(0, 9)), max_size=40
)
"""A key, how long ago, and 0 for a deletion."""


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have groups of up to seven names or 200 bytes, from a commit of five rows on.

    Commits remove so few rows that most groups go in parts.
    """
    monkeypatch.setattr(name_groups, "MOST_NAMES", 7)
    monkeypatch.setattr(name_groups, "MOST_BYTES", 200)
    monkeypatch.setattr(naming, "FEWEST_NAMES", 2)
    monkeypatch.setattr(naming, "_FEWEST_ROWS", 5)
    monkeypatch.setattr(naming, "_FREE_DEATHS", 6)
    monkeypatch.setattr(progress, "REMOVALS_PER_COMMIT", 3)
    monkeypatch.setattr(progress, "REMOVALS_PER_WRITE", 1)


class Life(RuleBasedStateMachine):
    """One store, and what it must show."""

    @initialize(kind=st.sampled_from(sorted(KINDS)), memory=st.sampled_from([0, 700, 1 << 20]))
    def begin(self, kind: str, memory: int) -> None:
        """Begin with an empty engine."""
        self.kind, self.memory, self.now, self.number = kind, memory, 0, 0
        self.engine = load_backend("memory").open("unused")
        self.model, self.committed = RetainedModel(RETENTION_MS), RetainedModel(RETENTION_MS)
        self.open()

    def open(self) -> None:
        """Open a store that knows only what the engine has."""
        self.watched = FaultyEngine(KeptOpen(self.engine))
        self.store: Any = open_on_engine(
            self.watched,
            KINDS[self.kind],
            durability=Durability.PROCESS_CRASH,
            read_cache_bytes=self.memory,
        )

    def put_one(self, key: bytes, time_ms: int, value: bytes | None) -> None:
        """Put into store and model."""
        if self.kind == "session":
            start_ms = max(0, time_ms - len(key) % 3)
            accepted = self.store.put(key, start_ms, time_ms, value)
            assert accepted == self.model.put(key, time_ms, start_ms, value)
            return
        accepted = self.store.put(key, value, time_ms)
        if self.kind == "duplicates" and value is None:
            assert not accepted
            return
        self.number += 1
        number = self.number if self.kind == "duplicates" else 0
        assert accepted == self.model.put(key, time_ms, number, value)

    @rule(puts=PUTS, leap=st.sampled_from([0, 1, 1, 5, 30, RETENTION_MS // 2, 3 * RETENTION_MS]))
    def put(self, puts: list[tuple[int, int, int]], leap: int) -> None:
        """Put some rows around now, which may leap forward."""
        self.now += leap
        for key, ago, value in puts:
            time_ms = max(0, self.now - ago * ago)
            self.put_one(KEYS[key], time_ms, None if value == 0 else b"%d" % value)

    @rule(key=st.integers(0, len(KEYS) - 1), count=st.integers(1, 60))
    def put_columns(self, key: int, count: int) -> None:
        """Put as columns what comes at successive moments."""
        if self.kind == "session":
            return
        times = [self.now + number // 4 for number in range(count)]
        values = [b"%d" % number for number in range(count)]
        assert self.store.put_many([KEYS[key]] * count, values, times) == count
        for time_ms, value in zip(times, values, strict=True):
            self.number += 1
            number = self.number if self.kind == "duplicates" else 0
            self.model.put(KEYS[key], time_ms, number, value)
        self.now = times[-1]

    @rule(
        counts=st.lists(st.integers(1, 12), min_size=1, max_size=4),
        at_once=st.booleans(),
        fault=st.sampled_from([None, None, *Moment]),
    )
    def put_windows_and_commit(
        self, counts: list[int], fault: Moment | None, *, at_once: bool
    ) -> None:
        """Commit windows, one after the other, that no read has made rows of before."""
        for count in counts:
            keys = [b"a\x00" + b"%d" % number for number in range(count)]
            if at_once and self.kind == "window":
                times, values = [self.now] * count, keys[::-1]
                assert self.store.put_many(keys, list(values), times) == count
                for key, value in zip(keys, values, strict=True):
                    self.model.put(key, self.now, 0, value)
            else:
                for key in keys:
                    self.put_one(key, self.now, b"%d" % count)
            self.now += 3
        if fault is None:
            self.commit()
        else:
            self.fail(fault)

    @rule(
        key=st.integers(0, len(KEYS) - 1),
        ago=st.none() | st.integers(0, 12),
        ahead=st.none() | st.integers(-3, 3),
    )
    def search(self, key: int, ago: int | None, ahead: int | None) -> None:
        """Find sessions of a key as who merges events does, again and again."""
        if self.kind != "session":
            return
        earliest = None if ago is None else max(0, self.now - ago * ago)
        latest = None if ahead is None else max(0, self.now + ahead)
        found = [
            (each.end_ms, each.start_ms, each.value)
            for each in self.store.find_sessions(KEYS[key], earliest, latest)
        ]

        assert found == [
            each
            for each in self.sessions_of(KEYS[key], earliest or 0)
            if latest is None or each[1] <= latest
        ]

    @rule(looks=st.lists(st.tuples(st.integers(0, len(KEYS)), st.integers(0, 12)), max_size=20))
    def look(self, looks: list[tuple[int, int]]) -> None:
        """Fetch windows as who aggregates does: from then on their rows are kept."""
        if self.kind != "window":
            return
        keys = [b"a\x000" if key == len(KEYS) else KEYS[key] for key, _ in looks]
        starts = [max(0, self.now - ago * ago) for _, ago in looks]
        visible = {(key, start_ms): value for (key, start_ms, _), value in self.model.visible()}
        expected = [visible.get(window) for window in zip(keys, starts, strict=True)]

        assert list(map(self.store.fetch, keys, starts)) == expected
        assert self.store.fetch_many(keys, starts) == expected

    def sessions_of(self, key: bytes, earliest_ms: int) -> list[tuple[int, int, bytes]]:
        """Return end, start and value of the visible sessions that end at a time or later."""
        return [
            (end_ms, start_ms, value)
            for (its_key, end_ms, start_ms), value in self.model.visible()
            if its_key == key and end_ms >= earliest_ms
        ]

    @rule()
    def commit(self) -> None:
        """Commit; then the rows are what the layout says."""
        self.store.commit({})
        self.committed = copy.deepcopy(self.model)
        self.verify()

    @rule(moment=st.sampled_from(list(Moment)))
    def fail(self, moment: Moment) -> None:
        """Have the engine fail in a commit, before or after it has the batch."""
        self.watched.plan(Fault(call="apply", at=1, moment=moment))
        with pytest.raises(StateStoreError):
            self.store.commit({})
        self.watched.plan(None)
        if moment is Moment.AFTER:
            self.committed = copy.deepcopy(self.model)
        self.verify()

    @rule()
    def roll_back(self) -> None:
        """Forget what is pending, unless the engine has it."""
        try:
            self.store.rollback()
        except StateStoreError:
            self.commit()
        self.model = copy.deepcopy(self.committed)

    @rule()
    def crash(self) -> None:
        """Go on with what the engine has, which is that of a commit: a batch is atomic."""
        self.open()
        self.model = copy.deepcopy(self.committed)

    def rows(self) -> list[tuple[bytes, bytes]]:
        """Return the rows of data and index."""
        return list(self.engine.scan(DATA, END))

    def verify(self) -> None:
        """Find nothing wrong with what is stored."""
        examined = examine_rows(self.engine)

        assert examined is not None
        assert examined.problems == []

    def found(self) -> list[tuple[bytes, int, bytes]]:
        """Return key, time and value of all that the store shows."""
        if self.kind == "session":
            return [(each.key, each.end_ms, each.value) for each in self.store.find_all_sessions()]
        return [(each.key, each.start_ms, each.value) for each in self.store.fetch_all()]

    def expected(self) -> list[tuple[bytes, int, bytes]]:
        """Return the same of the model."""
        return [(key, time_ms, value) for (key, time_ms, _), value in self.model.visible()]

    @invariant()
    def shows_the_model(self) -> None:
        """The store shows what the model has."""
        if hasattr(self, "store"):
            assert self.found() == self.expected()

    @invariant()
    def keeps_what_there_is(self) -> None:
        """What a store keeps in memory, to be found without a look at the engine, is so."""
        if not hasattr(self, "store") or self.kind == "duplicates":
            return
        visible_ms = self.store._horizon + 1
        if self.kind == "window":
            for data_key, value in chain.from_iterable(
                rows.items() for rows in self.store._committed.values()
            ):
                if value is not NOT_KEPT and self.store._rows.time_of(data_key) >= visible_ms:
                    assert value == self.engine.get(data_key)
            for start_ms, windows in self.store._by_committed_start.items():
                for key, value in windows.items():
                    if value is not NOT_KEPT and start_ms >= visible_ms:
                        assert value == self.engine.get(unnumbered_key(key, start_ms))
            return
        for key, (from_ms, *sessions) in self.store._cached.items():
            kept = [each for each in sessions if each[0] >= max(from_ms, visible_ms)]

            assert kept == self.sessions_of(key, from_ms)

    def teardown(self) -> None:
        """Let everything expire: the row of the last put remains, with its name."""
        if not hasattr(self, "store"):
            return
        self.now += 10 * RETENTION_MS
        self.put_one(b"last", self.now, b"v")
        for _ in range(MANY):
            # Names of rows that are gone go too, and then the progress alone tells of it.
            before = list(self.engine.scan(b"", END))
            self.commit()
            if before == list(self.engine.scan(b"", END)):
                break
        assert len(self.rows()) == 2


TestLife = Life.TestCase
if os.environ.get("STATESTORES_SOAK") != "1":
    TestLife.settings = settings(max_examples=25, stateful_step_count=25)
