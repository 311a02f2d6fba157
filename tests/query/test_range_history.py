"""Histories of many keys (KIP-969): through every door, the history of each key."""

from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.errors import InvalidArgumentError
from statestores.partitioning import murmur2_partitioner
from statestores.query import QueryableStores
from statestores.spi.stores.store import Isolation
from statestores.tasks import TaskId, TaskManager

RATES = ss.Versioned("rates", history_retention_ms=100, key=ss.utf8, value=ss.int64)
INPUT = ss.TopicPartition("in", 0)
SPANS = [(None, None), (50, None), (None, 60), (40, 70), (0, 5), (65, 65)]


def write(store: Any) -> None:
    """Put versions of some keys, some late, some deleted, some beyond the horizon."""
    for number in range(40):
        key = f"k{number % 7}"
        store.put(key, None if number % 9 == 4 else number, timestamp_ms=(number * 37) % 140)
    store.put("gone", 1, timestamp_ms=60)
    store.put("gone", None, timestamp_ms=70)


def of_each_key(store: Any, first: Any, last: Any, span: Any, *, reverse: bool) -> list[Any]:
    """Return the histories of single keys, one after the other."""
    keys = ["gone", *(f"k{number}" for number in range(7))]
    chosen = [key for key in keys if (first or "") <= key and (last is None or key <= last)]
    return [
        (key, version)
        for key in (reversed(chosen) if reverse else chosen)
        for version in store.history(key, *span, reverse=reverse)
    ]


@pytest.mark.spec("SRV-10")
@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_history_of_a_range_is_that_of_its_keys(
    tmp_path: Path, backend: str, *, reverse: bool
) -> None:
    """The owner sees pending versions, a facade what is committed."""
    with ss.open_store(tmp_path / "s", RATES, backend=backend) as store:
        write(store)
        store.commit({INPUT: 1})
        store.put("k1", 1_000, timestamp_ms=139)
        store.put("new", 7, timestamp_ms=50)
        doors = [store, store.read_only(), store.read_only(Isolation.READ_UNCOMMITTED)]
        for door in doors:
            for first, last in ((None, None), ("k1", "k4"), ("k4", "k1")):
                for span in SPANS:
                    found = list(door.range_history(first, last, *span, reverse=reverse))
                    expected = of_each_key(door, first, last, span, reverse=reverse)
                    new = [pair for pair in found if pair[0] == "new"]

                    assert [pair for pair in found if pair[0] != "new"] == expected
                    assert len(new) <= 1

        assert ("new", 7) in [
            (key, version.value) for key, version in store.range_history(first="n")
        ]
        assert list(store.read_only().range_history(first="n")) == []
        with pytest.raises(InvalidArgumentError):
            store.range_history(first_ms=2, last_ms=1)


@pytest.mark.spec("SRV-10")
def test_histories_of_partitions_are_merged(tmp_path: Path) -> None:
    """One order over all partitions, and within a key by time."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(RATES, partitions=3)
    with TaskManager(root, {0: ["rates"]}, backend="memory") as manager:
        manager.assign([TaskId(0, number) for number in range(3)])
        rates = QueryableStores(manager).store(RATES)
        for number in range(40):
            key = f"k{number % 7}"
            home = murmur2_partitioner.partition(key.encode(), 3)
            task = manager.task(TaskId(0, home))
            task.store("rates").put(key, number, timestamp_ms=100 + number)
        for task in manager.tasks.values():
            task.commit({INPUT: 1})
        expected = [
            (f"k{key}", version)
            for key in range(7)
            for version in rates.history(f"k{key}", 110, 130)
        ]

        assert list(rates.range_history(None, None, 110, 130)) == expected
        assert list(rates.range_history(None, None, 110, 130, reverse=True)) == expected[::-1]
        assert len(expected) > 20
