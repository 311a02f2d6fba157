"""One budget for the memory of many stores: what each gets, and what they take together."""

import gc
import os
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.errors import (
    InvalidArgumentError,
    InvalidOptionError,
    MemoryBudgetExceededError,
    StoreLockedError,
)
from statestores_conformance.many_cases import for_each

for driver in ("statestores_leveldb", "rocksdict"):
    pytest.importorskip(driver, reason=f"the driver {driver} is not installed")

# Behind the skip, since they import the drivers.
from statestores_leveldb import LevelDBOptions  # noqa: E402
from statestores_rocksdb import shared_memory  # noqa: E402
from statestores_sqlite.options import SQLiteOptions  # noqa: E402

MIB = 1024 * 1024
BACKENDS = ("rocksdb", "leveldb", "sqlite")

STORES = 8
BUDGET_BYTES = 32 * MIB
ALLOWANCE_BYTES = 16 * MIB
"""For what no budget bounds: a commit's pending rows, iterators, and what the allocator holds."""

FILL_AND_READ = """
import random, sys
import statestores as ss

def anonymous_bytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))

root, backend, budget_bytes, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with ss.open_store(f"{root}/warm", ss.KeyValue("warm"), backend=backend) as warm:
    warm.put(b"k", b"v")
    warm.commit({})
before = anonymous_bytes()
options = {"memory_budget": ss.MemoryBudget(budget_bytes, stores=count)} if budget_bytes else {}
stores = [
    ss.open_store(f"{root}/{number}", ss.KeyValue("s"), backend=backend, options=options,
                  durability=ss.Durability.PROCESS_CRASH)
    for number in range(count)
]
chance, highest = random.Random(1), 0
for start in range(0, 8_000, 500):
    for store in stores:
        for number in range(start, start + 500):
            store.get(b"key-%08d" % number)  # so that its row is kept
            store.put(b"key-%08d" % number, chance.randbytes(500))
        store.commit({})
    highest = max(highest, anonymous_bytes())
for store in stores:
    for number in range(4_000):
        store.get(b"key-%08d" % chance.randrange(8_000))
    highest = max(highest, anonymous_bytes())
for store in stores:
    store.close()
print(highest - before)
"""


def taken_bytes(root: Path, backend: str, budget_bytes: int) -> int:
    """Return what a new process takes for filling and reading its stores."""
    command = [sys.executable, "-c", FILL_AND_READ, str(root), backend]
    finished = subprocess.run(
        [*command, str(budget_bytes), str(STORES)],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        # Arenas of the allocator are for threads; one measures what is used rather than kept.
        env={**os.environ, "MALLOC_ARENA_MAX": "1"},
    )
    return int(finished.stdout)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="measures by /proc")
@pytest.mark.parametrize("backend", BACKENDS)
def test_stores_of_one_budget_keep_it(backend: str, tmp_path: Path) -> None:
    """Eight stores with 36 MB of data, written and read: the process stays below the budget."""
    bounded = taken_bytes(tmp_path, backend, BUDGET_BYTES)

    assert bounded <= BUDGET_BYTES + ALLOWANCE_BYTES


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="measures by /proc")
def test_without_a_budget_the_same_takes_more(tmp_path: Path) -> None:
    """So the test above can fail."""
    unbounded = taken_bytes(tmp_path, "rocksdb", 0)

    assert unbounded > BUDGET_BYTES + ALLOWANCE_BYTES


def test_a_budget_is_divided_into_equal_parts() -> None:
    """A quarter for the stores' caches, the rest for the engines."""
    budget = ss.MemoryBudget(64 * MIB, stores=4)

    assert (budget.cache_bytes, budget.engine_bytes) == (4 * MIB, 12 * MIB)
    assert budget.pool_bytes == 4 * budget.engine_bytes
    assert (budget.total_bytes, budget.stores, budget.open_stores) == (64 * MIB, 4, 0)


@for_each(
    ("total_bytes", "stores"),
    [(0, 1), (-MIB, 1), (1.5 * MIB, 1), (True, 1), (MIB, 0), (MIB, "2"), (MIB, 5)],
)
def test_a_budget_that_makes_no_sense_is_refused(total_bytes: Any, stores: Any) -> None:
    """No numbers, none left for a store, and too little for each."""
    with pytest.raises(InvalidArgumentError):
        ss.MemoryBudget(total_bytes, stores=stores)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_place_is_free_again_once_a_store_is_closed(backend: str, tmp_path: Path) -> None:
    """One store more than the budget is for is refused, and closing twice frees one place."""
    budget = ss.MemoryBudget(16 * MIB, stores=1)
    options = {"memory_budget": budget}
    first = ss.open_store(tmp_path / "a", ss.KeyValue("a"), backend=backend, options=options)
    first.put(b"k", b"v")
    first.commit({})
    with pytest.raises(MemoryBudgetExceededError, match="close one") as refused:
        ss.open_store(tmp_path / "b", ss.KeyValue("b"), backend=backend, options=options)
    first.close()
    first.close()

    assert refused.value.retryable
    assert budget.open_stores == 0
    with ss.open_store(tmp_path / "a", ss.KeyValue("a"), backend=backend, options=options) as again:
        assert again.get(b"k") == b"v"
        assert budget.open_stores == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_opening_that_fails_takes_no_place(backend: str, tmp_path: Path) -> None:
    """The directory is open already: the second opening has joined no budget."""
    budget = ss.MemoryBudget(16 * MIB, stores=2)
    options = {"memory_budget": budget}
    with (
        ss.open_store(tmp_path, ss.KeyValue("a"), backend=backend, options=options),
        pytest.raises(StoreLockedError),
    ):
        ss.open_store(tmp_path, ss.KeyValue("a"), backend=backend, options=options)

    assert budget.open_stores == 0


