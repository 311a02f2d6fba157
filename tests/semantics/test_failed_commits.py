"""What a store says and does after a commit that raised, while its engine has it, or has not."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import statestores as ss
from statestores.errors import (
    CommitConflictError,
    InvalidArgumentError,
    StorageError,
    StoreClosedError,
)
from statestores.failpoints import arm, disarm
from statestores.semantics import open_on_engine
from statestores.semantics.every_kind.journal import Journal
from statestores.semantics.every_kind.sorted_rows import SortedRows
from statestores.semantics.rows.layout import DATA
from statestores.spi import Changes, Durability, Position, TopicPartition
from statestores_conformance.subjects.faulty_engine import (
    Fault,
    FaultyEngine,
    KeptOpen,
    Moment,
    wait_failed,
)
from statestores_memory import MemoryEngine

INPUT = TopicPartition("clicks", 0)
LOG = TopicPartition("s-changelog", 0)
AFTER = Fault(at=1, call="apply", moment=Moment.AFTER)
BEFORE = Fault(at=1, call="apply")


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    """Leave nothing armed for the next test."""
    yield
    disarm()


@pytest.fixture
def engine() -> FaultyEngine:
    """An engine that fails when it is told to."""
    return FaultyEngine(MemoryEngine.open("unused"))


@pytest.fixture
def store(engine: FaultyEngine) -> Iterator[Any]:
    """A store on it that has one commit."""
    with open_on_engine(KeptOpen(engine), ss.KeyValue("s")) as opened:
        opened.put(b"k", b"old")
        opened.advance_position({INPUT: 1})
        opened.commit({LOG: 1})
        yield opened
        engine.plan(None)


def fail_a_commit(store: Any, engine: FaultyEngine, fault: Fault) -> None:
    """Have the commit of a put, a position and an offset raise."""
    store.put(b"k", b"new")
    store.advance_position({INPUT: 2})
    engine.plan(fault)
    with pytest.raises(StorageError):
        store.commit({LOG: 2})
    engine.plan(None)


@pytest.mark.spec("COM-9")
def test_a_commit_that_the_engine_has_not_is_pending_still(
    store: Any, engine: FaultyEngine
) -> None:
    """Others see the commit before; a rollback forgets all of it, the position included."""
    fail_a_commit(store, engine, BEFORE)

    assert (store.committed_offsets(), store.next_offset(LOG)) == ({LOG: 1}, 2)
    assert (store.read_only().get(b"k"), store.get(b"k")) == (b"old", b"new")
    assert store.position == {INPUT: 2}
    store.rollback()
    assert (store.get(b"k"), store.position) == (b"old", {INPUT: 1})


@pytest.mark.spec("COM-43")
def test_a_commit_that_the_engine_has_cannot_be_rolled_back(
    store: Any, engine: FaultyEngine
) -> None:
    """Nothing is pending, so a rollback says so each time, until a commit did not raise."""
    fail_a_commit(store, engine, AFTER)

    assert (store.committed_offsets(), store.next_offset(LOG)) == ({LOG: 2}, 3)
    assert (store.read_only().get(b"k"), store.position) == (b"new", {INPUT: 2})
    assert not store.has_pending_writes
    for _ in range(3):
        with pytest.raises(CommitConflictError, match="has what a commit that failed was to bring"):
            store.rollback()
    store.commit({})
    store.rollback()
    assert (store.get(b"k"), store.position) == (b"new", {INPUT: 2})


@pytest.mark.spec("COM-43")
@pytest.mark.parametrize(
    "write",
    [lambda store: store.put(b"k", b"later"), lambda store: store.advance_position({INPUT: 3})],
    ids=["put", "position"],
)
def test_who_was_told_may_forget_what_was_written_since(
    store: Any, engine: FaultyEngine, write: Callable[[Any], object]
) -> None:
    """That alone; and of the next commit that fails so a caller is told anew."""
    for _ in range(2):
        fail_a_commit(store, engine, AFTER)
        write(store)
        with pytest.raises(CommitConflictError):
            store.rollback()
        store.rollback()

        assert (store.get(b"k"), store.position) == (b"new", {INPUT: 2})
        store.put(b"k", b"old")
        store.commit({})
        store.put(b"k", b"pending")
        store.rollback()
        assert store.get(b"k") == b"old"
        store.advance_position({INPUT: 2})


@pytest.mark.spec("COM-43")
@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize(
    "ask",
    [
        lambda store: store.committed_offset(LOG),
        lambda store: store.committed_offsets().get(LOG),
        lambda store: store.next_offset(LOG) - 1,
    ],
    ids=["offset", "offsets", "next offset"],
)
def test_an_engine_that_cannot_be_asked_is_asked_again(
    store: Any, engine: FaultyEngine, ask: Callable[[Any], int], moment: Moment
) -> None:
    """Until then whatever depends on its answer raises the engine's own error."""
    store.put(b"k", b"new")
    engine.plan(Fault(at=1, call="apply", moment=moment, cuts_off=True))
    with pytest.raises(StorageError):
        store.commit({LOG: 2})
    for call in (ask, lambda store: store.commit({}), lambda store: store.rollback()):
        with pytest.raises(StorageError):
            call(store)
    engine.plan(None)

    assert ask(store) == (2 if moment is Moment.AFTER else 1)
    assert store.get(b"k") == b"new"


