"""A plain key-value store by itself: what it refuses, counts, and keeps in memory."""

from collections.abc import Callable
from typing import Any

import pytest

import statestores as ss
from statestores.errors import InvalidArgumentError, InvalidTypeError, StoreClosedError
from statestores.semantics import open_on_engine
from statestores.spi import Changes
from statestores_conformance.many_cases import for_each
from statestores_conformance.subjects.faulty_engine import FaultyEngine
from statestores_memory import MemoryEngine


@pytest.mark.spec("COM-19")
def test_what_is_wrong_with_a_put_is_called_by_its_name() -> None:
    """A value that is text was called a key."""
    text: Any = "v"
    with open_on_engine(MemoryEngine.open(""), ss.KeyValue("s")) as store:
        with pytest.raises(InvalidTypeError, match="a value is bytes or None, got 'v'"):
            store.put(b"k", text)
        with pytest.raises(InvalidTypeError, match="a key is bytes, got 'v'"):
            store.put(text, b"k")
        with pytest.raises(InvalidTypeError, match="a key is bytes, got 'v'"):
            store.put(text, None)
        for reverse in (1, None, "yes"):
            with pytest.raises(InvalidTypeError, match="reverse"):
                store.range(reverse=reverse)  # type: ignore[arg-type]  # on purpose
        with pytest.raises(InvalidArgumentError):
            store.replay(Changes([b"k"], [b"v"], [1]))
        with pytest.raises(InvalidArgumentError):
            store.put_many([b"k", b"l"], [b"v"])

        assert (store.uncommitted_bytes, store.has_pending_writes) == (0, False)


@pytest.mark.spec("COM-16", "MET-6")
def test_puts_and_their_bytes_are_counted_one_by_one_and_many_at_a_time() -> None:
    """Deletions as well, of which the key alone is pending."""
    with open_on_engine(MemoryEngine.open(""), ss.KeyValue("s")) as store:
        pending = []
        puts: list[Callable[[], object]] = [
            lambda: store.put(b"key", b"value"),
            lambda: store.put(b"key", None),
            lambda: store.put_many([b"a", b"b"], [b"1", None]),
            lambda: store.delete(b"c"),
        ]
        for put in puts:
            put()
            pending.append((store.uncommitted_bytes, store._puts))

        assert pending == [(8, 1), (11, 2), (14, 4), (15, 5)]


@pytest.mark.spec("COM-15", "KVS-13")
@for_each(
    "read",
    [
        lambda store: store.get_many([]),
        lambda store: store.get_many([b"k"]),
        lambda store: store.range(),
        lambda store: store.prefix_scan(b"k"),
    ],
)
def test_a_closed_store_refuses_at_the_call(read: Callable[[Any], Any]) -> None:
    """And not its engine, of which nobody knows, nor at the first step."""
    store = open_on_engine(MemoryEngine.open(""), ss.KeyValue("s"))
    store.close()

    with pytest.raises(StoreClosedError, match="the store 's' is closed; open it again"):
        read(store)


def test_a_store_that_is_no_longer_read_keeps_no_more_of_what_is_written() -> None:
    """What was read once had every later commit in memory; and a closed store holds none."""
    engine = FaultyEngine(MemoryEngine.open(""))
    with open_on_engine(engine, ss.KeyValue("s")) as store:
        store.get(b"missing")
        kept = []
        for number in range(3):
            store.put(b"%d" % number, b"v")
            store.commit({})
            kept.append(sorted(store._cached))
        assert kept == [[b"0"]] * 3
        store.get(b"other")
        store.put(b"3", b"v")
        store.commit({})
        assert sorted(store._cached) == [b"0", b"3"]

    assert not store._cached
