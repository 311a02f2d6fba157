"""A whole table as one commit, whichever way it goes."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import statestores as ss
from statestores.arrow import commit_many, put_many
from statestores.errors import InvalidArgumentError, OffsetRegressionError
from statestores.serdes import int64, typed, utf8
from statestores.spi import (
    Changes,
    KeyValue,
    TimestampedKeyValue,
    TimestampedValue,
    TopicPartition,
    Versioned,
)

BYTES = KeyValue("bytes")
TYPED = KeyValue("typed", key=utf8, value=int64)
STAMPED = TimestampedKeyValue("stamped")
LOG = TopicPartition("log", 0)

MANY = 500


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the way of many rows with fewer of them."""
    monkeypatch.setattr("statestores.arrow.restoring.bulk_put.LEAST_ROWS", MANY)


@pytest.mark.parametrize("deletes", [False, True], ids=["puts", "deletions too"])
@pytest.mark.parametrize("count", [10, MANY], ids=["few", "many"])
@pytest.mark.spec("COM-1")
def test_it_is_the_same_as_putting_and_committing(
    open_store: Any, backend: str, count: int, *, deletes: bool
) -> None:
    """Over what is there, the later row of a key winning, Unicode and empty keys among them.

    Every key is there before: a deletion that is left out shows.
    """
    keys = [f"é{number * 3 % (count - 3)}" for number in range(count - 1)] + [""]
    values = [None if deletes and number % 5 == 0 else number for number in range(count)]
    rows = pa.table(
        {"key": pa.array(keys).dictionary_encode(), "value": pa.array(values, pa.int64())}
    )
    before = sorted({*keys, "other"})
    stores = [typed(open_store(TYPED, backend), TYPED) for _ in range(2)]
    for store in stores:
        put_many(store, pa.table({"key": before, "value": [-1] * len(before)}))
        store.commit({LOG: 1})

    accepted = commit_many(stores[0], rows, {LOG: 2})
    put_many(stores[1], rows)
    stores[1].commit({LOG: 2})

    assert accepted == count
    assert stores[0].committed_offset(LOG) == 2
    assert list(stores[0].range()) == list(stores[1].range())
    assert list(stores[0].read_only().range()) == list(stores[1].range())


def test_rows_and_offset_are_there_after_opening_again(open_store: Any) -> None:
    """From sorted files, which the write-ahead log does not hold."""
    store = open_store(BYTES, "rocksdb", "again")
    keys = [b"%d" % number for number in range(MANY)]
    commit_many(store, pa.table({"key": keys, "value": keys}), {LOG: 5})
    store.close()

    store = open_store(BYTES, "rocksdb", "again")

    assert store.committed_offset(LOG) == 5
    assert store.get_many(keys) == keys


def test_timestamps_come_along(open_store: Any) -> None:
    """And move stream time."""
    store = open_store(STAMPED)
    keys = [b"%d" % number for number in range(MANY)]
    times = pa.array([*range(MANY - 1), None], pa.int64())
    commit_many(store, pa.table({"key": keys, "value": keys, "timestamp": times}))

    assert store.get(b"7") == TimestampedValue(b"7", 7)
    assert store.get(keys[-1]).timestamp_ms is None


@pytest.mark.spec("COM-43", "TKV-5")
def test_stream_time_is_that_of_rows_whose_commit_raised(open_store: Any) -> None:
    """Ctrl-C came when the engine had the rows: the store showed what had expired long ago.

    Its stream time was that from before, and the next commit stored it.
    """
    store = open_store(TimestampedKeyValue("expiring", ttl_ms=10))
    apply = store._engine.apply

    def apply_and_interrupt(batch: Any, durability: Any) -> None:
        apply(batch, durability)
        raise KeyboardInterrupt

    store._engine.apply = apply_and_interrupt
    keys = [b"%d" % number for number in range(MANY)]
    with pytest.raises(KeyboardInterrupt):
        commit_many(store, pa.table({"key": keys, "value": keys, "timestamp": range(MANY)}))
    store._engine.apply = apply
    store.put(b"late", b"", 5)
    store.commit({})

    assert store.stream_time_ms == store.read_only().stream_time_ms == MANY - 1
    assert [key for key, _ in store.range()] == keys[-10:]


def test_other_kinds_are_put_and_committed(open_store: Any) -> None:
    """Late versions are not accepted, and counted so."""
    store = open_store(Versioned("short", history_retention_ms=10))
    rows = pa.table({"key": [b"a", b"b"], "value": [b"1", b"2"], "valid_from": [100, 1]})

    assert commit_many(store, rows, {LOG: 0}) == 1
    assert store.read_only().get(b"a").value == b"1"


def test_a_logged_store_logs_first(tmp_path: Path) -> None:
    """The changelog has every row, and the store its offset."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(BYTES, partitions=1)
    keys = [b"%d" % number for number in range(MANY)]
    with ss.open_logged_store(root, "bytes", 0, backend="memory") as logged:
        commit_many(logged.store, pa.table({"key": keys, "value": keys}))

        assert logged.changelog.end_offset == MANY
        assert logged.committed_offset == MANY - 1
        assert logged.store.get_many(keys) == keys


@pytest.mark.parametrize("count", [2, MANY], ids=["few", "many"])
def test_what_is_refused_leaves_nothing_behind(open_store: Any, count: int) -> None:
    """No row, no offset, nothing pending."""
    store = open_store(BYTES)
    store.commit({LOG: 5})
    keys = [b"%d" % number for number in range(count)]
    rows = pa.table({"key": keys, "value": keys})

    with pytest.raises(OffsetRegressionError):
        commit_many(store, rows, {LOG: 4})
    with pytest.raises(InvalidArgumentError, match="'key' has nulls"):
        commit_many(store, pa.table({"key": [b"a", None], "value": [b"1", b"2"]}), {LOG: 6})

    assert (list(store.range()), store.uncommitted_bytes) == ([], 0)
    assert store.committed_offset(LOG) == 5
    store.put(b"pending", b"1")
    with pytest.raises(InvalidArgumentError, match="pending writes"):
        commit_many(store, rows)
    assert store.pending_changes() == Changes([b"pending"], [b"1"])
