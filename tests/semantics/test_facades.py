"""What facades of every kind have in common: offsets, names, and views of one instant."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import statestores as ss
from statestores.errors import InvalidTypeError
from statestores.semantics import open_on_engine
from statestores.semantics.every_kind.facade import UncommittedFacade
from statestores.semantics.every_kind.frozen_engine import FrozenEngine
from statestores.semantics.every_kind.sorted_rows import sampled
from statestores.spi import Durability, EngineReader, Isolation, TopicPartition
from statestores_conformance.many_cases import for_each
from statestores_memory import MemoryEngine

CRASH = Durability.PROCESS_CRASH
INPUT = TopicPartition("clicks", 0)


@pytest.mark.spec("ROF-1")
def test_a_facade_says_what_it_is_a_view_of() -> None:
    """In logs, and of a store that is still there or not."""
    with open_on_engine(MemoryEngine.open("unused"), ss.KeyValue("s")) as store:
        facade = store.read_only()
        assert repr(facade) == (
            "<read-only view of the key-value store 's', memory, 0 bytes pending>"
        )
    assert repr(facade).endswith(", closed>")


@pytest.mark.spec("COM-46")
def test_a_facade_says_where_to_go_on() -> None:
    """At the beginning, after what was committed, and after the input that it reflects."""
    log = TopicPartition("log", 0)
    with open_on_engine(MemoryEngine.open("unused"), ss.KeyValue("s")) as store:
        facade = store.read_only()
        assert (facade.next_offset(INPUT), facade.next_offset(log)) == (0, 0)
        store.advance_position({INPUT: 0})
        store.commit({log: 6})

        assert (facade.next_offset(INPUT), facade.next_offset(log)) == (1, 7)
        with pytest.raises(InvalidTypeError, match="TopicPartition"):
            facade.committed_offset("clicks")  # type: ignore[arg-type]  # what is tested


READS: dict[str, Callable[[EngineReader], object]] = {
    "get": lambda engine: engine.get(b"b"),
    "get_many": lambda engine: engine.get_many([b"a", b"b", b"c"]),
    "first": lambda engine: engine.first(b"a\x00", b"c"),
    "last": lambda engine: engine.last(b"a", b"c"),
    "scan": lambda engine: list(engine.scan(b"a\x00", b"d")),
    "scan backwards": lambda engine: list(engine.scan(b"a", b"c", reverse=True)),
    "scan ahead": lambda engine: list(engine.scan_ahead(b"a", None, 9)[0]),
    "ahead, backwards": lambda engine: list(engine.scan_ahead(b"a", None, 9, reverse=True)[0]),
}


@pytest.mark.parametrize("read", READS.values(), ids=list(READS))
def test_each_read_of_a_frozen_engine_is_of_one_instant(
    read: Callable[[EngineReader], object],
) -> None:
    """Whatever is changed afterwards: several reads of a facade see one commit."""
    engine = MemoryEngine.open("")
    engine.apply({b"a": b"1", b"b": b"2", b"c": b"3"}, CRASH)
    before = read(engine)
    snapshot = engine.snapshot()
    frozen = FrozenEngine(engine, snapshot)
    engine.apply({b"a": None, b"b": b"later", b"c": None, b"bb": b"new"}, CRASH)
    found, again = read(frozen), read(frozen.snapshot())
    after = read(engine)
    frozen.close()

    assert found == again == before != after
    assert frozen.get(b"a") == b"1"  # it belongs to whoever has frozen it
    snapshot.close()
    engine.close()


def test_a_frozen_engine_estimates_as_the_engine_does() -> None:
    """A later commit may count: no engine estimates of a snapshot."""
    engine = MemoryEngine.open("")
    engine.apply({b"a": b"", b"b": b"", b"c": b""}, CRASH)
    with engine.snapshot() as snapshot:
        assert FrozenEngine(engine, snapshot).approximate_num_keys(b"b", b"c") == 1
    engine.close()


@pytest.mark.spec("ROF-8")
def test_pending_writes_are_read_beside_the_commit_that_they_follow() -> None:
    """A commit that comes between a look at both hides nothing: what was found is given back."""
    with open_on_engine(MemoryEngine.open("unused"), ss.KeyValue("s")) as store:
        facade: Any = store.read_only(Isolation.READ_UNCOMMITTED)
        assert isinstance(facade, UncommittedFacade)
        looks: list[int] = []
        given_back: list[int] = []

        def look() -> int:
            looks.append(len(looks))
            if len(looks) == 1:
                store.put(b"k", b"v")
                store.commit({})
            return looks[-1]

        assert facade._of_one_commit(look, given_back.append) == 1
        assert given_back == [0]
        looks.clear()
        assert facade._of_one_commit(look) == 1


@for_each(
    ("count", "known"),
    [
        (0, []),
        (3, [0, 1, 2]),
        (1_024, list(range(1_024))),
        (3_000, [*range(1_024), 1_024, 2_048]),
    ],
)
def test_some_of_the_rows_that_an_engine_was_given_tell_whether_it_has_them(
    count: int, known: list[int]
) -> None:
    """Not before it was given all of them, which it takes all or none of."""
    rows = [(b"%08d" % number, b"%d" % number) for number in range(count)]
    sample: dict[bytes, bytes | None] = {}
    passed = []
    for row in sampled(iter(rows), sample):
        assert sample == {}
        passed.append(row)

    assert passed == rows
    assert sample == dict(rows[number] for number in known)


def test_rows_pass_one_by_one_but_for_the_first_that_are_remembered() -> None:
    """A thousand waited in a list for each other, one of which was to be remembered."""
    taken: list[int] = []
    passing = sampled(((b"%08d" % number, b"") for number in _counted(3_000, taken)), {})
    ahead = [taken[-1] - place for place, _ in enumerate(passing)]

    assert ahead == [*range(1_023, -1, -1), *[0] * (3_000 - 1_024)]


def _counted(count: int, taken: list[int]) -> Iterator[int]:
    for number in range(count):
        taken.append(number)
        yield number
