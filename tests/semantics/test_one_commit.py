"""A facade that stays at the commit at which it was made."""

import pytest

import statestores as ss
from statestores.errors import CapabilityNotSupportedError
from statestores.semantics import open_on_engine
from statestores.semantics.every_kind.facade import EngineFacade
from statestores.spi import Isolation, Position, TopicPartition
from statestores_memory import MemoryEngine

INPUT = TopicPartition("clicks", 0)


def test_a_facade_at_one_commit_sees_none_that_comes_after() -> None:
    """Neither its rows nor its position; the facade that it was made of sees both."""
    with open_on_engine(MemoryEngine.open("unused"), ss.KeyValue("s")) as store:
        store.put(b"k", b"first")
        store.advance_position({INPUT: 1})
        store.commit({})
        facade = store.read_only()
        assert isinstance(facade, EngineFacade)
        frozen, snapshot = facade.at_one_commit()
        with snapshot:
            store.put(b"k", b"second")
            store.put(b"l", b"second")
            store.advance_position({INPUT: 2})
            store.commit({})

            assert dict(frozen.range()) == {b"k": b"first"}
            assert (frozen.get(b"k"), frozen.position) == (b"first", Position({INPUT: 1}))
            assert (facade.get(b"k"), facade.position) == (b"second", Position({INPUT: 2}))


def test_a_facade_of_pending_writes_stays_at_no_commit() -> None:
    """They are of none; the error says which facade to make."""
    with open_on_engine(MemoryEngine.open("unused"), ss.KeyValue("s")) as store:
        facade = store.read_only(Isolation.READ_UNCOMMITTED)
        assert isinstance(facade, EngineFacade)
        with pytest.raises(CapabilityNotSupportedError, match=r"Isolation\.READ_COMMITTED"):
            facade.at_one_commit()


def test_a_store_whose_rows_do_not_expire_owes_no_removal() -> None:
    """A restore asks until none is owed: it would never end."""
    with open_on_engine(MemoryEngine.open("unused"), ss.KeyValue("s")) as store:
        assert store.owes_removals is False
