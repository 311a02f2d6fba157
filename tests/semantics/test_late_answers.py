"""What a store knows of a commit that raised once its engine can be asked, of whatever kind."""

from collections.abc import Iterator
from typing import Any

import pytest

import statestores as ss
from statestores.errors import CommitConflictError, StorageError
from statestores.failpoints import arm, disarm
from statestores.semantics import open_on_engine
from statestores.semantics.every_kind.journal import Journal
from statestores.semantics.every_kind.sorted_rows import SortedRows
from statestores.semantics.expiry import due_rows
from statestores.semantics.rows.layout import DATA, END, HISTORY, POSITION_ROW
from statestores.spi import Changes, Durability, Position, TopicPartition
from statestores_conformance.many_cases import for_each
from statestores_conformance.subjects.faulty_engine import Fault, FaultyEngine, Moment
from statestores_memory import MemoryEngine

INPUT = TopicPartition("clicks", 0)
LOG = TopicPartition("s-changelog", 0)
RETENTION_MS = 100

TIMED: list[Any] = [
    ss.TimestampedKeyValue("s", ttl_ms=RETENTION_MS),
    ss.Versioned("s", history_retention_ms=RETENTION_MS),
    ss.Window("s", retention_ms=RETENTION_MS, window_size_ms=1),
    ss.Window("s", retention_ms=RETENTION_MS, window_size_ms=1, retain_duplicates=True),
    ss.Session("s", retention_ms=RETENTION_MS),
]
EVERY_KIND: list[Any] = [ss.KeyValue("s"), *TIMED]


def put(store: Any, key: bytes, value: bytes, time_ms: int) -> None:
    """Put something of a time into a store of any kind."""
    if store.specification.kind == "session":
        store.put(key, time_ms, time_ms, value)
    elif store.specification.kind == "key-value":
        store.put(key, value)
    else:
        store.put(key, value, time_ms)


def content(store: Any) -> list[Any]:
    """Return everything that the store's own reads find, one way after the other."""
    kind = store.specification.kind
    keys = [b"%d" % number for number in range(8)]
    found: list[Any]
    if kind == "window":
        found = [list(store.fetch_range(key, 0, 10_000)) for key in keys]
        found += [sorted(store.fetch_all(0, 10_000))]
    elif kind == "session":
        found = [list(store.find_sessions(key, 0, 10_000)) for key in keys]
        found += [sorted(store.find_all_sessions(0, 10_000))]
    elif kind == "versioned":
        found = [[store.get(key), list(store.history(key))] for key in keys]
        found += [list(store.scan_as_of(10_000))]
    else:
        found = [store.get(key) for key in keys]
        found += [list(store.range())]
    return found


def lives(store: Any) -> Iterator[None]:
    """Write what four commits have, in which some of it expires; a step for each of them."""
    for number in range(4):
        for key in range(3):
            put(store, b"%d" % ((number + key) % 6), b"%d" % number, 1_000 + 40 * number + key)
        yield


@pytest.mark.spec("COM-9", "COM-43")
@pytest.mark.parametrize("cuts_off", [False, True])
@pytest.mark.parametrize("moment", Moment)
@for_each("specification", EVERY_KIND)
def test_after_a_commit_that_raised_the_store_is_as_if_it_had_not(
    specification: Any, moment: Moment, *, cuts_off: bool
) -> None:
    """Whether the engine has it or not, and whether it could be asked at once.

    What a store keeps in memory of the rows of its engine has to be of the commit that is there.
    """
    behind = MemoryEngine.open("")
    engine = FaultyEngine(behind)
    store: Any = open_on_engine(engine, specification)
    sound: Any = open_on_engine(MemoryEngine.open(""), specification)
    for number, _ in enumerate(zip(lives(store), lives(sound), strict=True)):
        content(store)
        if number:
            engine.plan(Fault(at=1, call="apply", moment=moment, cuts_off=cuts_off))
            with pytest.raises(StorageError):
                store.commit({LOG: number})
            engine.plan(None)
            expected = number if moment is Moment.AFTER else number - 1
            assert store.committed_offset(LOG) == expected
            assert content(store) == content(sound)
        for each in (store, sound):
            each.commit({LOG: number})

        assert content(store) == content(sound)
        assert content(open_on_engine(behind, specification)) == content(sound)


