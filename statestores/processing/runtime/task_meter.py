"""What a task measures, under Kafka's names: how much it processes, and how long it takes (PRC-75).

At the level INFO nothing is done for a record: a turn of up to some hundred is measured as one, and
the end-to-end latency of its last record stands for the others'.
"""

from collections.abc import Iterator, Mapping
from time import perf_counter_ns
from types import MappingProxyType

from statestores.metering.operation_meter import OperationMeter
from statestores.metering.recent_past import RecentPast
from statestores.metering.value_meter import ValueMeter
from statestores.processing.runtime.task_metrics import TaskCounts
from statestores.spi.metrics.catalog import (
    E2E_LATENCY,
    PROCESS_LATENCY,
    PROCESSED,
    PUNCTUATE_LATENCY,
    PUNCTUATED,
    TASK_COMMIT_LATENCY,
    TASK_COMMITS,
    TASK_DROPPED,
    MetricDefinition,
)
from statestores.spi.metrics.metric import Metric, Metrics

NODE_TAG = "processor-node-id"
"""Kafka's name of the tag that says which step of a topology it is."""


class TaskMeter:
    """The meters of one task. One thread at a time records, any thread may read."""

    def __init__(self, counts: TaskCounts, tags: Mapping[str, str]) -> None:
        """Measure nothing yet, beside what *counts* has; metrics will have *tags*."""
        self.commits = OperationMeter()
        """Commits, with all that is part of them."""
        self.punctuations = OperationMeter()
        """Calls of timers."""
        self.counts = counts
        """What the task counts."""
        self._tags = MappingProxyType(dict(tags))
        self._turns = ValueMeter()
        self._arrivals: dict[str, ValueMeter] = {}
        self._rates: dict[object, RecentPast] = {}

    def turn(self, began_ns: int, records: int) -> None:
        """Note that a turn began then, has just ended, and has processed so many *records*."""
        now_ns = perf_counter_ns()
        self._turns.record((now_ns - began_ns) / records, now_ns, records)

    def arrived(self, node: str, latency_ms: int) -> None:
        """Note how long after its time a record is at *node*."""
        meter = self._arrivals.get(node)
        if meter is None:
            self._arrivals = {**self._arrivals, node: (meter := ValueMeter())}
        meter.record(latency_ms, perf_counter_ns())

    def metrics(self) -> Metrics:
        """Return the metrics of this moment."""
        return tuple(self._metrics())

    def _metrics(self) -> Iterator[Metric]:
        tags, now_ns = self._tags, perf_counter_ns()
        yield from self._counted(PROCESSED, self.counts.processed, tags, now_ns)
        turns = self._turns.summary(now_ns)
        if turns is not None:
            mean, highest = PROCESS_LATENCY
            yield mean.of(turns.mean, tags)
            yield highest.of(turns.highest, tags)
        yield from self.commits.counted(TASK_COMMITS, tags)
        yield from self.commits.latencies(TASK_COMMIT_LATENCY, tags)
        yield from self.punctuations.counted(PUNCTUATED, tags)
        yield from self.punctuations.latencies(PUNCTUATE_LATENCY, tags)
        for (node, reason), dropped in self.counts.dropped.copy().items():
            of_drop = MappingProxyType({**tags, NODE_TAG: node, "reason": reason})
            yield from self._counted(TASK_DROPPED, dropped, of_drop, now_ns)
        for node, meter in self._arrivals.items():
            yield from e2e_metrics(meter, MappingProxyType({**tags, NODE_TAG: node}), now_ns)

    def _counted(
        self,
        definitions: tuple[MetricDefinition, MetricDefinition],
        total: int,
        tags: Mapping[str, str],
        now_ns: int,
    ) -> Metrics:
        key = (definitions[0].name, *sorted(tags.items()))
        past = self._rates.get(key)
        if past is None:
            past = self._rates.setdefault(key, RecentPast((0,), now_ns))
        change = past.change((total,), now_ns)
        past.keep((total,), now_ns)
        count, rate = definitions
        return count.of(total, tags), rate.of(change.added[0] / change.seconds, tags)


def e2e_metrics(meter: ValueMeter, tags: Mapping[str, str], now_ns: int) -> Metrics:
    """Return the end-to-end latencies that *meter* has; nothing without a recent one."""
    found = meter.summary(now_ns)
    if found is None:
        return ()
    mean, least, highest = E2E_LATENCY
    return mean.of(found.mean, tags), least.of(found.least, tags), highest.of(found.highest, tags)
