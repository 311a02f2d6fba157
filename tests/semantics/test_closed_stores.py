"""A closed store refuses at the call, also what it could answer without asking anybody."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import statestores as ss
from statestores.errors import StoreClosedError
from statestores_conformance.many_cases import for_each

WINDOWS = ss.Window("s", window_size_ms=10, retention_ms=100)
SESSIONS = ss.Session("s", retention_ms=100)
VERSIONED = ss.Versioned("s", history_retention_ms=100)
STAMPED = ss.TimestampedKeyValue("s")


@pytest.mark.spec("COM-15", "WIN-22")
@pytest.mark.parametrize(
    "read",
    [
        lambda store: store.fetch(b"k", 5),
        lambda store: store.fetch_range(b"k", 0, 5),
        lambda store: store.fetch_all(0, 5),
    ],
    ids=["one", "of a key", "of all keys"],
)
def test_ranges_in_which_everything_has_expired_are_refused(read: Callable[[Any], Any]) -> None:
    """Nothing can be in them, so no pending row and no engine is asked, which would refuse."""
    store = ss.open_store("unused", WINDOWS, backend="memory")
    store.put(b"k", b"v", 5_000)
    store.commit({})
    store.close()

    with pytest.raises(StoreClosedError):
        read(store)


@pytest.mark.spec("COM-15", "ROF-3")
def test_no_keys_are_refused_as_well(subtests: pytest.Subtests) -> None:
    """Where each key was asked for by itself, none was asked for, and the answer was a list.

    A loop over batches took an empty one for a sign of life. It was so of facades that look at
    pending writes, and of windows with duplicates, by their owner too.
    """
    duplicates = replace(WINDOWS, retain_duplicates=True)
    for specification in (ss.KeyValue("s"), STAMPED, VERSIONED, WINDOWS, duplicates, SESSIONS):
        store: Any = ss.open_store("unused", specification, backend="memory")
        isolations = ("read_committed", "read_uncommitted")
        readers = [store, *(store.read_only(isolation) for isolation in isolations)]
        many = [
            reader.get_many if hasattr(reader, "get_many") else reader.fetch_many
            for reader in readers
        ]
        columns = {"window": 2, "session": 3}.get(specification.kind.name, 1)
        nothing: list[list[Any]] = [[] for _ in range(columns)]
        assert [each(*nothing) for each in many] == [[], [], []]
        store.close()
        for reader, each in zip(readers, many, strict=True):
            with (
                subtests.test(type(reader).__name__, kind=specification.kind.name),
                pytest.raises(StoreClosedError),
            ):
                each(*nothing)


@pytest.mark.spec("COM-15")
def test_the_columns_of_pending_writes_are_refused() -> None:
    """They were put as columns, and are kept beside the pending writes."""
    store: Any = ss.open_store("unused", STAMPED, backend="memory")
    columns = ("as they were put",)
    assert store.pending_columns() is None  # nothing was put as columns yet
    store.put_rows([b"\x02k"], [bytes(8)], highest=0, highest_ms=0, size_bytes=9, columns=columns)
    assert store.pending_columns() == columns
    store.close()

    with pytest.raises(StoreClosedError):
        store.pending_columns()
    with pytest.raises(StoreClosedError):
        store.put_rows([], [], highest=0, highest_ms=0, size_bytes=0, columns=())
    with pytest.raises(StoreClosedError):
        store.pending_changes()


@pytest.mark.spec("COM-15")
@for_each("kind", [ss.KeyValue, ss.TimestampedKeyValue])
def test_a_count_of_a_closed_store_is_refused_in_its_name(kind: Any) -> None:
    """A mutant asked the engine, which said that *it* is closed: nobody has opened that."""
    store: Any = ss.open_store("unused", kind("s"), backend="memory")
    store.close()

    with pytest.raises(StoreClosedError, match="the store 's' is closed; open it again"):
        store.approximate_num_entries()


def test_a_closed_store_does_not_remember_what_expires() -> None:
    """Whoever holds one holds no memory for its rows: a mutant kept their keys."""
    specification = ss.TimestampedKeyValue("s", ttl_ms=100)
    store: Any = ss.open_store("unused", specification, backend="memory")
    for number in range(3):  # from the second commit on something has expired
        store.put(b"%d" % number, b"v", 500 * number)
        store.commit({})
    remembered = store._sweep._due
    assert b"\x022" in remembered
    store.close()

    assert b"\x022" not in remembered


@pytest.mark.spec("COM-15")
def test_a_look_at_one_commit_of_a_closed_store_is_refused_in_its_name() -> None:
    """Of facades that were made before, as readers of many keys ask them."""
    store: Any = ss.open_store("unused", ss.KeyValue("s"), backend="memory")
    facade = store.read_only()
    store.close()

    with pytest.raises(StoreClosedError, match="the store 's' is closed; open it again"):
        facade.at_one_commit()


@for_each(
    "ask",
    [
        lambda facade: facade.position,
        lambda facade: facade.committed_offset(ss.TopicPartition("clicks", 0)),
        lambda facade: facade.next_offset(ss.TopicPartition("clicks", 0)),
    ],
)
def test_a_facade_of_a_closed_store_is_refused_in_its_name(ask: Callable[[Any], Any]) -> None:
    """The engine said that *it* is closed: nobody has opened that."""
    with ss.open_store("unused", ss.KeyValue("s"), backend="memory") as store:
        facade = store.read_only()
    with pytest.raises(StoreClosedError, match="the store 's' is closed; open it again"):
        ask(facade)