@pytest.mark.spec("COM-46")
def test_an_engine_whose_wait_for_the_disk_failed_is_not_believed(
    store: Any, engine: FaultyEngine
) -> None:
    """It has the batch in memory, and perhaps not in its log."""
    store.put(b"k", b"new")
    engine.plan(Fault(at=1, call="apply", moment=Moment.AFTER, error=wait_failed))
    with pytest.raises(StorageError):
        store.commit({LOG: 2})
    engine.plan(None)
    for call in (store.committed_offsets, store.rollback, store.truncate, lambda: store.commit({})):
        with pytest.raises(StorageError, match="nobody knows whether the last commit"):
            call()


class Recording(Journal):
    """A journal that keeps what it is given, and raises when it is told to."""

    def __init__(self) -> None:
        self.end = 0
        self.error: BaseException | None = None
        self.has_it = False

    @property
    def partition(self) -> TopicPartition:
        """Return that of the store's changelog."""
        return LOG

    @property
    def end_offset(self) -> int:
        """Return how often it has been appended to."""
        return self.end

    def append(self, changes: Changes, position: Position, durability: Durability) -> int:
        """Have one more record, unless it is to fail without."""
        return self._append()

    def append_clear(self, durability: Durability) -> int:
        """Have one more record, unless it is to fail without."""
        return self._append()

    def _append(self) -> int:
        error = self.error
        if error is None or self.has_it:
            self.end += 1
        if error is not None:
            raise error
        return self.end - 1


