"""What an instance measures: its running tasks with their stores, and how far it is behind."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from statestores.kafka.plan import TaskKey
from statestores.kafka.tasks.kafka_task import KafkaTask
from statestores.spi.metrics.catalog import MetricDefinition, tagged
from statestores.spi.metrics.metric import MetricKind, Metrics

_LAG = MetricDefinition(
    "records-lag",
    "consumer-fetch-manager-metrics",
    "{record}",
    "Offsets of the partition after what was processed here",
    MetricKind.GAUGE,
)


def instance_metrics(running: Mapping[TaskKey, KafkaTask], lag: Mapping[Any, int]) -> Metrics:
    """Return the metrics of *running* tasks and their stores, and *lag* by topic and partition.

    Any thread may call, also while tasks come and go.
    """
    found = [
        _LAG.of(behind, MappingProxyType({"topic": topic, "partition": str(partition)}))
        for (topic, partition), behind in lag.items()
    ]
    for key, task in list(running.items()):
        tags = {"task-id": f"{key.part}_{key.partition}", "partition": str(key.partition)}
        found += task.meter.metrics()
        for logged in task.stores.logged.values():
            found += tagged(logged.store.metrics(), tags)
    return tuple(found)
