"""Single operations of a versioned store with ten versions a key."""

from collections.abc import Iterator
from itertools import count, cycle
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from statestores.semantics.versioned.store import EngineVersionedStore
from statestores_benchmarks.data import VALUE, distinct_keys, drawn, times
from statestores_benchmarks.drivers import open_versions

KEYS = distinct_keys(1_000)
VERSIONS = 10
STEP_MS = 1_000
WANTED = drawn(KEYS, 10_000)
TIMES = times(len(WANTED), VERSIONS * STEP_MS - 1)


@pytest.fixture(params=["memory", "rocksdb", "leveldb", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EngineVersionedStore]:
    """A store with ten committed versions of 1,000 keys."""
    with open_versions(request.param, tmp_path / "store") as opened:
        for version in range(VERSIONS):
            opened.put_many(KEYS, [VALUE] * len(KEYS), [version * STEP_MS] * len(KEYS))
            opened.commit({})
        yield opened


@pytest.mark.benchmark(group="put of a version, not committed")
def test_put(benchmark: BenchmarkFixture, store: EngineVersionedStore) -> None:
    keys, now_ms = cycle(WANTED), count(VERSIONS * STEP_MS)
    benchmark(lambda: store.put(next(keys), VALUE, next(now_ms)))


@pytest.mark.benchmark(group="get of the latest version")
def test_get_latest(benchmark: BenchmarkFixture, store: EngineVersionedStore) -> None:
    keys = cycle(WANTED)
    benchmark(lambda: store.get(next(keys)))


@pytest.mark.benchmark(group="get as of any time")
def test_get_as_of(benchmark: BenchmarkFixture, store: EngineVersionedStore) -> None:
    asked = cycle(list(zip(WANTED, TIMES, strict=True)))
    benchmark(lambda: store.get(*next(asked)))


@pytest.mark.benchmark(group="history of one key")
def test_history(benchmark: BenchmarkFixture, store: EngineVersionedStore) -> None:
    keys = cycle(WANTED)
    benchmark(lambda: list(store.history(next(keys))))
