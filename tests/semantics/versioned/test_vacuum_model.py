"""The vacuum of versions by itself, commit by commit, beside a model that reads every row.

The model knows of no row whether it has a value: it reads each before it lets it go. What the
vacuum adds to a batch, what it owes, and what it remembers must be the same, though it reads the
rows alone that may be markers.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from random import Random

import pytest

from statestores.failpoints import arm, disarm
from statestores.semantics.expiry.due_rows import (
    DELETIONS_PER_COMMIT,
    DELETIONS_PER_WRITE,
    ROW_OVERHEAD_BYTES,
    Dated,
    DueRows,
)
from statestores.semantics.expiry.sweep_rate import SweepRate
from statestores.semantics.rows.layout import END, HISTORY
from statestores.semantics.rows.progress import NEVER, Progress
from statestores.semantics.versioned.commit import resolve
from statestores.semantics.versioned.rows import (
    HEADER_BYTES,
    data_key,
    history_key,
    history_row,
    key_of,
    latest_row,
    read_history,
    read_latest,
)
from statestores.semantics.versioned.vacuum import LEAST_FACTOR, MOST_FACTOR, Vacuum
from statestores.spi.durability import Durability
from statestores_conformance.many_cases import for_each
from statestores_memory import MemoryEngine

RETENTION_MS = 320
PLENTY = 1 << 20
SCARCE = 60 * (ROW_OVERHEAD_BYTES + 16)
OWED_PER_COMMIT = 16_384
KEYS = [b"", b"\x00", *(b"%d" % number for number in range(60))]
COMMITS = 150

Rows = dict[bytes, bytes | None]


class Asked(MemoryEngine):
    """An engine that notes which rows are asked for by several keys at once."""

    asked: Sequence[bytes] = ()
    reads = 0

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Read the rows of *keys*, and note them."""
        self.reads += 1
        self.asked = [*self.asked, *keys]
        return super().get_many(keys)


def fields(thing: SweepRate | DueRows) -> dict[str, object]:
    """Return what *thing* holds."""
    return {name: getattr(thing, name) for name in thing.__slots__}


class Model:
    """What a vacuum does, row by row."""

    def __init__(self, capacity_bytes: int) -> None:
        self.rate = SweepRate(least=LEAST_FACTOR, most=MOST_FACTOR)
        self.due = DueRows(RETENTION_MS, capacity_bytes)
        self.owed = self.spent = 0
        self.batch: Rows = {}
        self.bare: set[bytes] = set()

    def goes(self, stored: dict[bytes, bytes], batch: Rows, row: bytes, horizon_ms: int) -> bool:
        """Have a history row deleted, and with a marker its deletion, if its time has come."""
        start, value, end = read_history(row, stored[row])
        assert end is not None
        if end > horizon_ms:
            return False
        if value is None and start == end:
            latest = data_key(key_of(row))
            if end == horizon_ms or latest in batch:
                return False
            if latest in stored and read_latest(stored[latest]).valid_from_ms == start:
                batch[latest] = None
        batch[row] = None
        return True

    def sweep(
        self, stored: dict[bytes, bytes], batch: Rows, progress: Progress, horizon_ms: int
    ) -> None:
        """Add what goes to *batch*."""
        self.batch, self.spent = batch, 0
        if progress.floor_ms > horizon_ms:
            self.owed = 0
            return
        written = len(batch)
        self.spent = min(self.owed, OWED_PER_COMMIT)
        self.rate.grant(written, besides=3 * self.spent)
        most = DELETIONS_PER_COMMIT + DELETIONS_PER_WRITE * written
        for row in self.due.take({}, horizon_ms, most):
            if row not in stored:  # a walk has found it first
                batch.setdefault(row)
            elif row not in batch:
                self.goes(stored, batch, row, horizon_ms)
        budget = self.rate.spend(rests=self.due.is_complete)
        if budget:
            self.walk(stored, batch, progress, horizon_ms, budget)

    def walk(
        self,
        stored: dict[bytes, bytes],
        batch: Rows,
        progress: Progress,
        horizon_ms: int,
        budget: int,
    ) -> None:
        """Look at the next rows from the cursor on."""
        if progress.cursor == HISTORY:
            self.due.begin_pass()
        learns = self.due.learns
        ahead = sorted(row for row in stored if progress.cursor <= row < END)
        found, met = 0, {}
        for row in ahead[:budget]:
            if row in batch:
                continue
            if self.goes(stored, batch, row, horizon_ms):
                found += 1
            else:
                end = read_history(row, stored[row]).valid_to_ms
                assert end is not None
                met[row] = end
        lowest = min(met.values(), default=NEVER)
        progress.pass_floor_ms = min(progress.pass_floor_ms, lowest)
        progress.cursor = (ahead[budget:] or [HISTORY])[0]
        is_over = progress.cursor == HISTORY
        if is_over:
            progress.floor_ms, progress.pass_floor_ms = progress.pass_floor_ms, NEVER
        self.rate.learn(found, is_pass_over=is_over)
        if learns:
            self.due.learn(met)
            self.note_bare({row: stored[row] for row in met})
        if is_over:
            self.due.end_pass()

    def note_bare(self, rows: dict[bytes, bytes]) -> None:
        """Note which of the remembered *rows* have no value."""
        self.bare |= {
            row for row, value in rows.items() if len(value) == HEADER_BYTES and row in self.due
        }

    def note_commit(self) -> None:
        """Note that what was granted is spent."""
        self.rate.commit()
        self.owed -= self.spent
        self.spent = 0

    def end_commit(self) -> None:
        """Note that the engine has the batch."""
        self.note_commit()
        batch, self.batch = self.batch, {}
        if not self.due.has_begun:
            return
        ended = {row: value for row, value in batch.items() if row >= HISTORY and value is not None}
        ends = {row: read_history(row, value).valid_to_ms or 0 for row, value in ended.items()}
        times = ends.values()
        dated = Dated(ends, min(times), max(times), ends.values) if ends else None
        self.bare -= {row for row, value in batch.items() if value is None}
        self.due.commit(batch, dated)
        self.note_bare(ended)

    def forget(self) -> None:
        """Forget what is not stored."""
        self.rate.rollback()
        self.spent = 0
        self.due.forget()
        self.batch = {}
        self.bare = set()


