"""A commit of which nobody can tell whether it is there, and where a test may have one fail."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import statestores as ss
from statestores.errors import CommitInDoubtError, InvalidArgumentError, StoreCorruptedError
from statestores.failpoints import arm, disarm
from statestores.semantics import open_on_engine
from statestores.semantics.every_kind.journal import Journal
from statestores.semantics.rows.layout import DATA, OFFSETS
from statestores.spi import Changes, Durability, Position, TopicPartition
from statestores_conformance.subjects.faulty_engine import KeptOpen
from statestores_memory import MemoryEngine

LOG = TopicPartition("s-changelog", 0)


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    """Leave nothing armed for the next test."""
    yield
    disarm()


class InDoubt(Journal):
    """A journal whose disk fails in the middle of an append."""

    appends = 0

    @property
    def partition(self) -> TopicPartition:
        """Return that of the store's changelog."""
        return LOG

    @property
    def end_offset(self) -> int:
        """Return that nothing was appended, as far as it can tell."""
        return 0

    def append(self, changes: Changes, position: Position, durability: Durability) -> int:
        """Fail."""
        self.appends += 1
        raise CommitInDoubtError("the disk failed")

    def append_clear(self, durability: Durability) -> int:
        """Fail."""
        raise CommitInDoubtError("the disk failed")


@pytest.mark.spec("ENG-39", "COM-9", "COM-46")
@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.commit({}),
        lambda store: store.rollback(),
        lambda store: store.committed_offset(LOG),
        lambda store: store.committed_offsets(),
        lambda store: store.next_offset(LOG),
        lambda store: store.clear_offsets(),
        lambda store: store.truncate(),
    ],
    ids=["commit", "rollback", "offset", "offsets", "next offset", "clear offsets", "truncate"],
)
def test_after_an_append_in_doubt_the_store_answers_nothing_about_commits(
    call: Callable[[Any], Any],
) -> None:
    """A second commit would append the same changes again, if the first one was there."""
    journal = InDoubt()
    with open_on_engine(MemoryEngine.open("unused"), ss.KeyValue("s")) as store:
        store.attach_journal(journal)
        store.put(b"k", b"v")
        with pytest.raises(CommitInDoubtError, match="the disk failed"):
            store.commit({})

        with pytest.raises(CommitInDoubtError, match="nobody knows whether the last commit"):
            call(store)
        assert journal.appends == 1


@pytest.mark.spec("COM-46", "LGS-12")
def test_after_a_truncation_in_doubt_the_store_answers_nothing_about_commits() -> None:
    """The changelog may have it, and what is committed next would come before or after it."""
    with open_on_engine(MemoryEngine.open("unused"), ss.KeyValue("s")) as store:
        store.attach_journal(InDoubt())
        with pytest.raises(CommitInDoubtError, match="the disk failed"):
            store.truncate()
        calls: list[Callable[[], object]] = [
            store.truncate,
            store.rollback,
            store.committed_offsets,
            lambda: store.commit({}),
        ]
        for call in calls:
            with pytest.raises(CommitInDoubtError, match="nobody knows whether the last commit"):
                call()


@pytest.mark.spec("LGS-13")
def test_an_offset_of_the_input_is_refused_where_a_journal_has_the_only_one() -> None:
    """The message says of which partition, and what to do instead."""
    with open_on_engine(MemoryEngine.open("unused"), ss.KeyValue("s")) as store:
        store.attach_journal(InDoubt())
        with pytest.raises(InvalidArgumentError, match=r"got clicks-3: 7; .*advance_position"):
            store.commit({TopicPartition("clicks", 3): 7})


@pytest.mark.spec("COM-43")
@pytest.mark.parametrize(
    ("name", "has_it"), [("commit.apply.before", False), ("commit.apply.after", True)]
)
def test_a_test_may_have_a_commit_fail_on_either_side_of_the_engine(
    name: str, *, has_it: bool
) -> None:
    """It raised, and the store finds out what became of it."""
    engine = MemoryEngine.open("unused")
    with open_on_engine(engine, ss.KeyValue("s")) as store:
        store.put(b"k", b"v")

        def fail() -> None:
            raise OSError("here")

        arm(name, fail)
        with pytest.raises(OSError, match="here"):
            store.commit({LOG: 7})

        assert engine.get(DATA + b"k") == (b"v" if has_it else None)
        assert store.committed_offset(LOG) == (7 if has_it else None)


@pytest.mark.spec("LAY-4")
@pytest.mark.parametrize(
    ("row", "value"),
    [(b"", bytes(8)), (b"\0" * 4, bytes(8)), (b"t\0" + bytes(4), bytes(7))],
    ids=["no name", "a number alone", "a short offset"],
)
def test_a_row_that_holds_no_offset_is_damage(row: bytes, value: bytes) -> None:
    """And not Python's error, or the offset of a topic without a name."""
    engine = MemoryEngine.open("unused")
    with open_on_engine(KeptOpen(engine), ss.KeyValue("s")) as store:
        store.commit({LOG: 7})
    engine.apply({OFFSETS + row: value}, Durability.PROCESS_CRASH)

    with pytest.raises(StoreCorruptedError, match="of the committed offsets is malformed"):
        open_on_engine(engine, ss.KeyValue("s"))
