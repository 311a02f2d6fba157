"""The existing metrics: names, groups, units and meanings.

Kafka Streams' names where it has the metric. ``-total`` counts since opening; ``-rate`` is per
second over the last half minute or so, and ``-avg`` and ``-max`` cover the same time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from statestores.spi.metrics.metric import Metric, MetricKind, Metrics

STATE_GROUP = "stream-state-metrics"
"""Kafka's group of what a store measures."""

TASK_GROUP = "stream-task-metrics"
"""Kafka's group of what a task measures."""


NODE_GROUP = "stream-processor-node-metrics"
"""Kafka's group of what a step of a topology measures."""


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """A metric without a value."""

    name: str
    """Its name."""

    group: str
    """Its group."""

    unit: str
    """Its unit."""

    description: str
    """What it says."""

    kind: MetricKind
    """How to read it."""

    def of(self, value: float, tags: Mapping[str, str]) -> Metric:
        """Return the metric with a value."""
        return Metric(
            name=self.name,
            group=self.group,
            tags=tags,
            value=value,
            unit=self.unit,
            description=self.description,
            kind=self.kind,
        )


def count_of(
    name: str, what: str, *, group: str = STATE_GROUP, unit: str = "{record}"
) -> tuple[MetricDefinition, MetricDefinition]:
    """Return the total of *what*, and its rate."""
    return (
        MetricDefinition(f"{name}-total", group, unit, f"{what}, in total", MetricKind.COUNTER),
        MetricDefinition(f"{name}-rate", group, "1/s", f"{what}, per second", MetricKind.GAUGE),
    )


def latency_of(
    name: str, what: str, *, group: str = STATE_GROUP
) -> tuple[MetricDefinition, MetricDefinition]:
    """Return the mean latency of *what*, and the highest."""
    return (
        gauge(f"{name}-latency-avg", f"the mean time of {what}", "ns", group=group),
        gauge(f"{name}-latency-max", f"the longest time of {what}", "ns", group=group),
    )


def gauge(
    name: str, description: str, unit: str = "{record}", *, group: str = STATE_GROUP
) -> MetricDefinition:
    """Return the definition of a current value."""
    return MetricDefinition(name, group, unit, description, MetricKind.GAUGE)


PUTS = count_of("put", "records that the owner has put or deleted, one by one or many at once")
COMMITS = count_of("commit", "commits that succeeded", unit="{commit}")
COMMIT_LATENCY = latency_of("commit", "a commit, with the append to the changelog if it has one")
COMMITTED_ROWS = count_of("committed-rows", "rows that commits gave to the engine", unit="{row}")
COMMITTED_BYTES = count_of("committed-bytes", "bytes put that were committed", unit="By")
ENGINE_GETS = count_of("engine-get", "point reads of the owner that asked the engine")
ENGINE_GET_LATENCY = latency_of("engine-get", "a point read of the engine, of a sample of them")
ITERATORS = count_of("iterators-opened", "iterators over keys or times opened", unit="{iterator}")
DROPPED = count_of("dropped-records", "records refused because they came after their time")
BELOW_HORIZON = count_of(
    "reads-below-horizon", "reads that asked for a time of which the retention keeps nothing"
)
UNCOMMITTED_BYTES = gauge("uncommitted-bytes", "bytes put since the last commit", "By")
OPEN_ITERATORS = gauge("num-open-iterators", "iterators that are open", "{iterator}")
OLDEST_ITERATOR = gauge(
    "oldest-iterator-open-since-ms",
    "when the oldest open iterator was opened, in milliseconds since the epoch",
    "ms",
)
APPENDS = count_of("changelog-append", "appends to the changelog", unit="{append}")
APPEND_LATENCY = latency_of("changelog-append", "an append to the changelog")
APPENDED_RECORDS = count_of("changelog-records", "changes appended to the changelog")
RESTORED = count_of("restore", "rows and changes restored", group=TASK_GROUP)
RESTORE_REMAINING = gauge(
    "restore-remaining-records-total",
    "rows and changes that are still to be restored",
    group=TASK_GROUP,
)
UPDATED = count_of("update", "rows and changes taken by a standby", group=TASK_GROUP)
UPDATE_REMAINING = gauge(
    "update-remaining-records-total",
    "changes of the changelog that a standby has not taken",
    group=TASK_GROUP,
)
PROCESSED = count_of("process", "records processed", group=TASK_GROUP)
PROCESS_LATENCY = latency_of("process", "processing a record, of a turn's", group=TASK_GROUP)
TASK_COMMITS = count_of(
    "commit", "commits of the task that succeeded", group=TASK_GROUP, unit="{commit}"
)
TASK_COMMIT_LATENCY = latency_of(
    "commit", "a commit of the task, of stores and outputs", group=TASK_GROUP
)
TASK_DROPPED = count_of(
    "dropped-records", "records that went no further at a step, by reason", group=TASK_GROUP
)
PUNCTUATED = count_of("punctuate", "calls of timers", group=TASK_GROUP, unit="{call}")
PUNCTUATE_LATENCY = latency_of("punctuate", "a call of a timer", group=TASK_GROUP)
NODE_PROCESSED = count_of("process", "records that a step was given", group=NODE_GROUP)
NODE_PROCESS_LATENCY = latency_of(
    "process", "a record at a step, with the steps after it", group=NODE_GROUP
)
E2E_LATENCY = (
    gauge(
        "record-e2e-latency-avg",
        "the mean time from a record's own time to a step",
        "ms",
        group=NODE_GROUP,
    ),
    gauge(
        "record-e2e-latency-min",
        "the shortest time from a record's own time to a step",
        "ms",
        group=NODE_GROUP,
    ),
    gauge(
        "record-e2e-latency-max",
        "the longest time from a record's own time to a step",
        "ms",
        group=NODE_GROUP,
    ),
)

DEFINITIONS: Mapping[str, MetricDefinition] = MappingProxyType(
    {
        definition.name: definition
        for definition in (
            *(PUTS + COMMITS + COMMIT_LATENCY + COMMITTED_ROWS + COMMITTED_BYTES),
            *(ENGINE_GETS + ENGINE_GET_LATENCY + ITERATORS + DROPPED + BELOW_HORIZON),
            *(UNCOMMITTED_BYTES, OPEN_ITERATORS, OLDEST_ITERATOR),
            *(APPENDS + APPEND_LATENCY + APPENDED_RECORDS),
            *(*RESTORED, RESTORE_REMAINING, *UPDATED, UPDATE_REMAINING),
            *(PROCESSED + PROCESS_LATENCY + PUNCTUATED + PUNCTUATE_LATENCY + E2E_LATENCY),
        )
    }
)
"""Every metric that is always recorded, by name. Recorded calls have more: see
``statestores.metrics``."""


def tagged(metrics: Metrics, tags: Mapping[str, str]) -> Metrics:
    """Return *metrics* with *tags* in addition to their own."""
    return tuple(
        Metric(
            name=metric.name,
            group=metric.group,
            tags=MappingProxyType({**metric.tags, **tags}),
            value=metric.value,
            unit=metric.unit,
            description=metric.description,
            kind=metric.kind,
        )
        for metric in metrics
    )
