"""Rows of a timestamped store as columns: what they read and put is what single rows do."""

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import statestores as ss
from statestores.arrow.stamped_rows import StampedRows
from statestores.changelog import ChangelogReader
from statestores.changelog.rows import batch_from_changes, change_schema
from statestores.errors import InvalidArgumentError, StoreClosedError
from statestores.logged_store.encoded_commit import commit_encoded, encoded_pending
from statestores.semantics.timestamped.store import EngineTimestampedKeyValueStore
from statestores.spi.kinds import TIMESTAMPED_KEY_VALUE
from statestores.spi.write_order import ORDERED_FROM

SPECIFICATION: ss.TimestampedKeyValue[bytes, bytes] = ss.TimestampedKeyValue("rows")
INPUT = ss.TopicPartition("input", 0)
_NUMBER = 8
"""The width of values that are whole numbers."""


def _store(path: Path, backend: str = "memory") -> EngineTimestampedKeyValueStore:
    store = ss.open_store(path, SPECIFICATION, backend=backend)
    assert isinstance(store, EngineTimestampedKeyValueStore)
    return store


def _keys(dice: random.Random, count: int) -> list[bytes]:
    """Return distinct keys of several lengths, the empty one among them, in no order."""
    return [b"", *(dice.randbytes(2) + b"%d" % number for number in range(count - 1))]


def _value(dice: random.Random, width: int | None) -> bytes | None:
    if width is not None:
        return dice.randbytes(width)
    return None if dice.random() < 0.2 else dice.randbytes(dice.randrange(_NUMBER))


@pytest.mark.spec("TKV-1", "COM-17")
@pytest.mark.parametrize("width", [None, 0, _NUMBER])
@pytest.mark.parametrize("count", [1, 40, ORDERED_FROM])
def test_columns_do_what_rows_do(tmp_path: Path, count: int, width: int | None) -> None:
    """Three commits into two stores, some keys of which are new: by columns, and one by one.

    Values are of one length, or of any, with deletions. A row that is put after the columns is in
    the commit as well, and columns of other keys after it.
    """
    dice = random.Random(count)
    keys = _keys(dice, 2 * count)
    by_columns, by_rows = _store(tmp_path / "one"), _store(tmp_path / "two")
    for turn in range(3):
        chosen = dice.sample(keys, count)
        values = [_value(dice, width) for _ in chosen]
        times = [dice.randrange(1_000) for _ in chosen]
        rows = StampedRows(by_columns, pa.array(chosen, pa.binary()))
        found = [by_rows.get(key) for key in chosen]

        assert rows.values.to_pylist() == [each and each.value for each in found]
        assert rows.times.tolist() == [-1 if each is None else each.timestamp_ms for each in found]
        numbers = rows.numbers()
        assert (numbers is None) == (width != _NUMBER and any(each is not None for each in found))
        if numbers is not None:
            assert numbers.times.tolist() == rows.times.tolist()
            assert numbers.absent.tolist() == [each is None for each in found]
        if numbers is not None and width == _NUMBER:
            decoded = [0 if each is None else ss.int64.decode(each.value) for each in found]
            assert numbers.values.tolist() == decoded
            encoded = [ss.int64.decode(each or b"") for each in values]
            rows.put_numbers(np.array(encoded), np.array(times))
        else:
            rows.put(pa.array(values, pa.binary()), np.array(times))
        for key, value, time_ms in zip(chosen, values, times, strict=True):
            by_rows.put(key, value, time_ms)
        schema = change_schema(TIMESTAMPED_KEY_VALUE.name)
        columns = by_columns.pending_columns()
        assert columns is not None
        assert pa.RecordBatch.from_arrays(list(columns), schema=schema) == batch_from_changes(
            schema, by_columns.pending_changes()
        )
        if turn:
            for store in (by_columns, by_rows):
                store.put(b"late", b"%d" % turn, 5_000)
            assert by_columns.pending_columns() is None
            StampedRows(by_columns, pa.array([b"later"])).put(pa.array([b"x"]), np.array([turn]))
            by_rows.put(b"later", b"x", turn)
            assert by_columns.pending_columns() is None
        assert by_columns.uncommitted_bytes == by_rows.uncommitted_bytes
        assert by_columns.stream_time_ms == by_rows.stream_time_ms
        for store in (by_columns, by_rows):
            store.commit({INPUT: turn})

        assert list(by_columns.range()) == list(by_rows.range())
        assert by_columns.stream_time_ms == by_rows.stream_time_ms
    by_columns.close()
    by_rows.close()


def test_what_cannot_be_put_is_not_put(tmp_path: Path) -> None:
    """A time before the epoch is refused, and so is whatever comes to a closed store."""
    store = _store(tmp_path / "store")
    rows = StampedRows(store, pa.array([b"a", b"b"]))
    with pytest.raises(InvalidArgumentError, match="timestamp_ms"):
        rows.put(pa.array([b"1", b"2"]), np.array([3, -1]))
    assert not store.has_pending_writes
    store.close()
    with pytest.raises(StoreClosedError):
        rows.put(pa.array([b"1", b"2"]), np.array([3, 4]))
    with pytest.raises(StoreClosedError):
        StampedRows(store, pa.array([b"a"]))


