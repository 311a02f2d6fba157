"""A large batch is written in the order of its keys, and says the same in any order."""

import random
from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from pathlib import Path
from typing import Never

import pytest

from statestores.registry import load_backend
from statestores.semantics.retained.rows import RetainedRows
from statestores.semantics.retained.rows_by_start import columns_of
from statestores.semantics.rows.layout import DATA
from statestores.semantics.rows.namespaced_rows import NamespacedRows
from statestores.spi import Durability
from statestores.spi.write_order import ORDERED_FROM, InWriteOrder, in_write_order

DICE = random.Random(20)


def _batch(count: int) -> dict[bytes, bytes | None]:
    keys = [b"%08d" % number for number in DICE.sample(range(10 * count), count)]
    return {key: None if DICE.random() < 0.2 else key for key in keys}


def test_a_batch_is_sorted_where_that_pays() -> None:
    """Few changes come as they are, many by their keys; those that come in order stay so.

    Of a batch that says that it is in order nobody finds out whether it is.
    """
    few, many = _batch(ORDERED_FROM - 1), _batch(ORDERED_FROM)
    ordered = dict(sorted(many.items()))
    says_so = _SaysSo(many)

    assert list(in_write_order(few)) == list(few.items())
    assert list(in_write_order(many)) == sorted(many.items())
    assert list(in_write_order(ordered)) == list(ordered.items())
    assert list(in_write_order(says_so)) == list(many.items())


def test_pairs_in_order_are_no_order() -> None:
    """A commit of extended sessions was not sorted: each is removed, and put with a later end.

    The batch was looked at in places an even number of changes apart, and so between the two
    changes of a session alone, which always ascend; RocksDB's write took 1.35 of its time.
    """
    keys = DICE.sample(range(100_000), ORDERED_FROM)
    batch: dict[bytes, bytes | None] = {}
    for key in keys:
        batch |= {b"%08d removed" % key: None, b"%08d without" % key: b"x"}

    assert list(in_write_order(batch)) == sorted(batch.items())


def test_a_few_rows_behind_sorted_ones_do_not_undo_their_order() -> None:
    """Commits of versions are sorted, but for their progress and offsets, which come last.

    Where the last place that was looked at was among these, all of it was sorted again.
    """
    for count in range(ORDERED_FROM, ORDERED_FROM + 16):
        batch = dict(sorted(_batch(count).items())) | {b"": b"progress", b" offset": b"1"}

        assert list(in_write_order(batch)) == list(batch.items())


def test_a_batch_that_sorts_itself_says_what_it_did() -> None:
    """That of a key-value store, in any order; rows of other namespaces are last.

    It was a dictionary first, which took as much as the sorting.
    """
    rows = _batch(ORDERED_FROM)
    ordered = dict(sorted(rows.items()))
    last = (b"\x01 a row about the commit", b"1")
    for pending in (rows, ordered):
        batch = NamespacedRows(pending)
        batch[last[0]] = last[1]

        assert list(in_write_order(batch)) == [
            *((DATA + key, row) for key, row in ordered.items()),
            last,
        ]


@pytest.mark.parametrize("backend", ["rocksdb", "leveldb"])
def test_a_batch_that_sorts_itself_is_applied_with_its_deletions(
    backend: str, tmp_path: Path
) -> None:
    """RocksDB begins such a batch anew at its first deletion: keys have to come a second time."""
    rows = _batch(2 * ORDERED_FROM)
    engine = load_backend(backend).open(tmp_path / "engine", {})
    engine.apply({DATA + key: b"before" for key in rows}, Durability.PROCESS_CRASH)
    engine.apply(NamespacedRows(rows), Durability.PROCESS_CRASH)

    assert engine.get_many([DATA + key for key in rows]) == list(rows.values())
    engine.close()


def test_windows_of_a_start_come_by_their_keys_if_they_are_many() -> None:
    """With their values, which are pending in another order, and so for each of two starts.

    What remembers their names goes on by the order in which they were put.
    """
    keys = [b"%08d" % number for number in DICE.sample(range(10_000), ORDERED_FROM)]
    few: dict[bytes, bytes | None] = dict.fromkeys(keys[:-1], b"few")
    many: dict[bytes, bytes | None] = {key: key[::-1] for key in keys}
    of = RetainedRows(has_number=False)
    columns, data_keys, values = columns_of(of, {1_000: few, 2_000: many})

    assert data_keys == [
        *(of.data_key(key, 1_000) for key in few),
        *sorted(of.data_key(key, 2_000) for key in many),
    ]
    assert values == [*few.values(), *(key[::-1] for key in sorted(keys))]
    assert [each.rows for each in columns] == [few, many]
    assert [list(each.rows) for each in columns] == [list(few), keys]
    assert [each.values for each in columns] == [values[: len(few)], values[len(few) :]]


class _AskedForAll(Mapping[bytes, bytes | None]):
    """A batch that is a view: to find one key takes a step of Python, which is refused here."""

    def __init__(self, rows: dict[bytes, bytes | None]) -> None:
        self._rows = rows

    def __getitem__(self, key: bytes) -> Never:
        raise AssertionError(f"{key!r} was asked for by itself")

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def items(self) -> ItemsView[bytes, bytes | None]:
        return self._rows.items()

    def values(self) -> ValuesView[bytes | None]:
        return self._rows.values()


class _SaysSo(_AskedForAll, InWriteOrder):
    """A batch that is a view, and says that it is in order."""


@pytest.mark.parametrize("count", [100, 2 * ORDERED_FROM])
@pytest.mark.parametrize("backend", ["rocksdb", "leveldb"])
def test_no_key_of_a_batch_is_looked_for(backend: str, count: int, tmp_path: Path) -> None:
    """A commit of 10,000 new keys in no order looked each of them up in its view of the writes.

    That was a seventh of what RocksDB took for them. Deletions are among them here: they take
    another way there.
    """
    engine = load_backend(backend).open(tmp_path / "engine", {})
    rows = _batch(count)
    engine.apply(_AskedForAll(rows), Durability.PROCESS_CRASH)

    assert engine.get_many(list(rows)) == list(rows.values())
    engine.close()


@pytest.mark.spec("ENG-2")
@pytest.mark.parametrize("backend", ["rocksdb", "leveldb"])
def test_large_batches_leave_the_last_of_each_key(backend: str, tmp_path: Path) -> None:
    """Three batches of the same keys in different orders, with deletions."""
    engine = load_backend(backend).open(tmp_path / "engine", {})
    batches = [_batch(3 * ORDERED_FROM) for _ in range(3)]
    expected: dict[bytes, bytes | None] = {}
    for batch in batches:
        engine.apply(batch, Durability.PROCESS_CRASH)
        expected.update(batch)

    assert engine.get_many(list(expected)) == list(expected.values())
    engine.close()
