"""The operations that turn keys and values into bytes and back."""

from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import statestores as ss
from statestores.partitioning import partitioner_by_name
from statestores.semantics.versioned.rows import history_key
from statestores.spi.serde import Serde
from statestores_benchmarks.data import distinct_keys

KEY = distinct_keys(1)[0]
PARTITIONS = 16
VALUES: dict[str, tuple[Serde[Any], object]] = {
    "utf8": (ss.utf8, "a key of thirty characters or so"),
    "int64": (ss.int64, 1_700_000_000_000),
    "float64": (ss.float64, 1.08),
    "json": (ss.json, {"rate": 1.08, "currency": "EUR", "open": True}),
    "msgpack": (ss.msgpack, {"rate": 1.08, "currency": "EUR", "open": True}),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.benchmark(group="encode")
def test_encode(benchmark: BenchmarkFixture, name: str) -> None:
    serde, value = VALUES[name]
    benchmark(serde.encode, value)


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.benchmark(group="decode")
def test_decode(benchmark: BenchmarkFixture, name: str) -> None:
    serde, value = VALUES[name]
    benchmark(serde.decode, serde.encode(value))


@pytest.mark.benchmark(group="keys")
def test_history_key(benchmark: BenchmarkFixture) -> None:
    benchmark(history_key, KEY, 1_700_000_000_000)


@pytest.mark.benchmark(group="keys")
def test_partition(benchmark: BenchmarkFixture) -> None:
    benchmark(partitioner_by_name("murmur2").partition, KEY, PARTITIONS)