@pytest.mark.spec("LGS-1", "COM-17")
@pytest.mark.parametrize("compression", list(ss.changelog.Compression))
def test_what_was_encoded_is_what_the_changelog_gets(
    tmp_path: Path, compression: ss.changelog.Compression
) -> None:
    """Columns, rows, and a commit without either, in a log of any compression."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(SPECIFICATION, partitions=1)
    options = ss.changelog.ChangelogOptions(compression=compression)
    store = ss.open_logged_store(root, "rows", 0, backend="memory", changelog_options=options)
    with store:
        keys, values = pa.array([b"b", b"a"]), pa.array([b"1", None], pa.binary())
        StampedRows(store.store, keys).put(values, np.array([7, 8]))
        commit_encoded(store, ss.Position({INPUT: 0}), encoded_pending(store))
        store.store.put(b"c", b"3", 9)
        commit_encoded(store, ss.Position({INPUT: 1}), encoded_pending(store))
        commit_encoded(store, ss.Position({INPUT: 2}), encoded_pending(store))
        assert not store.store.has_pending_writes
    with ChangelogReader.open(root.partition("rows", 0).changelog) as log:
        frames = list(log.read())

    assert [each.changes.keys for each in frames] == [[b"b", b"a"], [b"c"], []]
    assert [each.changes.values for each in frames] == [[b"1", None], [b"3"], []]
    assert [each.changes.timestamps_ms for each in frames] == [[7, None], [9], []]
    assert [each.position[INPUT] for each in frames] == [0, 1, 2]


def _number(value: int) -> bytes:
    encoded = ss.int64.encode(value)
    assert encoded is not None
    return encoded


@pytest.mark.spec("COM-19")
def test_numbers_before_the_epoch_are_not_put(tmp_path: Path) -> None:
    """As `put` refuses them: a row with such a timestamp could not be read again."""
    store = _store(tmp_path / "store")
    rows = StampedRows(store, pa.array([b"a", b"b"]))
    with pytest.raises(InvalidArgumentError, match="timestamp_ms"):
        rows.put_numbers(np.array([1, 2]), np.array([3, -1]))

    assert not store.has_pending_writes
    store.close()


@pytest.mark.spec("TKV-1")
def test_a_deletion_moves_no_time(tmp_path: Path) -> None:
    """Whenever it was: the time of the last value is what the store has reached."""
    store = _store(tmp_path / "store")
    keys, values = [b"a", b"b", b"c"], [None, b"1", None]
    StampedRows(store, pa.array(keys)).put(pa.array(values), np.array([9, 3, 7]))

    assert store.stream_time_ms == 3
    store.commit({INPUT: 1})
    assert store.stream_time_ms == 3
    assert list(store.range()) == [(b"b", ss.TimestampedValue(b"1", 3))]
    store.close()


@pytest.mark.spec("TKV-1", "COM-17")
@pytest.mark.parametrize("values", [[None, None], [None, b""], [b"a", b"bcd"]], ids=repr)
def test_values_of_any_shape_are_put_and_read(tmp_path: Path, values: list[bytes | None]) -> None:
    """Deletions alone, beside an empty value, and values of several lengths."""
    store = _store(tmp_path / "store")
    store.put(b"x", b"before", 1)
    StampedRows(store, pa.array([b"x", b"y"])).put(pa.array(values, pa.binary()), np.array([5, 6]))
    store.commit({INPUT: 1})

    rows = StampedRows(store, pa.array([b"x", b"y", b"z"]))

    assert [each and each.value for each in store.get_many([b"x", b"y"])] == values
    assert rows.values.to_pylist() == [*values, None]
    assert rows.times.tolist() == [
        -1 if value is None else time_ms
        for value, time_ms in zip([*values, None], [5, 6, 0], strict=True)
    ]
    assert rows.values is rows.values  # cut once, however often they are asked for
    store.close()


@pytest.mark.spec("COM-17")
def test_slices_of_columns_have_their_own_size(tmp_path: Path) -> None:
    """Of a column that begins later: `uncommitted_bytes` is what tells a caller to commit."""
    by_columns, by_rows = _store(tmp_path / "one"), _store(tmp_path / "two")
    keys = pa.array([b"before", b"a", b"bb"]).slice(1)
    values = pa.array([b"what was before", b"1", b"22"]).slice(1)

    StampedRows(by_columns, keys).put(values, np.array([3, 4]))

    by_rows.put_many([b"a", b"bb"], [b"1", b"22"], [3, 4])
    assert by_columns.uncommitted_bytes == by_rows.uncommitted_bytes
    assert list(by_columns.range()) == list(by_rows.range())
    for store in (by_columns, by_rows):
        store.close()


@pytest.mark.parametrize("offsets", [None, pa.py_buffer(b"\0" * 4)], ids=["none", "one"])
def test_no_rows_are_read_and_put(tmp_path: Path, offsets: pa.Buffer | None) -> None:
    """Arrow lets an empty column come without offsets."""
    store = _store(tmp_path / "store")
    nothing = pa.Array.from_buffers(pa.binary(), 0, [None, offsets, pa.py_buffer(b"")])
    rows = StampedRows(store, nothing)
    rows.put(nothing, np.empty(0, np.int64))

    assert rows.values.to_pylist() == []
    assert rows.times.tolist() == []
    assert (store.uncommitted_bytes, store.stream_time_ms) == (0, None)
    store.close()


@pytest.mark.spec("COM-17")
@pytest.mark.parametrize("count", [ORDERED_FROM - 1, ORDERED_FROM])
def test_many_rows_are_put_in_the_order_of_their_keys(tmp_path: Path, count: int) -> None:
    """That is what engines of sorted rows take best; few of them stay as they came."""
    store = _store(tmp_path / "store")
    keys = _keys(random.Random(count), count)
    numbers = np.arange(count)

    StampedRows(store, pa.array(keys)).put_numbers(numbers, numbers)

    columns = store.pending_columns()
    assert columns is not None
    assert columns[0].to_pylist() == (sorted(keys) if count == ORDERED_FROM else keys)
    store.commit({INPUT: 1})
    assert [store.get(key) for key in keys] == [
        ss.TimestampedValue(_number(number), number) for number in range(count)
    ]
    store.close()
