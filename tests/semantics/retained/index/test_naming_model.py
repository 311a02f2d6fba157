"""What commits of windows and sessions name, and what is remembered of it, against a naive model.

No store and no engine: rows are named over random lives of one opening, and each commit must name
what the rules say, in the way that they say, and leave in memory what it leaves in the model, to
the byte. Were a row named in no way, it would stay for ever; were it named in a group too late or
too early, it would be removed while it is visible.
"""

from random import Random

import pytest
from naming_model import (
    FEWEST_NAMES,
    FEWEST_ROWS,
    FREE_DEATHS,
    MOST_BYTES,
    MOST_NAMES,
    NamingModel,
    Row,
)

from statestores.semantics.retained import name_groups, naming, rows
from statestores.semantics.retained.name_groups import is_group, unpack_names
from statestores.semantics.retained.named_spans import NEVER_MS, NamedSpans
from statestores.semantics.retained.named_starts import NOT_KEPT
from statestores.semantics.retained.naming import Naming
from statestores.semantics.retained.rows import RetainedRows
from statestores.semantics.retained.rows_by_start import RowsByStart, columns_of
from statestores.semantics.rows.layout import DATA, HISTORY
from statestores.semantics.rows.progress import NO_STREAM_TIME

LIVES, COMMITS = 150, 30
KEYS = [b"", b"\x00", b"\x00\x01", *(b"%d" % number for number in range(12)), b"k" * 60]


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have few rows meet every bound."""
    monkeypatch.setattr(name_groups, "MOST_NAMES", MOST_NAMES)
    monkeypatch.setattr(name_groups, "MOST_BYTES", MOST_BYTES)
    monkeypatch.setattr(naming, "FEWEST_NAMES", FEWEST_NAMES)
    monkeypatch.setattr(naming, "_FEWEST_ROWS", FEWEST_ROWS)
    monkeypatch.setattr(naming, "_FREE_DEATHS", FREE_DEATHS)
    monkeypatch.setattr(rows, "_CUT_AT_ONCE", 5)


class Life:
    """One opening and its model, and the engine that has what was committed."""

    def __init__(self, number: int) -> None:
        """Draw everything from *number*."""
        self.draw = Random(number)
        self.has_number = number % 3 == 0
        self.of = RetainedRows(has_number=self.has_number)
        self.retention_ms = self.draw.choice((640, 640, 30))
        memory = (
            self.draw.choice((0, 1_500, 4_000, 1 << 20)),
            self.draw.choice((0, 900, 3_000, 1 << 20)),
        )
        most_names = None if number % 15 == 0 else memory[0]
        self.spans = NamedSpans(self.retention_ms, most_names, memory[1])
        self.naming = Naming(self.of, self.spans)
        self.model = NamingModel(self.of, self.retention_ms, most_names, memory[1])
        self.now = self.draw.choice((NO_STREAM_TIME, 5_000))
        self.deletions, self.longest = self.draw.choice((0, 0.3, 0.7)), self.draw.choice((1, 60))
        self.engine: dict[bytes, Row] = {}
        self.group = 0
        self.last_times: list[int] = []

    def times(self, now_ms: int) -> list[int]:
        """Return a few times around *now_ms* or the horizon, or those of the commit before."""
        if self.last_times and self.draw.random() < 0.4:
            return self.last_times
        near, horizon = self.spans.span_ms, now_ms - self.retention_ms
        first = self.draw.choice((now_ms - near, now_ms - self.draw.randrange(12) * near, horizon))
        count, step = self.draw.choice((1, 1, 2, 6)), self.draw.choice((1, 1, near))
        self.last_times = [min(now_ms, max(0, first + at * step - 1)) for at in range(count)]
        return self.last_times

    def value(self) -> Row:
        """Draw a value or a deletion."""
        return (
            None
            if self.draw.random() < self.deletions
            else b"v" * self.draw.randrange(self.longest)
        )

    def commit(self) -> None:
        """Commit rows in one way or the other, and expect what the model says."""
        committed_ms = self.now
        ahead_ms = self.draw.choice((0, 1, self.spans.span_ms, self.retention_ms // 3, 9))
        self.now = max(0, self.now + ahead_ms)
        if self.draw.random() < 0.2:
            self.spans.takes_new = self.model.takes_new = not self.model.takes_new
        horizon_ms = self.now - self.retention_ms
        times = self.times(self.now)
        if not self.has_number and self.draw.random() < 0.5:
            rows = self.commit_starts(times, horizon_ms, committed_ms)
        else:
            rows = self.commit_rows(times, horizon_ms, committed_ms)
        what = self.draw.random()
        if what < 0.02:
            return  # an interrupt came, and another one: nobody has had it forgotten
        if what < 0.04:
            self.naming.forget()
            self.model.forget()
        else:
            self.engine |= rows
            self.naming.committed()
            self.model.committed()
        self.check_memory(horizon_ms)
        self.check_names(horizon_ms)

    def commit_rows(self, times: list[int], horizon_ms: int, committed_ms: int) -> dict[bytes, Row]:
        """Commit rows by their keys."""
        pending: dict[bytes, Row] = {}
        known = [key for span in self.model.spans.values() for key in span.rows]
        for _ in range(self.draw.choice((0, 1, 3, 5, 6, 8, 12, 30))):
            key = self.of.data_key(
                self.draw.choice(KEYS), self.draw.choice(times), self.draw.randrange(2)
            )
            if known and self.draw.random() < 0.3:
                key = self.draw.choice(known)
            pending[key] = self.value()
        if known and self.draw.random() < self.deletions / 2:
            pending |= dict.fromkeys(known[-self.draw.randrange(5, 20) :])
        every = list(map(self.of.time_of, pending))
        bounds = (min(every), max(every)) if every and self.draw.random() < 0.7 else None
        asked = (bounds, horizon_ms, committed_ms, self.group)
        batch, group, lowest = self.naming.batch_of(dict(pending), *asked)
        self.expect(*self.model.batch_of(pending, *asked[1:]), batch, group, lowest)
        return batch

    def commit_starts(
        self, times: list[int], horizon_ms: int, committed_ms: int
    ) -> dict[bytes, Row]:
        """Commit windows by their starts, if they are enough."""
        starts: RowsByStart = {}
        for start_ms in times:
            if start_ms > horizon_ms:
                keys = self.draw.sample(KEYS, self.draw.choice((1, 2, 6, 9)))
                if self.draw.random() < 0.5:
                    keys = [key for key in keys if len(key) == 1]
                theirs = {key: self.value() or b"" for key in keys}
                if theirs:
                    starts.setdefault(start_ms, {}).update(theirs)
        if not self.naming.has_groups_for(sum(map(len, starts.values()))):
            return self.commit_rows(times, horizon_ms, committed_ms)
        row_bytes = self.draw.choice((1, 3)) * sum(
            len(key) + 8 + len(row or b"")
            for theirs in starts.values()
            for key, row in theirs.items()
        )
        asked = (row_bytes, horizon_ms, committed_ms, self.group)
        expected, next_group = self.model.name_starts(
            {start_ms: dict(theirs) for start_ms, theirs in starts.items()}, *asked
        )
        columns, keys, values = columns_of(self.of, starts)
        index, group, lowest = self.naming.index_of(columns, *asked)
        self.expect(expected, next_group, index, group, lowest)
        return dict(zip(keys, values, strict=True)) | index

    def expect(
        self,
        expected: dict[bytes, Row],
        next_group: int,
        found: dict[bytes, Row],
        group: int,
        lowest: int,
    ) -> None:
        """Compare what a commit is to bring, the next group's number and the lowest time."""
        assert found == expected
        assert group == next_group
        assert self.spans.whole_from_ms == NEVER_MS  # until it is committed
        index = [key for key in expected if key[:1] == HISTORY]
        assert lowest == min(map(rows.index_time, index), default=1 << 63)
        self.group = group

    def check_memory(self, horizon_ms: int) -> None:
        """Find in memory what the model has."""
        spans, model = self.spans, self.model
        by_start: dict[int, dict[bytes, Row]] = {}
        for known in model.spans.values():
            if known.by_start:
                for key, row in known.rows.items():
                    by_start.setdefault(self.of.time_of(key), {})[self.of.key_of(key)] = row
        assert spans.starts.rows == by_start
        assert spans.starts.order == sorted(by_start)
        assert spans.rows == {
            span: known.rows
            for span, known in model.spans.items()
            if known.is_kept and not known.by_start
        }
        assert {span: spans.names_of(span) for span in model.spans if span not in spans.starts} == {
            span: set(known.rows) for span, known in model.spans.items() if not known.by_start
        }
        assert set(spans.starts) == {span for span, known in model.spans.items() if known.by_start}
        assert spans._value_bytes + spans.starts.value_bytes == model.total_value_bytes()
        assert spans._name_bytes + spans.starts.name_bytes == model.total_name_bytes()
        assert spans.whole_from_ms == model.whole_ms
        assert spans.keeps_rows == any(
            known.is_kept or known.by_start for known in model.spans.values()
        )
        every = [key for known in model.spans.values() for key in known.rows]
        every += [self.of.data_key(b"other", self.now)]
        keys, times = list(map(self.of.key_of, every)), list(map(self.of.time_of, every))
        values = [
            known.rows[key] if known.is_kept else NOT_KEPT
            for known in model.spans.values()
            for key in known.rows
        ]
        assert spans.kept_values(keys, every, times) == [*values, NOT_KEPT]
        for key, row in zip(every, values, strict=False):
            if row is not NOT_KEPT and self.of.time_of(key) > horizon_ms:
                assert row == self.engine.get(key)

    def check_names(self, horizon_ms: int) -> None:
        """Find a name for each row that is not gone, and none alone for one that is."""
        index = {key for key, row in self.engine.items() if key[:1] == HISTORY and row is not None}
        groups = {key for key in index if is_group(key)}
        singles = set(self.of.indexed_keys(list(index - groups)))
        named = {name for key in groups for name in unpack_names(key, self.engine[key] or b"")}
        stored = {key for key, row in self.engine.items() if key[:1] == DATA and row is not None}
        assert stored <= singles | named
        assert singles <= stored


@pytest.mark.spec("LAY-20", "LAY-30", "WIN-18")
def test_rows_are_named_by_the_rules_and_remembered() -> None:
    """Over random lives: puts, deletions, expiry, commits large and small, failures, few bytes."""
    for number in range(LIVES):
        life = Life(number)
        for at in range(COMMITS):
            try:
                life.commit()
            except BaseException as error:
                error.add_note(f"in commit {at} of life {number}")
                raise
