"""What every kind of store has beside its rows: a durability, a place, an owner, an input."""

from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

import pytest

import statestores as ss
from statestores.errors import (
    CapabilityNotSupportedError,
    InvalidArgumentError,
    StoreClosedError,
)
from statestores.semantics import open_on_engine
from statestores.semantics.every_kind import engine_store
from statestores.semantics.every_kind.journal import Journal
from statestores.semantics.every_kind.sorted_rows import SortedRows
from statestores.semantics.every_kind.store_state import kept_durability
from statestores.semantics.rows.layout import DATA
from statestores.spi import Capabilities, Changes, Durability, Position, TopicPartition, WriteBatch
from statestores_memory import MemoryEngine

INPUT = TopicPartition("clicks", 0)
LOG = TopicPartition("s-changelog", 0)


class Noting(MemoryEngine):
    """An engine with what is on a disk, as far as it says, that notes how durable a batch is."""

    capabilities: ClassVar[Capabilities] = Capabilities(persistent=True, durable_commit=True)

    def __init__(self) -> None:
        """Begin with nothing, asked for nothing."""
        super().__init__()
        self.asked: list[Durability] = []
        self.copies: list[object] = []

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        """Note how durable *batch* is to be."""
        self.asked.append(durability)
        super().apply(batch, durability)

    def checkpoint(self, path: str | PathLike[str]) -> None:
        """Note where the copy is to be."""
        self.copies.append(path)


class Undurable(Noting):
    """One whose batches wait for no disk."""

    capabilities: ClassVar[Capabilities] = Capabilities(persistent=True)


class Taking(Journal):
    """A journal that takes everything."""

    end = 0

    @property
    def partition(self) -> TopicPartition:
        """Return that of the store's changelog."""
        return LOG

    @property
    def end_offset(self) -> int:
        """Return how often it has been appended to."""
        return self.end

    def append(self, changes: Changes, position: Position, durability: Durability) -> int:
        """Have one more record."""
        self.end += 1
        return self.end - 1

    def append_clear(self, durability: Durability) -> int:
        """Have one more record."""
        self.end += 1
        return self.end - 1


@pytest.mark.spec("COM-12")
def test_a_durability_that_an_engine_cannot_keep_is_refused() -> None:
    """By its name as well; an engine in memory keeps nothing, so of that any is accepted."""
    durable, undurable = Noting(), Undurable()

    for durability in (Durability.POWER_LOSS, "power-loss"):
        assert kept_durability(durable, durability) is Durability.POWER_LOSS
        assert kept_durability(MemoryEngine.open(""), durability) is Durability.POWER_LOSS
        with pytest.raises(CapabilityNotSupportedError, match=r"Durability\.PROCESS_CRASH"):
            kept_durability(undurable, durability)
    assert kept_durability(undurable, Durability.PROCESS_CRASH) is Durability.PROCESS_CRASH
    with pytest.raises(InvalidArgumentError):
        kept_durability(durable, "tomorrow")


@pytest.mark.spec("COM-12", "COM-25")
@pytest.mark.parametrize("own", Durability)
@pytest.mark.parametrize("other", [None, *Durability])
def test_a_commit_has_the_durability_that_it_asks_for_or_that_of_its_store(
    own: Durability, other: Durability | None
) -> None:
    """Rows that are committed past the writes, too; by its name as well."""
    engine = Noting()
    with open_on_engine(engine, ss.KeyValue("s"), durability=own) as store:
        for durability in (other, None if other is None else other.value):
            engine.asked.clear()
            store.put(b"k", b"v")
            store.commit({}, durability=durability)  # type: ignore[arg-type]  # its name will do
            store.commit_rows(
                SortedRows(rows=[(DATA + b"l", b"v")]),
                {},
                durability=durability,  # type: ignore[arg-type]  # likewise
            )

            assert engine.asked == [own if other is None else other] * 2


