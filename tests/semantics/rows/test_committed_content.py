"""Content is handed out in chunks of bounded size, and holds nothing once it is closed."""

import pytest

import statestores as ss
from statestores.errors import StoreClosedError
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.rows.content_chunks import CHUNK_BYTES, CHUNK_ROWS, next_chunk_rows
from statestores.spi import Changes, EngineSnapshot, StateStore

ROWS = 30_000
LARGE_BYTES = 1 << 20


def sizes(store: StateStore) -> list[int]:
    """Return the rows of each chunk of the committed content."""
    return [len(chunk) for chunk in store.committed_content().changes]


@pytest.mark.spec("COM-38")
def test_chunks_grow_to_a_bounded_number_of_rows() -> None:
    """Small rows come in large chunks, of either kind of store."""
    keys = [b"%06d" % number for number in range(ROWS)]
    counts = open_on_engine(load_backend("memory").open("unused"), ss.KeyValue("s"))
    counts.put_many(keys, [b"v"] * ROWS)
    rates = open_on_engine(
        load_backend("memory").open("unused"), ss.Versioned("s", history_retention_ms=1)
    )
    rates.put_many(keys, [b"v"] * ROWS, [1] * ROWS)
    for store in (counts, rates):
        store.commit({})
        rows = sizes(store)

        assert sum(rows) == ROWS
        assert max(rows) == CHUNK_ROWS


@pytest.mark.spec("COM-38")
def test_large_values_come_in_small_chunks() -> None:
    """65,536 values of 100 KB were once one chunk of 6.5 GB."""
    with open_on_engine(load_backend("memory").open("unused"), ss.KeyValue("s")) as store:
        store.put_many([b"%03d" % number for number in range(200)], [bytes(LARGE_BYTES)] * 200)
        store.commit({})
        _, *later = sizes(store)

        assert max(later) * LARGE_BYTES <= CHUNK_BYTES


@pytest.mark.spec("COM-38")
def test_a_value_larger_than_a_chunk_comes_alone() -> None:
    """Whatever follows it: two of them would take twice the memory."""
    assert next_chunk_rows(1, 2 * CHUNK_BYTES) == next_chunk_rows(64, 64 * CHUNK_BYTES) == 1


@pytest.mark.spec("COM-38")
def test_content_that_nobody_reads_holds_no_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing it before the first chunk left the engine's snapshot open."""
    engine = load_backend("memory").open("unused")
    taken: list[EngineSnapshot] = []
    take = engine.snapshot

    def note() -> EngineSnapshot:
        taken.append(take())
        return taken[-1]

    monkeypatch.setattr(engine, "snapshot", note)
    with open_on_engine(engine, ss.KeyValue("s")) as store:
        store.replay(Changes([b"k"], [b"v"]))
        store.commit({})
        store.committed_content().changes.close()

        (snapshot,) = taken
        with pytest.raises(StoreClosedError):
            snapshot.get(b"k")
