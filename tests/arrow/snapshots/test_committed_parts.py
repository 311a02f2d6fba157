"""The content of a key-value store becomes columns by a shorter way, and is the same content."""

from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statestores.arrow import read_snapshot, write_snapshot
from statestores.arrow.row_batches import batches_from_changes
from statestores.arrow.schemas import KEY_VALUE_ROWS
from statestores.arrow.snapshots.committed_parts import committed_parts
from statestores.errors import StoreClosedError
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.key_value.committed_rows import CommittedRows
from statestores.semantics.key_value.store import EngineKeyValueStore
from statestores.spi import Changes, CommittedContent, Durability, KeyValue, TopicPartition

COUNTS = KeyValue("counts")
LOG = TopicPartition("counts-changelog", 0)


def _batches(store: Any, batch_rows: int = 65_536) -> list[pa.RecordBatch]:
    content = committed_parts(store, batch_rows)
    with closing(content.source):
        return [each.join() for each in content.parts]


@pytest.mark.spec("SNP-9")
@given(
    rows=st.dictionaries(st.binary(max_size=20), st.binary(max_size=40), max_size=300),
    batch_rows=st.integers(1, 80),
)
def test_batches_are_those_of_the_changes(rows: dict[bytes, bytes], batch_rows: int) -> None:
    """Keys of any bytes, none included; offsets, position and pending writes are left out."""
    engine = load_backend("memory").open("unused")
    with open_on_engine(engine, COUNTS, durability=Durability.PROCESS_CRASH) as store:
        store.put_many(list(rows), list(rows.values()))
        store.advance_position({TopicPartition("input", 0): 3})
        store.commit({LOG: 7})
        store.put(b"pending", b"")
        changes = store.committed_content().changes
        expected = list(batches_from_changes("key-value", changes, batch_rows=batch_rows))

        found = _batches(store, batch_rows)

    assert found == expected
    assert all(batch.schema.equals(KEY_VALUE_ROWS, check_metadata=True) for batch in found)
    assert pa.Table.from_batches(found, KEY_VALUE_ROWS).to_pydict() == {
        "key": sorted(rows),
        "value": [rows[key] for key in sorted(rows)],
    }


@pytest.mark.spec("SNP-2")
def test_what_goes_with_the_rows_is_of_the_same_commit(source: str, open_store: Any) -> None:
    """Also when there are later ones before the rows are read."""
    store = open_store(COUNTS, source)
    for number in range(2_000):
        store.put(b"%04d" % number, b"old")
    store.advance_position({TopicPartition("input", 0): 3})
    store.commit({LOG: 7})

    content = committed_parts(store, 500)
    with closing(content.source):
        store.put(b"0001", b"new")
        store.advance_position({TopicPartition("input", 0): 4})
        store.commit({LOG: 8})
        batches = [each.join() for each in content.parts]

    assert dict(content.offsets) == {LOG: 7}
    assert dict(content.position) == {TopicPartition("input", 0): 3}
    assert [batch.num_rows for batch in batches] == [500] * 4
    assert {value for batch in batches for value in batch.column("value").to_pylist()} == {b"old"}


@pytest.mark.spec("SNP-16")
def test_large_values_are_read_in_small_chunks(
    open_store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is bounded by bytes as well as by rows."""
    monkeypatch.setattr("statestores.semantics.rows.content_chunks.CHUNK_BYTES", 5_000)
    store = open_store(COUNTS)
    store.put_many([b"%03d" % number for number in range(200)], [b"v" * 1_000] * 200)
    store.commit({})
    limits: list[int] = []
    read = CommittedRows.read

    def record(self: CommittedRows, limit: int) -> list[tuple[bytes, bytes]]:
        limits.append(limit)
        return read(self, limit)

    monkeypatch.setattr(CommittedRows, "read", record)

    assert sum(batch.num_rows for batch in _batches(store)) == 200
    assert limits[0] == 64
    assert set(limits[1:]) == {4}


@pytest.mark.spec("ENG-10")
def test_a_store_that_is_closed_meanwhile_ends_with_an_error(source: str, open_store: Any) -> None:
    """And never early, as if these had been all rows."""
    store = open_store(COUNTS, source)
    store.put_many([b"%05d" % number for number in range(5_000)], [b"v"] * 5_000)
    store.commit({})
    content = committed_parts(store, 100)
    with closing(content.source):
        next(content.parts)
        store.close()

        with pytest.raises(StoreClosedError):
            list(content.parts)


def test_the_snapshot_of_the_engine_is_closed_with_the_rows(open_store: Any) -> None:
    """What is read afterwards is an error as well."""
    store = open_store(COUNTS)
    store.put(b"a", b"1")
    store.commit({})
    rows = store.committed_rows()
    rows.close()

    with pytest.raises(StoreClosedError):
        rows.read(1)
    store.close()
    with pytest.raises(StoreClosedError, match="the store 'counts' is closed; open it again"):
        store.committed_rows()


def test_a_store_that_gives_other_content_is_asked_for_it(tmp_path: Any) -> None:
    """The shorter way is that of the store itself, and not of one that is derived from it."""

    class Loud(EngineKeyValueStore):
        def committed_content(self) -> CommittedContent:
            found = super().committed_content()
            changes = (
                Changes(each.keys, [value and value.upper() for value in each.values])
                for each in found.changes
            )
            return CommittedContent(found.offsets, found.position, None, changes)

    engine = load_backend("memory").open("unused")
    with Loud(engine, COUNTS, Durability.PROCESS_CRASH) as store:
        store.put(b"a", b"quiet")
        store.commit({LOG: 0})
        snapshot = read_snapshot(write_snapshot(store, tmp_path).path)

    assert [batch.to_pydict() for batch in snapshot.batches()] == [
        {"key": [b"a"], "value": [b"QUIET"]}
    ]