@pytest.mark.spec("COM-43")
@for_each("specification", TIMED)
def test_the_stream_time_of_rows_past_the_writes_counts_once_it_is_known(
    specification: Any,
) -> None:
    """The engine had them and could not be asked; what had expired by them was accepted."""
    engine = FaultyEngine(MemoryEngine.open(""))
    with open_on_engine(engine, specification) as store:
        put(store, b"k", b"v", 1_000)
        store.commit({LOG: 1})
        engine.plan(Fault(at=1, call="apply", moment=Moment.AFTER, cuts_off=True))
        with pytest.raises(StorageError):
            store.commit_rows(SortedRows(highest_ms=5_000, next_number=7), {LOG: 2})
        engine.plan(None)
        assert store.committed_offset(LOG) == 2

        assert store.stream_time_ms == 5_000


@pytest.mark.spec("COM-43")
def test_a_commit_that_is_found_later_leaves_no_position_to_commit() -> None:
    """The position is that of the engine: there is nothing that a rollback could take back."""
    engine = FaultyEngine(MemoryEngine.open(""))
    with open_on_engine(engine, ss.KeyValue("s")) as store:
        store.advance_position({INPUT: 1})
        engine.plan(Fault(at=1, call="apply", moment=Moment.AFTER, cuts_off=True))
        with pytest.raises(StorageError):
            store.commit_rows(SortedRows(rows=[(DATA + b"k", b"v")]), {LOG: 2})
        engine.plan(None)
        assert store.committed_offset(LOG) == 2

        for _ in range(2):
            with pytest.raises(CommitConflictError, match="a commit that failed was to bring"):
                store.rollback()
        assert store.position == {INPUT: 1}


@pytest.mark.spec("MET-6")
@for_each("cuts_off", [False, True])
def test_a_commit_that_raised_and_is_there_is_counted_once(*, cuts_off: bool) -> None:
    """With its rows: a dashboard showed fewer commits than the engine had."""
    engine = FaultyEngine(MemoryEngine.open(""))
    with open_on_engine(engine, ss.KeyValue("s")) as store:
        store.put(b"k", b"v")
        engine.plan(Fault(at=1, call="apply", moment=Moment.AFTER, cuts_off=cuts_off))
        with pytest.raises(StorageError):
            store.commit({LOG: 1})
        engine.plan(None)
        for _ in range(2):
            assert store.committed_offset(LOG) == 1

        assert (store._meter.commits.count, store._meter.rows) == (1, 2)


@pytest.mark.spec("TTL-8")
@pytest.mark.parametrize("moment", Moment)
def test_what_a_sweep_was_granted_is_spent_with_the_commit_that_is_there(moment: Moment) -> None:
    """A commit that the engine has costs what it cost; one that it has not, nothing."""
    engine = FaultyEngine(MemoryEngine.open(""))
    with open_on_engine(engine, ss.TimestampedKeyValue("s", ttl_ms=RETENTION_MS)) as store:
        for number in range(100):
            store.put(b"%d" % number, b"v", 1_000)
        store.commit({})
        before = store._sweep.rate._committed
        store.put(b"0", b"v", 2_000)
        engine.plan(Fault(at=1, call="apply", moment=moment))
        with pytest.raises(StorageError):
            store.commit({})

        assert (store._sweep.rate._committed != before) is (moment is Moment.AFTER)


class Keeping(Journal):
    """A journal that keeps the changes it is given."""

    def __init__(self) -> None:
        self.given: list[Changes] = []

    @property
    def partition(self) -> TopicPartition:
        """Return that of the store's changelog."""
        return LOG

    @property
    def end_offset(self) -> int:
        """Return how often it has been appended to."""
        return len(self.given)

    def append(self, changes: Changes, position: Position, durability: Durability) -> int:
        """Keep *changes*."""
        self.given.append(changes)
        return len(self.given) - 1

    def append_clear(self, durability: Durability) -> int:
        """Have nothing of it."""
        raise StorageError("no space")


