"""Truncating a store: nothing of before comes back, and nothing of after gets lost."""

import pytest

import statestores as ss
from statestores.errors import StorageError, StoreCorruptedError
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.spi import Engine, WriteBatch
from statestores.spi.durability import Durability
from statestores_memory import MemoryEngine

PARTITION = ss.TopicPartition("t", 0)
SPECIFICATION = ss.Versioned("s", history_retention_ms=10)


@pytest.fixture
def engine() -> Engine:
    """An engine in memory."""
    return load_backend("memory").open("unused")


@pytest.mark.spec("COM-18")
def test_stream_time_goes_with_the_content(engine: Engine) -> None:
    """A put after truncating was refused as late: the old stream time lived on in memory."""
    with open_on_engine(engine, SPECIFICATION) as store:
        store.put(b"k", b"old", 1_000)
        store.commit({PARTITION: 7})

        store.truncate()

        assert store.stream_time_ms is None
        assert store.put(b"k", b"new", 5).accepted
        assert store.committed_offset(PARTITION) is None
        assert store.get(b"k") == (b"new", 5, None)


@pytest.mark.spec("COM-42")
def test_a_commit_after_a_failed_truncation_survives_reopening(engine: Engine) -> None:
    """The mark of a truncation that had failed made the next opening delete later commits."""
    store = open_on_engine(engine, ss.KeyValue("s"))
    store.put(b"old", b"1")
    store.commit({})
    apply = engine.apply

    def fail_once(batch: WriteBatch, durability: Durability) -> None:
        if b"\x02old" in batch:
            engine.apply = apply  # type: ignore[method-assign]  # the second try succeeds
            raise StorageError("no space")
        apply(batch, durability)

    engine.apply = fail_once  # type: ignore[method-assign]  # a disk that is full for a moment
    with pytest.raises(StorageError):
        store.truncate()
    store.put(b"new", b"2")
    store.commit({PARTITION: 1})

    reopened = open_on_engine(engine, ss.KeyValue("s"))

    assert dict(reopened.range()) == {b"new": b"2"}
    assert reopened.committed_offset(PARTITION) == 1


@pytest.mark.spec("COM-18")
def test_an_interrupted_truncation_is_completed_by_the_next_opening(engine: Engine) -> None:
    """The mark is there and the rows half gone: opening finishes it."""
    store = open_on_engine(engine, ss.KeyValue("s"))
    store.put(b"old", b"1")
    store.commit({PARTITION: 3})
    engine.apply({b"\x00truncating": b""}, Durability.POWER_LOSS)

    reopened = open_on_engine(engine, ss.KeyValue("s"))

    assert list(reopened.range()) == []
    assert reopened.committed_offset(PARTITION) is None


def test_an_engine_that_deletes_nothing_ends_a_truncation() -> None:
    """It went on for ever: the rows that were left were deleted again and again."""

    class Forgetful(MemoryEngine):
        def apply(self, batch: WriteBatch, durability: Durability) -> None:
            super().apply({key: value for key, value in batch.items() if value}, durability)

    with open_on_engine(Forgetful.open("unused"), ss.KeyValue("s")) as store:
        store.put(b"k", b"v")
        store.commit({})

        with pytest.raises(StoreCorruptedError, match="still has the row"):
            store.truncate()
