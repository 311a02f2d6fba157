"""Single operations of a key-value store, which show a change of a few nanoseconds."""

from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import statestores as ss
from statestores.semantics.key_value.store import EngineKeyValueStore
from statestores_benchmarks.data import VALUE, distinct_keys, drawn
from statestores_benchmarks.drivers import open_key_values

ROWS = 10_000
KEYS = distinct_keys(ROWS)
WANTED = drawn(KEYS, ROWS)
RANGE_ROWS = 10
OFFSET = ss.TopicPartition("bench-changelog", 0)


@pytest.fixture(params=["memory", "rocksdb", "leveldb", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EngineKeyValueStore]:
    """A store with 10,000 committed rows, opened again."""
    with open_key_values(request.param, tmp_path / "store") as opened:
        opened.put_many(KEYS, [VALUE] * ROWS)
        opened.commit({})
        if opened.persistent:
            opened.close()
        else:
            yield opened
            return
    with open_key_values(request.param, tmp_path / "store") as opened:
        yield opened


@pytest.mark.benchmark(group="put, not committed")
def test_put(benchmark: BenchmarkFixture, store: EngineKeyValueStore) -> None:
    keys = cycle(WANTED)
    benchmark(lambda: store.put(next(keys), VALUE))


@pytest.mark.benchmark(group="get of a committed row")
def test_get(benchmark: BenchmarkFixture, store: EngineKeyValueStore) -> None:
    keys = cycle(WANTED)
    benchmark(lambda: store.get(next(keys)))


@pytest.mark.benchmark(group="get of a row that was just put")
def test_get_own_write(benchmark: BenchmarkFixture, store: EngineKeyValueStore) -> None:
    store.put_many(KEYS, [VALUE] * ROWS)
    keys = cycle(WANTED)
    benchmark(lambda: store.get(next(keys)))


@pytest.mark.benchmark(group="get of a key that is not there")
def test_get_nothing(benchmark: BenchmarkFixture, store: EngineKeyValueStore) -> None:
    keys = cycle([key + b"-" for key in WANTED])
    benchmark(lambda: store.get(next(keys)))


@pytest.mark.benchmark(group="range of ten rows")
def test_range(benchmark: BenchmarkFixture, store: EngineKeyValueStore) -> None:
    keys = cycle(WANTED)
    benchmark(lambda: list(islice(store.range(next(keys)), RANGE_ROWS)))


@pytest.mark.benchmark(group="put and commit with an offset")
def test_commit(benchmark: BenchmarkFixture, store: EngineKeyValueStore) -> None:
    numbered = enumerate(cycle(WANTED))

    def put_and_commit() -> None:
        offset, key = next(numbered)
        store.put(key, VALUE)
        store.commit({OFFSET: offset})

    benchmark(put_and_commit)
