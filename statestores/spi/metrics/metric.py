"""A metric: one number about a store, task or standby, and what it means (MET).

The names and groups are Kafka Streams' where it has the metric; `catalog` lists them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias


class MetricKind(Enum):
    """How to read a value."""

    COUNTER = "counter"
    """It only grows while what it counts is open; a collector makes rates of it."""

    GAUGE = "gauge"
    """It is true at the moment of the call, or of the recent past."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One value."""

    name: str
    """What is measured, such as ``commit-latency-avg``."""

    group: str
    """Kafka's group of metrics, such as ``stream-state-metrics``."""

    tags: Mapping[str, str]
    """What it is measured of: the store and, where they are known, its partition and task."""

    value: int | float
    """The value. A metric that has none at the moment is left out."""

    unit: str
    """The unit, as UCUM has it: ``ns``, ``ms``, ``By``, ``1/s``, or a noun in braces."""

    description: str
    """What the value says, in a sentence."""

    kind: MetricKind
    """How to read it."""


Metrics: TypeAlias = tuple[Metric, ...]
"""The values of one moment. A tuple: later calls give new ones, these do not change."""


class MetricSource(Protocol):
    """Whatever has metrics: a store, a logged store, a task, a task manager, a standby."""

    def metrics(self) -> Metrics:
        """Return the metrics of this moment; from any thread, and also once closed."""