@pytest.mark.spec("COM-12")
@pytest.mark.parametrize("own", Durability)
def test_a_store_keeps_its_durability_when_it_is_opened_by_its_name(own: Durability) -> None:
    """The engine was asked for a text, of which no engine knows how long it waits."""
    engine = Noting()
    by_name: Any = own.value
    with open_on_engine(engine, ss.KeyValue("s"), durability=by_name) as store:
        engine.asked.clear()
        store.put(b"k", b"v")
        store.commit({})
        store.clear_offsets()
        store.truncate()

        assert set(engine.asked[:3]) == {own}


@pytest.mark.spec("LGS-10")
def test_what_a_journal_has_durably_the_engine_need_not_wait_for() -> None:
    """It is in the changelog; each commit waited for the disk twice."""
    engine = Noting()
    with open_on_engine(engine, ss.KeyValue("s"), durability=Durability.POWER_LOSS) as store:
        store.attach_journal(Taking())
        engine.asked.clear()
        store.put(b"k", b"v")
        store.commit({})

        assert engine.asked == [Durability.PROCESS_CRASH]


@pytest.mark.spec("LGS-13")
def test_where_a_journal_has_the_only_offset_the_input_is_where_the_position_says() -> None:
    """The store has committed an offset of it before, by itself: reading began there again."""
    with open_on_engine(MemoryEngine.open(""), ss.KeyValue("s")) as store:
        store.commit({INPUT: 5})
        store.attach_journal(Taking())
        store.advance_position({INPUT: 9})
        store.commit({})

        assert store.is_input(INPUT)
        assert not store.is_input(LOG)
        assert (store.next_offset(INPUT), store.next_offset(LOG)) == (10, 1)


def test_without_a_journal_nothing_is_only_in_the_position() -> None:
    """The store commits offsets of its input by itself."""
    with open_on_engine(MemoryEngine.open(""), ss.KeyValue("s")) as store:
        assert not store.is_input(INPUT)


def test_a_store_is_shown_with_the_place_of_its_engine(tmp_path: Path) -> None:
    """Of two stores of the same name that is what tells them apart."""
    with ss.open_store(tmp_path / "here", ss.KeyValue("s"), backend="sqlite") as store:
        assert f" in {str(tmp_path / 'here')!r}, " in repr(store)


@pytest.mark.spec("COM-15")
def test_a_copy_is_the_engine_s_and_of_a_closed_store_there_is_none(tmp_path: Path) -> None:
    """The engine said that *it* is closed, or made one of what belongs to somebody else by then."""
    engine = Noting()
    store = open_on_engine(engine, ss.KeyValue("s"))
    store.checkpoint(tmp_path)
    assert engine.copies == [tmp_path]
    store.close()

    with pytest.raises(StoreClosedError, match="the store 's' is closed; open it again"):
        store.checkpoint(tmp_path)
    assert engine.copies == [tmp_path]


@pytest.mark.spec("COM-44", "ASM-9")
def test_in_a_forked_child_a_store_on_a_disk_is_its_parent_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It refuses, reads of what is pending as well, and says why, closed or not."""
    registered: list[object] = []
    monkeypatch.setattr(engine_store, "disown_after_fork", registered.append)
    store = open_on_engine(Noting(), ss.KeyValue("s"))
    store.put(b"k", b"pending")
    store.disown()  # as the child does

    assert registered == [store]
    assert not store.is_open
    for _ in range(2):
        with pytest.raises(StoreClosedError, match="start the process by 'spawn'"):
            store.get(b"k")
        with pytest.raises(StoreClosedError, match="start the process by 'spawn'"):
            store.commit({})
        store.close()


@pytest.mark.spec("COM-44", "ENG-43")
def test_in_a_forked_child_a_store_in_memory_is_a_copy_of_its_own() -> None:
    """And one that was closed before says so, as it did in the parent."""
    with open_on_engine(MemoryEngine.open(""), ss.KeyValue("s")) as store:
        store.put(b"k", b"v")
        store.disown()
        store.commit({})
        assert store.get(b"k") == b"v"
    closed = open_on_engine(Noting(), ss.KeyValue("s"))
    closed.close()
    closed.disown()

    with pytest.raises(StoreClosedError, match="the store 's' is closed; open it again"):
        closed.get(b"k")
