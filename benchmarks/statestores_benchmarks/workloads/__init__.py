"""The workloads by name, in the order of the report."""

from statestores_benchmarks.cases import Workload
from statestores_benchmarks.workloads import (
    as_of_join,
    batches,
    bulk,
    changelog,
    contenders,
    growth,
    importing,
    key_value,
    memory,
    metrics,
    recovery,
    restore,
    retention,
    snapshot,
    timestamped,
    windows,
)
from statestores_benchmarks.workloads.topologies import joins, word_count
from statestores_benchmarks.workloads.versions import layouts, versioned, versions_per_key

WORKLOADS: dict[str, Workload] = {
    "key-value": key_value.groups,
    "contenders": contenders.groups,
    "versioned": versioned.groups,
    "as-of-join": as_of_join.groups,
    "versions-per-key": versions_per_key.groups,
    "timestamped": timestamped.groups,
    "windows": windows.groups,
    "retention": retention.groups,
    "batches": batches.groups,
    "bulk": bulk.groups,
    "recovery": recovery.groups,
    "snapshot": snapshot.groups,
    "changelog": changelog.groups,
    "growth": growth.groups,
    "memory": memory.groups,
    "importing": importing.groups,
    "processing": word_count.groups,
    "processing-joins": joins.groups,
    "restore": restore.groups,
    "layouts": layouts.groups,
    "metrics": metrics.groups,
}

DETAILS = frozenset({"restore", "layouts", "metrics"})
"""Workloads that decisions rest on but no target: a quick run has them only on request."""