class Run:
    """A vacuum, a model of it, and the rows that both look at."""

    def __init__(self, seed: int, capacity_bytes: int) -> None:
        self.chance = Random(seed)
        self.engine = Asked.open("unused")
        self.vacuum = Vacuum(RETENTION_MS, capacity_bytes)
        self.model = Model(capacity_bytes)
        self.progress = Progress()
        self.stream_time_ms = 0

    def drawn_rows(self, progress: Progress) -> Rows:
        """Draw versions, late ones and deletions among them; return what a commit writes."""
        chance = self.chance
        reached = self.stream_time_ms + chance.choice([0, 1, 7, 40, 400])
        oldest = max(0, reached - RETENTION_MS)
        pending = {
            key: {
                chance.choice([reached, reached, chance.randint(oldest, reached), oldest]): (
                    chance.choice([None, None, b"", b"value"])
                )
                for _ in range(chance.choice([1, 1, 3]))
            }
            for key in chance.sample(KEYS, chance.choice([0, 1, 5, 30]))
        }
        progress.stream_time_ms = self.stream_time_ms = reached
        return resolve(self.engine, {}, pending, progress, reached - RETENTION_MS).rows

    def end_without_a_sweep(self) -> None:
        """Note a commit past the vacuum: nothing of what is owed is removed with it."""
        end = self.chance.choice(["note_commit", "end_commit"])
        getattr(self.vacuum, end)()
        getattr(self.model, end)()
        self.check()

    def check(self) -> None:
        """Compare all that both hold."""
        vacuum, model = self.vacuum, self.model
        assert vacuum.owed == model.owed
        assert fields(vacuum.rate) == fields(model.rate)
        assert fields(vacuum._due) == fields(model.due)
        assert vacuum._bare == model.bare

    def step(self) -> None:
        """Commit, fail to, or commit past the vacuum."""
        chance, vacuum, model = self.chance, self.vacuum, self.model
        owed = chance.choice([0, 0, 0, 30, 400, OWED_PER_COMMIT + 5])
        vacuum.owed += owed
        model.owed += owed
        progress, before = replace(self.progress), self.stream_time_ms
        batch = self.drawn_rows(progress)
        written = list(batch)
        wanted, reckoned = copy(batch), replace(progress)
        horizon = self.stream_time_ms - RETENTION_MS
        self.engine.asked, self.engine.reads = (), 0
        model.sweep(dict(self.engine.scan(b"")), wanted, reckoned, horizon)
        bare = set(vacuum._bare)
        vacuum.sweep(self.engine, batch, progress, horizon)

        assert batch == wanted
        assert list(batch)[: len(written)] == written
        assert progress == reckoned
        assert bare.issuperset(self.engine.asked)
        assert bare or not self.engine.reads
        assert set(written).isdisjoint(self.engine.asked)
        self.check()
        outcome = chance.random()
        if outcome < 0.9:
            self.engine.apply(batch, Durability.PROCESS_CRASH)
            self.progress = progress
            vacuum.end_commit()
            model.end_commit()
        else:
            self.stream_time_ms = before
            vacuum.forget()
            model.forget()
        self.check()
        if outcome > 0.8:
            self.end_without_a_sweep()