def test_a_forked_child_has_the_whole_budget(tmp_path: Path) -> None:
    """What its parent has open counted there too: nothing could be opened, and never closed."""
    program = """
import os, sys
import statestores as ss

options = {"memory_budget": ss.MemoryBudget(16 << 20, stores=1)}
opened = ss.open_store(sys.argv[1], ss.KeyValue("a"), backend="sqlite", options=options)
if child := os.fork():
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), options["memory_budget"].open_stores)
else:
    with ss.open_store(sys.argv[2], ss.KeyValue("a"), backend="sqlite", options=options) as own:
        own.put(b"k", b"v")
        own.commit({})
    os._exit(options["memory_budget"].open_stores)
"""
    command = [sys.executable, "-c", program, str(tmp_path / "a"), str(tmp_path / "b")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.split() == ["0", "1"]


def test_a_store_that_is_not_the_expected_one_gives_its_place_back(tmp_path: Path) -> None:
    """The engine was open already when the specification was compared."""
    budget = ss.MemoryBudget(16 * MIB, stores=1)
    ss.open_store(tmp_path, ss.KeyValue("a"), backend="leveldb").close()
    with pytest.raises(ValueError, match="b"):
        ss.open_store(tmp_path, ss.KeyValue("b"), options={"memory_budget": budget})

    assert budget.open_stores == 0


def test_a_backend_that_cannot_be_bounded_refuses_a_budget(tmp_path: Path) -> None:
    """What is in memory only takes what it takes."""
    budget = ss.MemoryBudget(16 * MIB, stores=1)

    with pytest.raises(InvalidOptionError, match="memory_budget"):
        ss.open_store(
            tmp_path, ss.KeyValue("a"), backend="memory", options={"memory_budget": budget}
        )


def test_a_budget_cannot_be_written_as_text(tmp_path: Path) -> None:
    """It is one object for several stores, and a text names none."""
    with pytest.raises(InvalidOptionError, match="a MemoryBudget, which only a program can give"):
        ss.open_store(tmp_path, ss.KeyValue("a"), options={"memory_budget": "64 MiB"})


def test_engines_that_share_nothing_ask_for_no_more_than_they_want() -> None:
    """A large part of a budget makes no cache larger than its option says."""
    large = ss.MemoryBudget(1024 * MIB, stores=2)
    leveldb, _ = LevelDBOptions(memory_budget=large).within_budget()
    sqlite, _ = SQLiteOptions(memory_budget=large).within_budget()

    assert leveldb.write_buffer_bytes == LevelDBOptions().write_buffer_bytes
    assert leveldb.cache_bytes == LevelDBOptions().cache_bytes
    assert sqlite.cache_bytes == SQLiteOptions().cache_bytes


def test_small_parts_are_divided_in_the_proportion_of_the_options() -> None:
    """LevelDB's two write buffers and its cache, and SQLite's four connections."""
    small = ss.MemoryBudget(16 * MIB, stores=2)
    leveldb, _ = LevelDBOptions(memory_budget=small).within_budget()
    sqlite, _ = SQLiteOptions(memory_budget=small).within_budget()

    assert 2 * leveldb.write_buffer_bytes + leveldb.cache_bytes == small.engine_bytes
    assert leveldb.cache_bytes == 2 * leveldb.write_buffer_bytes
    assert 4 * sqlite.cache_bytes == small.engine_bytes


def test_an_engine_that_needs_more_than_its_part_says_so() -> None:
    """LevelDB does not work with less than 1 MiB."""
    tiny = ss.MemoryBudget(MIB, stores=4)

    with pytest.raises(MemoryBudgetExceededError, match="make the budget larger"):
        LevelDBOptions(memory_budget=tiny).within_budget()
    assert tiny.open_stores == 0


def test_the_memory_of_a_budget_ends_with_it(tmp_path: Path) -> None:
    """What RocksDB's engines share is not kept by the module that finds it.

    It is asked for by itself: other budgets, of tests that are over, may go at the same moment.
    """
    budget = ss.MemoryBudget(16 * MIB, stores=1)
    ss.open_store(
        tmp_path, ss.KeyValue("a"), backend="rocksdb", options={"memory_budget": budget}
    ).close()
    shared = weakref.ref(shared_memory.shared_memory(budget))
    assert shared() is not None
    del budget
    gc.collect()

    assert shared() is None


@pytest.mark.parametrize("size", ["4096", 0, 1])
def test_the_size_of_the_read_cache_is_an_option_of_every_store(size: Any, tmp_path: Path) -> None:
    """It is not the engine's, and may be written as text."""
    specification = ss.KeyValue("a")
    with ss.open_store(tmp_path, specification, options={"Read_Cache_Bytes": size}) as store:
        assert store.get(b"k") is None  # so that its row is kept
        store.put(b"k", b"v")
        store.commit({})

        assert store.get(b"k") == b"v"
        assert bool(store._cached) == (size == "4096")  # type: ignore[attr-defined]  # ours


@pytest.mark.parametrize("size", [-1, "many", None])
def test_a_size_that_is_none_is_refused(size: Any, tmp_path: Path) -> None:
    """Negative, no number, and nothing."""
    with pytest.raises(InvalidOptionError, match="read_cache_bytes"):
        ss.open_store(tmp_path, ss.KeyValue("a"), options={"read_cache_bytes": size})
