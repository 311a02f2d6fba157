"""The floor of putting versions: it leaves what a store leaves, or it is a bound of other work."""

import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

for driver in ("statestores_leveldb", "rocksdict", "sqlalchemy", "pyarrow"):
    pytest.importorskip(driver, reason=f"the driver {driver} is not installed")

# Behind the skip, since they import the drivers.

from statestores.semantics.rows.layout import DATA, END, HISTORY  # noqa: E402
from statestores_benchmarks.cases import TINY, Timed  # noqa: E402
from statestores_benchmarks.drivers import OPENED  # noqa: E402
from statestores_benchmarks.floors.batches import beginner, getter  # noqa: E402
from statestores_benchmarks.floors.versions import commit_versions, put_versions  # noqa: E402
from statestores_benchmarks.measurement import measure  # noqa: E402
from statestores_benchmarks.workloads.batches import groups  # noqa: E402
from statestores_rocksdb import RocksDBEngine  # noqa: E402

KEYS = [b"\x00key-%d\x00\x00" % number for number in range(300)]
SEED = 20_261_128

Columns = tuple[list[bytes], list[bytes], list[int]]


def columns(*, is_of_one_time: bool) -> Columns:
    """Return three versions of each key, in another order each time, and none of some at first."""
    chance = random.Random(SEED)
    keys: list[bytes] = []
    times: list[int] = []
    for version in range(3):
        some = chance.sample(KEYS, len(KEYS))
        keys += some
        times += [version * 1_000 + (0 if is_of_one_time else place) for place in range(len(some))]
    return keys, [b"%d of %b" % (time, key) for key, time in zip(keys, times, strict=True)], times


def ours(given: Columns, path: Path) -> dict[bytes, list[tuple[bytes, bytes]]]:
    """Return the rows that a store leaves."""
    with OPENED["versioned"]("rocksdb", path) as store:
        for row in zip(*given, strict=True):
            store.put(*row)
        store.commit({})
    return rows(path)


def rows(path: Path) -> dict[bytes, list[tuple[bytes, bytes]]]:
    """Return the rows of both namespaces in *path*."""
    engine = RocksDBEngine.open(path)
    try:
        return {
            DATA: list(engine.scan(DATA, HISTORY)),
            HISTORY: list(engine.scan(HISTORY, END)),
        }
    finally:
        engine.close()


@pytest.mark.parametrize("is_of_one_time", [True, False], ids=["one-time", "a-time-for-each"])
def test_it_leaves_the_rows_that_ours_leaves(tmp_path: Path, *, is_of_one_time: bool) -> None:
    """Keys that hold zero bytes are escaped where they lie before a time, and only there."""
    given = columns(is_of_one_time=is_of_one_time)
    with put_versions("rocksdb", given, tmp_path / "floor") as timed:
        timed()
    expected = ours(given, tmp_path / "ours")

    assert len(expected[HISTORY]) == 2 * len(KEYS)
    assert rows(tmp_path / "floor") == expected


@pytest.mark.parametrize("is_of_one_time", [True, False], ids=["one-time", "a-time-for-each"])
def test_what_is_stored_is_superseded(tmp_path: Path, *, is_of_one_time: bool) -> None:
    """A version that is stored, and not remembered, is kept: of some keys there is none."""
    keys, values, times = columns(is_of_one_time=is_of_one_time)
    half, count = len(KEYS) // 2, len(KEYS)
    with OPENED["versioned"]("rocksdb", tmp_path / "floor") as store:
        get, begin = getter("rocksdb", store), beginner("rocksdb", store)
        for start, stop in ((0, half), (count, 2 * count), (2 * count, 3 * count)):
            part = slice(start, stop)
            pending = dict(
                zip(keys[part], zip(times[part], values[part], strict=True), strict=True)
            )
            commit_versions(get, begin, {}, pending)
    given = (
        keys[:half] + keys[count:],
        values[:half] + values[count:],
        times[:half] + times[count:],
    )
    expected = ours(given, tmp_path / "ours")

    assert rows(tmp_path / "floor") == expected


def test_what_was_put_is_remembered(tmp_path: Path) -> None:
    """Of a key that was put the driver is not asked, and its next version supersedes that one."""
    asked: list[list[bytes]] = []
    latest: dict[bytes, tuple[int, bytes]] = {}
    with OPENED["versioned"]("rocksdb", tmp_path) as store:
        find, begin = getter("rocksdb", store), beginner("rocksdb", store)

        def get(keys: list[bytes]) -> Any:
            asked.append(keys)
            return find(keys)

        commit_versions(get, begin, latest, {b"a": (1, b"x")})
        commit_versions(get, begin, latest, {b"a": (2, b"y"), b"b": (2, b"z")})

    assert asked == [[DATA + b"a"], [DATA + b"b"]]
    assert latest == {b"a": (2, b"y"), b"b": (2, b"z")}


def test_a_run_compares_its_content(tmp_path: Path) -> None:
    """The group of the harness fails where a case leaves another content, the floor included."""
    (group,) = [each for each in groups(TINY) if each.name == "rocksdb-versioned-put-many"]
    floor = group.cases[-1]
    measured = measure(group, TINY, lambda: None)

    assert [len(case.wall) for case in measured] == [1, 1, 1]
    assert [target.base for target in group.targets] == [None, floor.name]
    assert answer(floor.prepare, tmp_path / "floor") == answer(
        group.cases[0].prepare, tmp_path / "single"
    )


def answer(prepare: Callable[[Path], AbstractContextManager[Timed]], path: Path) -> object:
    """Return what a round leaves."""
    with prepare(path) as timed:
        outcome: Any = timed()
        return outcome.answer()
