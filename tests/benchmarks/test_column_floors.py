"""The floors of putting rows of each kind leave what a store leaves, or they bound other work."""

from pathlib import Path
from typing import Any

import pytest

for driver in ("statestores_leveldb", "rocksdict"):
    pytest.importorskip(driver, reason=f"the driver {driver} is not installed")

# Behind the skip, since they import the drivers.
from statestores.registry import load_backend  # noqa: E402
from statestores.semantics.retained.name_groups import is_group, unpack_names  # noqa: E402
from statestores.semantics.rows.layout import DATA, END, HISTORY  # noqa: E402
from statestores_benchmarks.drivers import OPENED  # noqa: E402
from statestores_benchmarks.floors.batches import beginner, getter  # noqa: E402
from statestores_benchmarks.floors.columns import COMMITS  # noqa: E402
from statestores_conformance.many_cases import for_each  # noqa: E402

KEYS = [b"\x00key-%d\x00\x00" % number for number in range(60)]
"""Zero bytes are escaped where a key lies before a time, and only there."""

TIMES = {"key-value": 0, "timestamped": 1, "window": 1, "session": 2}
"""The kinds, and how many times a row of each has."""

Batch = list[list[Any]]


def batches(kind: str) -> list[Batch]:
    """Return what is new, what has other times, and what is there in part, with other values."""
    given: list[Batch] = []
    for number, (first, time_ms) in enumerate([(0, 10), (0, 1_000), (20, 1_000)]):
        keys = KEYS[first : first + 40]
        values = [b"%d of %b" % (number, key) for key in keys]
        starts = [time_ms] * len(keys)
        ends = [time_ms + KEYS.index(key) for key in keys]
        given.append([keys, starts, ends, values] if kind == "session" else [keys, values])
        if kind in {"timestamped", "window"}:
            given[-1].append(ends if kind == "timestamped" else starts)
    return given


def rows(backend: str, path: Path) -> dict[bytes, Any]:
    """Return the rows of both namespaces in *path*; names of a group are in their order."""
    engine = load_backend(backend).open(path)
    try:
        found: dict[bytes, Any] = dict(engine.scan(DATA, END))
    finally:
        engine.close()
    for key, row in found.items():
        if key.startswith(HISTORY) and is_group(key):
            found[key] = sorted(unpack_names(key, row))
    return found


@for_each("backend", ["rocksdb", "leveldb"])
@for_each("kind", TIMES)
def test_they_leave_the_rows_that_ours_leaves(backend: str, kind: str, tmp_path: Path) -> None:
    """Each row is there as a store has it, and what it is named by; what is named stays named."""
    floor, ours = (tmp_path / f"{each}-{backend}-{kind}" for each in ("floor", "ours"))
    with OPENED[kind](backend, floor) as store:
        commit = COMMITS[kind](beginner(backend, store))
        for batch in batches(kind):
            commit(batch)
        first = next(iter(store._engine.scan(DATA, END)))[0]

        assert getter(backend, store)([first, b"no such row"])[1:] == [None]
    with OPENED[kind](backend, ours) as store:
        for batch in batches(kind):
            for row in zip(*batch, strict=True):
                store.put(*row)
            store.commit({})
    expected = rows(backend, ours)

    assert len(expected) > len(KEYS) - 1
    assert rows(backend, floor) == expected