@pytest.mark.spec("VRS-8", "VRS-14", "VRS-15")
@pytest.mark.parametrize("capacity_bytes", [0, SCARCE, PLENTY])
@pytest.mark.parametrize("seed", range(3))
def test_the_vacuum_does_what_one_that_reads_every_row_does(seed: int, capacity_bytes: int) -> None:
    """Each row goes once its time has come, a marker takes its deletion along, and no other."""
    run = Run(seed, capacity_bytes)
    with run.engine:
        run.end_without_a_sweep()
        for _ in range(COMMITS):
            run.step()


def test_a_remembered_marker_takes_its_deletion_along() -> None:
    """It falls due while its deletion is the latest version still: both rows go.

    Nobody saw that the vacuum remembers which rows have no value. A mutant that did not let the
    marker go alone, and the deletion stayed for ever.
    """
    vacuum, marker = Vacuum(RETENTION_MS, PLENTY), history_key(b"k", 5)
    with MemoryEngine.open("unused") as engine:
        vacuum.sweep(engine, {}, Progress(floor_ms=0), 0)  # from now on it remembers
        batch: Rows = {data_key(b"k"): latest_row(5, None), marker: history_row(5, None)}
        vacuum.sweep(engine, batch, Progress(floor_ms=5), 4)
        engine.apply(batch, Durability.PROCESS_CRASH)
        vacuum.end_commit()
        batch = {}
        vacuum.sweep(engine, batch, Progress(floor_ms=5), 100)

        assert batch == {data_key(b"k"): None, marker: None}


@pytest.mark.spec("VRS-8")
def test_a_deletion_that_is_superseded_in_the_commit_is_not_removed() -> None:
    """The batch has its row: another version, which must not go with the marker of the deletion."""
    vacuum, latest, marker = Vacuum(RETENTION_MS, 0), data_key(b"k"), history_key(b"k", 5)
    with MemoryEngine.open("unused") as engine:
        stored = {latest: latest_row(5, None), marker: history_row(5, None)}
        engine.apply(stored, Durability.PROCESS_CRASH)
        batch: Rows = {
            latest: latest_row(90, b"v"),
            **{b"\x02%d" % each: b"" for each in range(40)},
        }
        written, progress = dict(batch), Progress(floor_ms=5)
        vacuum.sweep(engine, batch, progress, 100)

        assert batch == written
        assert progress.floor_ms == 5  # the marker is still there


@pytest.mark.spec("VRS-8")
@for_each("latest", [None, latest_row(50, b"v"), latest_row(50, None)])
def test_a_marker_of_what_is_not_the_latest_version_goes_alone(latest: bytes | None) -> None:
    """Whatever has left it there: a row that it does not stand for is nobody's to remove."""
    vacuum, marker = Vacuum(RETENTION_MS, 0), history_key(b"k", 5)
    with MemoryEngine.open("unused") as engine:
        stored: Rows = {marker: history_row(5, None)}
        if latest is not None:
            stored[data_key(b"k")] = latest
        engine.apply(stored, Durability.PROCESS_CRASH)
        vacuum.owed = 100  # so that rows are looked at
        batch: Rows = {}
        vacuum.sweep(engine, batch, Progress(floor_ms=5), 100)

        assert batch == {marker: None}


def test_a_sweep_can_be_stopped_once_it_has_chosen() -> None:
    """Its failpoint is reached where something may have expired, and the batch is whole by then."""
    vacuum, reached = Vacuum(RETENTION_MS, 0), []
    arm("vacuum.swept", lambda: reached.append(True))
    try:
        with MemoryEngine.open("unused") as engine:
            vacuum.sweep(engine, {}, Progress(floor_ms=101), 100)
            assert reached == []
            vacuum.sweep(engine, {}, Progress(floor_ms=100), 100)
    finally:
        disarm()

    assert reached == [True]
