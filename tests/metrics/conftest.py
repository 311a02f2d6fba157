"""Stores to be measured, and their metrics by name."""

from collections.abc import Callable, Iterator

import pytest

from statestores.metrics import Metrics, MetricSource
from statestores.semantics import open_on_engine
from statestores.semantics.key_value.store import EngineKeyValueStore
from statestores.spi import KeyValue
from statestores_memory import MemoryEngine


def named(metrics: Metrics) -> dict[str, int | float]:
    """Return the values by name."""
    return {metric.name: metric.value for metric in metrics}


@pytest.fixture
def values() -> Callable[[MetricSource], dict[str, int | float]]:
    """Return the values of a source's metrics by name."""
    return lambda source: named(source.metrics())


@pytest.fixture
def store() -> Iterator[EngineKeyValueStore]:
    """A key-value store of bytes on the reference engine."""
    with open_on_engine(MemoryEngine(), KeyValue("counts")) as opened:
        yield opened
