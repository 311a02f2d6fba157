"""The workloads by name, in the order of the report."""

from statestores_benchmarks.cases import Workload
from statestores_benchmarks.workloads import (
    changelog,
    contenders,
    key_value,
    metrics,
    restore,
    snapshot,
    versioned,
    versioned_layouts,
)

WORKLOADS: dict[str, Workload] = {
    "key-value": key_value.groups,
    "contenders": contenders.groups,
    "versioned": versioned.groups,
    "layouts": versioned_layouts.groups,
    "metrics": metrics.groups,
    "changelog": changelog.groups,
    "snapshot": snapshot.groups,
    "restore": restore.groups,
}
