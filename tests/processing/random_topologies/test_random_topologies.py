"""Topologies drawn at random give the same in batches as record by record.

What is processed in batches takes other ways through the code, by columns and by runs. Steps of
every kind, policies, functions that fail, bytes that are none of their serde, restarts in the
middle, caches and backends are drawn from a number; what is found record by record is wanted.
"""

import random
import sys
from pathlib import Path

import pytest

KIT = str(Path(__file__).parent / "kit")
if KIT not in sys.path:
    sys.path.insert(0, KIT)

from drawn_runs import (  # noqa: E402  # after the path to it
    COLUMNS,
    LOOP,
    MIXED,
    RUNS,
    differences,
    explained,
    run_in_batches,
    run_one_by_one,
)

_WAYS = ((RUNS, False), (COLUMNS, False), (MIXED, False), (LOOP, False), (COLUMNS, True))
"""Each way, and whether a cache holds updates back."""

_FIRST = 122_000
_IN_EACH_RUN = 25
_IN_A_SOAK = 3_000


@pytest.mark.spec("PRC-9", "PRC-18", "PRC-19", "PRC-55", "PRC-95", "PRC-98", "PRC-102")
def test_batches_give_what_records_give(subtests: pytest.Subtests) -> None:
    """Outputs, dead letters, drops and stores, in each way."""
    for seed in range(_FIRST, _FIRST + _IN_EACH_RUN):
        with subtests.test(seed=seed):
            _check(seed)


@pytest.mark.soak
def test_many_batches_give_what_records_give(subtests: pytest.Subtests) -> None:
    """The same of thousands."""
    for seed in range(_FIRST + _IN_EACH_RUN, _FIRST + _IN_A_SOAK):
        with subtests.test(seed=seed):
            _check(seed)


def _check(seed: int) -> None:
    """Compare the ways of topology *seed*."""
    drawing, wanted = run_one_by_one(seed)
    drawn = random.Random(seed * 11 + 5)
    with explained(drawing):
        for way, is_cached in _WAYS:
            backend = drawn.choice(["memory", "memory", "memory", "sqlite", "rocksdb"])
            cache_bytes = drawn.choice([400, 1 << 20]) if is_cached else 0
            size = drawn.choice([2, 3, 100])
            found = run_in_batches(seed, way, size, backend, cache_bytes)
            where = f"{way.name}, {size} records, {backend}, cache of {cache_bytes} bytes"
            wrong = list(
                differences(
                    wanted, found, way, is_cached=is_cached, goes_around=drawing.goes_around
                )
            )
            assert not wrong, f"topology {seed} by {where}: {wrong}"