@pytest.mark.spec("LGS-10")
@pytest.mark.parametrize("error", [StorageError("no space"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("has_it", [False, True])
@pytest.mark.parametrize("had_it", [False, True])
def test_what_a_journal_has_or_may_have_cannot_be_rolled_back(
    engine: FaultyEngine, error: BaseException, *, has_it: bool, had_it: bool
) -> None:
    """Only an error of ours, by which its end has not moved, says that it has nothing.

    And that only if no commit of the same writes went through it before.
    """
    journal = Recording()
    with open_on_engine(engine, ss.KeyValue("s")) as store:
        store.attach_journal(journal)
        store.put(b"k", b"v")
        if had_it:
            engine.plan(BEFORE)
            with pytest.raises(StorageError):
                store.commit({})
            engine.plan(None)
        journal.error, journal.has_it = error, has_it
        with pytest.raises(type(error)):
            store.commit({})
        journal.error = None

        if had_it or has_it or isinstance(error, KeyboardInterrupt):
            with pytest.raises(CommitConflictError, match="has, or may have, the pending writes"):
                store.rollback()
            store.commit({})
            assert store.read_only().get(b"k") == b"v"
            assert store.committed_offset(LOG) == journal.end - 1
        store.rollback()
        assert store.uncommitted_bytes == 0


@pytest.mark.spec("LGS-12", "COM-42")
@pytest.mark.parametrize("has_it", [False, True])
def test_a_truncation_that_a_journal_has_counts(engine: FaultyEngine, *, has_it: bool) -> None:
    """And one that it has not is none: what was there stays, and so does what is pending."""
    journal = Recording()
    with open_on_engine(engine, ss.KeyValue("s")) as store:
        store.attach_journal(journal)
        store.put(b"k", b"v")
        store.commit({})
        store.put(b"k", b"pending")
        journal.error, journal.has_it = StorageError("no space"), has_it
        with pytest.raises(StorageError):
            store.truncate()
        journal.error = None

        if has_it:
            with pytest.raises(CommitConflictError, match="roll back again"):
                store.commit({})
            store.rollback()
            store.commit({})
        else:
            store.commit({})
        assert store.read_only().get(b"k") == (None if has_it else b"pending")


@pytest.mark.spec("COM-7", "COM-9")
def test_a_rollback_that_was_interrupted_is_finished_before_anything_else(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit in between would bring a half of what was to be forgotten."""

    def interrupt(**_: object) -> None:
        raise KeyboardInterrupt

    store.put(b"k", b"forgotten")
    with monkeypatch.context() as patch:
        patch.setattr(store, "_forget_pending", interrupt)
        with pytest.raises(KeyboardInterrupt):
            store.rollback()
    for call in (lambda: store.commit({}), store.committed_offsets):
        with pytest.raises(CommitConflictError, match="roll back again"):
            call()
    store.rollback()
    store.commit({})

    assert store.read_only().get(b"k") == b"old"


@pytest.mark.spec("COM-43")
@pytest.mark.parametrize("has_it", [False, True])
def test_rows_committed_past_the_writes_may_be_there_although_it_raised(
    store: Any, engine: FaultyEngine, *, has_it: bool
) -> None:
    """The engine is asked for them as for any batch."""
    engine.plan(AFTER if has_it else BEFORE)
    rows = SortedRows(rows=[(DATA + b"k", None), (DATA + b"l", b"new")], has_deletions=True)
    with pytest.raises(StorageError):
        store.commit_rows(rows, {LOG: 2})
    engine.plan(None)

    assert store.committed_offset(LOG) == (2 if has_it else 1)
    assert (store.get(b"k"), store.get(b"l")) == ((None, b"new") if has_it else (b"old", None))
    if has_it:
        with pytest.raises(CommitConflictError):
            store.rollback()
    else:
        store.rollback()


@pytest.mark.spec("COM-1")
@pytest.mark.parametrize("is_logged", [False, True])
def test_rows_are_not_committed_past_what_would_miss_them(store: Any, *, is_logged: bool) -> None:
    """Neither past pending writes nor past a journal; nothing of it is there."""
    if is_logged:
        store.attach_journal(Recording())
    else:
        store.put(b"k", b"pending")
    with pytest.raises(InvalidArgumentError, match="has pending writes or a journal"):
        store.commit_rows(SortedRows(rows=[(DATA + b"l", b"new")]), {})

    assert store.get(b"l") is None


@pytest.mark.spec("COM-21")
@pytest.mark.parametrize("has_it", [False, True])
def test_offsets_whose_clearing_raised_are_those_of_the_engine(
    store: Any, engine: FaultyEngine, *, has_it: bool
) -> None:
    """What is pending stays so, in either case."""
    store.put(b"k", b"pending")
    engine.plan(AFTER if has_it else BEFORE)
    with pytest.raises(StorageError):
        store.clear_offsets()
    engine.plan(None)

    assert store.committed_offsets() == ({} if has_it else {LOG: 1})
    assert (store.get(b"k"), store.read_only().get(b"k")) == (b"pending", b"old")
    store.rollback()
    assert store.get(b"k") == b"old"


@pytest.mark.spec("COM-1")
@pytest.mark.parametrize("how", ["commit", "rows", "truncate"])
def test_a_look_at_pending_writes_and_then_the_engine_notices_a_commit_between(
    store: Any, how: str
) -> None:
    """One that has begun since, one that has ended, and one that did both."""
    during: list[int] = []
    place = "truncate.marked" if how == "truncate" else "commit.apply.before"
    arm(place, lambda: during.append(store.commits))
    before = store.commits
    if how == "commit":
        store.put(b"k", b"new")
        store.commit({})
    elif how == "rows":
        store.commit_rows(SortedRows(rows=[(DATA + b"k", b"new")]), {})
    else:
        store.truncate()

    assert len({before, *during, store.commits}) == 3


@pytest.mark.spec("COM-18", "COM-43")
@pytest.mark.parametrize("is_logged", [False, True])
def test_a_truncation_ends_what_a_failed_commit_has_left(
    store: Any, engine: FaultyEngine, *, is_logged: bool
) -> None:
    """Nothing of it is there any more, so that what comes next can be rolled back as ever."""
    if is_logged:
        store.attach_journal(Recording())
        store.put(b"k", b"new")
        engine.plan(BEFORE)
        with pytest.raises(StorageError):
            store.commit({})
        engine.plan(None)
    else:
        fail_a_commit(store, engine, AFTER)
    store.truncate()
    store.put(b"k", b"later")
    store.rollback()

    assert store.get(b"k") is None
    assert store.committed_offset(LOG) == (1 if is_logged else None)
    assert store.position == {}


@pytest.mark.spec("COM-42")
@pytest.mark.parametrize("place", ["truncate.marked", "truncate.deleted"])
def test_whoever_finds_a_truncation_that_has_begun_ends_it(
    engine: FaultyEngine, place: str
) -> None:
    """The mark is there before anything is deleted, until nothing is left: not even a position."""

    def die() -> None:
        raise KeyboardInterrupt

    store = open_on_engine(engine, ss.KeyValue("s"))
    store.put(b"k", b"v")
    store.advance_position({INPUT: 1})
    store.commit({LOG: 1})
    arm(place, die)
    with pytest.raises(KeyboardInterrupt):
        store.truncate()
    disarm()
    reopened = open_on_engine(engine, ss.KeyValue("s"))

    assert (dict(reopened.range()), reopened.committed_offsets()) == ({}, {})
    assert reopened.position == {}


@pytest.mark.spec("COM-15")
@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.commit({}),
        lambda store: store.commit_rows(SortedRows(), {}),
        lambda store: store.rollback(),
        lambda store: store.truncate(),
        lambda store: store.clear_offsets(),
        lambda store: store.committed_offset(LOG),
        lambda store: store.committed_offsets(),
        lambda store: store.next_offset(LOG),
        lambda store: store.advance_position({INPUT: 9}),
        lambda store: store.has_pending_writes,
    ],
)
def test_a_closed_store_is_what_refuses_and_not_its_engine(
    store: Any, engine: FaultyEngine, call: Callable[[Any], object]
) -> None:
    """The engine may be open still, or belong to somebody else by then."""
    store.close()
    before = engine.calls.copy()
    with pytest.raises(StoreClosedError, match="the store 's' is closed; open it again"):
        call(store)

    assert engine.calls == before


def test_a_store_is_shown_as_what_it_is(store: Any) -> None:
    """With its kind, name and engine, and what is pending."""
    store.put(b"k", b"pending")
    pending = store.uncommitted_bytes
    shown = repr(store)
    store.close()

    assert pending > 0
    assert shown == f"<key-value store 's', faulty, {pending} bytes pending>"
    assert repr(store) == "<key-value store 's', faulty, closed>"
