"""How many changes a restore lets wait, and when it folds them."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from restored_rows import plain_changes

from statestores.arrow.restoring import sink, waiting_changes
from statestores.arrow.restoring.sink import RecordSink
from statestores.arrow.restoring.waiting_changes import WaitingChanges
from statestores.arrow.rows import tail
from statestores.arrow.rows.encoder import LARGE
from statestores.arrow.rows.key_value import KeyValueEncoder, TimestampedEncoder
from statestores.arrow.schemas import TIMESTAMPED_ROWS
from statestores.changelog.rows import change_schema
from statestores.spi import TimestampedKeyValue
from statestores_conformance.many_cases import for_each


def test_records_wait_until_there_are_enough(
    open_store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By rows and by bytes; what waited when the store was emptied is not counted."""
    store = open_store(TimestampedKeyValue("live"))
    loading = RecordSink(store, 3)
    row = {"key": b"a", "value": b"1", "timestamp": 5}
    loading.load(iter([pa.RecordBatch.from_pylist([row] * 2, TIMESTAMPED_ROWS)]), 5)
    assert not loading.is_full
    loading.truncate()
    loading.load(iter([pa.RecordBatch.from_pylist([row] * 2, TIMESTAMPED_ROWS)]), 5)
    assert store.has_pending_writes
    monkeypatch.setattr(sink, "_BATCH_BYTES", store.uncommitted_bytes + 1)
    assert not loading.is_full
    monkeypatch.setattr(sink, "_BATCH_BYTES", store.uncommitted_bytes)
    assert loading.is_full


def _waiting(limit: int, encoder: Any) -> WaitingChanges:
    return WaitingChanges(change_schema("key-value"), limit, encoder)


class _Halving(KeyValueEncoder):
    """Folds what waits to its first half."""

    times_ms: Iterator[int] = iter(())

    def fold(self, changes: pa.RecordBatch, *, is_empty: bool) -> tuple[pa.RecordBatch, int]:
        kept = changes.slice(0, changes.num_rows // 2)
        return pa.RecordBatch.from_pylist(kept.to_pylist(), kept.schema), next(self.times_ms)


@pytest.mark.spec("SNP-16")
def test_changes_are_folded_when_they_reach_the_limit() -> None:
    """To the byte; and wait on if no more than half of it remains."""
    changes = plain_changes(*[(b"%d" % number, b"v" * 9) for number in range(8)])
    half = pa.RecordBatch.from_pylist(changes.slice(0, 4).to_pylist(), changes.schema).nbytes
    for limit, remains, full in (
        (changes.nbytes + 1, changes.nbytes, False),
        (changes.nbytes, half, False),
        (changes.nbytes - 2, half, True),
    ):
        encoder = _Halving()
        encoder.times_ms = iter([1])
        waiting = _waiting(limit, encoder)
        waiting.add(changes, deletes=False)

        assert waiting.is_full(100, is_empty=False) == full
        assert waiting.bytes == remains


@pytest.mark.spec("SNP-16")
@for_each("spare", [0, 1])
def test_what_was_folded_waits_on_while_it_is_half_of_the_limit(spare: int) -> None:
    """A byte more, and it is committed: the next folding would not be worth it."""
    changes = plain_changes(*[(b"%d" % number, b"v" * 9) for number in range(8)])

    class Folding(KeyValueEncoder):
        def fold(self, changes: pa.RecordBatch, *, is_empty: bool) -> tuple[pa.RecordBatch, int]:
            return folded, 1

    folded = plain_changes((b"a", b"v" * 9))
    waiting = _waiting(2 * folded.nbytes - 2 * spare, Folding())
    waiting.add(changes, deletes=False)

    assert waiting.is_full(100, is_empty=False) == (spare == 1)


@pytest.mark.spec("TTL-2")
def test_the_highest_time_of_what_was_dropped_is_kept() -> None:
    """Of each folding, until it is taken: it is stream time."""
    encoder = _Halving()
    encoder.times_ms = iter([30, 50, 40])
    waiting = _waiting(1, encoder)
    for number in range(3):
        waiting.add(plain_changes((b"%d" % number, b"1"), (b"x", b"2")), deletes=False)
        assert waiting.is_full(100, is_empty=False)

    assert waiting.take(is_empty=False).highest_ms == 50
    waiting.add(plain_changes((b"a", b"1")), deletes=False)
    assert waiting.take(is_empty=False).highest_ms < 0


@pytest.mark.parametrize("is_large", [False, True])
def test_columns_become_large_before_they_are_joined(
    monkeypatch: pytest.MonkeyPatch, is_large: bool
) -> None:
    """Together they may exceed 2 GiB; times have no offsets, and stay as they are."""
    schema = change_schema("timestamped-key-value")
    row = {"key": b"k", "value": b"v" * 9, "timestamp": 7}
    batch = pa.RecordBatch.from_pylist([{name: row[name] for name in schema.names}], schema)
    joined: list[list[pa.DataType]] = []

    def concat(batches: Any, schema: pa.Schema) -> pa.RecordBatch:
        joined.extend(each.schema.types for each in batches)
        return real(batches, schema)

    real = tail.concat
    monkeypatch.setattr(waiting_changes, "concat", concat)
    monkeypatch.setattr(waiting_changes, "_SMALL_BYTES", 2 * batch.nbytes - is_large)
    waiting = WaitingChanges(schema, 1 << 20, TimestampedEncoder())
    for _ in range(2):
        waiting.add(batch, deletes=False)

    rows = waiting.take(is_empty=True)

    assert joined == [[LARGE, LARGE, pa.int64()] if is_large else schema.types] * 2
    assert (len(list(rows.rows)), rows.highest_ms) == (1, 7)