def test_a_journal_is_given_the_changes_as_they_were_encoded() -> None:
    """They were made for the record of a commit, and would be encoded a second time."""
    journal = Keeping()
    with open_on_engine(MemoryEngine.open(""), ss.KeyValue("s")) as store:
        store.attach_journal(journal)
        store.put(b"k", b"v")
        encoded = store.pending_changes()
        assert store.commit_and_tell({}, None, encoded) == 0
        store.put(b"k", b"w")
        assert store.commit_and_tell({}) == 1

        assert journal.given[0] is encoded
        assert journal.given[1].values == [b"w"]


@pytest.mark.spec("LGS-12", "COM-42")
def test_a_truncation_that_failed_is_ended_by_a_commit_through_a_journal_that_came_since() -> None:
    """It has no offset of that journal: there was none. The commit was an error of Python's."""
    engine = FaultyEngine(MemoryEngine.open(""))
    with open_on_engine(engine, ss.KeyValue("s")) as store:
        store.put(b"k", b"v")
        store.commit({})
        engine.plan(Fault(at=1, call="apply"))
        with pytest.raises(StorageError):
            store.truncate()
        engine.plan(None)
        store.rollback()
        store.attach_journal(Keeping())
        store.put(b"l", b"v")
        store.commit({})

        assert (store.get(b"k"), store.get(b"l"), store.committed_offset(LOG)) == (None, b"v", 0)


@pytest.mark.spec("COM-43")
@for_each("has_it", [False, True])
def test_a_test_may_have_a_commit_of_rows_fail_on_either_side_of_the_engine(
    *, has_it: bool
) -> None:
    """As it may a commit of writes."""

    def fail() -> None:
        raise OSError("here")

    with open_on_engine(MemoryEngine.open(""), ss.KeyValue("s")) as store:
        arm("commit.apply.after" if has_it else "commit.apply.before", fail)
        try:
            with pytest.raises(OSError, match="here"):
                store.commit_rows(SortedRows(rows=[(DATA + b"k", b"v")]), {LOG: 2})
        finally:
            disarm()

        assert store.get(b"k") == (b"v" if has_it else None)


@pytest.mark.spec("LAY-5")
def test_a_commit_has_the_row_of_the_position_when_it_says_something_new() -> None:
    """One that only puts, and one of an equal position, write none."""
    engine = MemoryEngine.open("")
    with open_on_engine(engine, ss.KeyValue("s")) as store:
        store.put(b"k", b"v")
        store.commit({})
        assert engine.get(POSITION_ROW) is None
        store.advance_position({INPUT: 1})
        store.commit({})
        assert engine.get(POSITION_ROW) is not None
        engine.apply({POSITION_ROW: None}, Durability.PROCESS_CRASH)
        store.advance_position({INPUT: 1})
        store.replace_position({INPUT: 1})
        store.put(b"k", b"w")
        store.commit({})

        assert engine.get(POSITION_ROW) is None


@pytest.mark.spec("VRS-14", "TTL-8")
@for_each(
    "specification",
    [ss.TimestampedKeyValue("s", ttl_ms=RETENTION_MS), ss.Versioned("s", history_retention_ms=1)],
)
def test_rows_that_a_sweep_was_interrupted_over_go_all_the_same(
    specification: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C, once a bucket of them was taken out of the order in which they expire.

    The store believed for as long as it was open that it remembered all there were.
    """
    engine = MemoryEngine.open("")

    def interrupt(numbers: list[int]) -> None:
        numbers.pop(0)
        raise KeyboardInterrupt

    with open_on_engine(engine, specification) as store:
        for number in range(400):
            store.put(b"%d" % (number % 40), b"v", 10 * number)
            store.commit({})
        for time_ms in (4_000, 4_001):
            for number in range(64):
                store.put(b"old %d" % number, b"v", time_ms)
            store.commit({})
        store.put(b"clock", b"v", 9_000)
        with monkeypatch.context() as patch:
            patch.setattr(due_rows, "heappop", interrupt)
            with pytest.raises(KeyboardInterrupt):
                store.commit({})
        for number in range(200):
            store.put(b"clock", b"v", 9_001 + number)
            store.commit({})

        superseded = HISTORY if store.specification.kind == "versioned" else DATA
        assert [key for key, _ in engine.scan(superseded, END) if b"old" in key] == []
