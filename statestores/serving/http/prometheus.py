"""Metrics in Prometheus' text format, version 0.0.4."""

import re
from collections.abc import Iterable

from statestores.spi.metrics.metric import Metric, MetricKind

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_]")


def exposition(metrics: Iterable[Metric]) -> str:
    """Return *metrics* as text: each name once, with what it says, its kind, and its values.

    Rates are left out: whoever collects totals has better ones. Of two values with the same tags,
    which are of stores that were opened one after the other, counters are added up and the last
    gauge holds: a series is there once.
    """
    families: dict[str, tuple[Metric, dict[str, int | float]]] = {}
    for metric in metrics:
        if metric.name.endswith("-rate"):
            continue
        name = "statestores_" + _NOT_IN_NAMES.sub("_", metric.name)
        _, values = families.setdefault(name, (metric, {}))
        labels = ",".join(
            f'{_NOT_IN_NAMES.sub("_", tag)}="{_escaped(value)}"'
            for tag, value in sorted(metric.tags.items())
        )
        is_counter = metric.kind is MetricKind.COUNTER
        values[labels] = metric.value + (values.get(labels, 0) if is_counter else 0)
    lines = []
    for name, (metric, values) in sorted(families.items()):
        lines += [
            f"# HELP {name} {metric.description.replace(chr(92), chr(92) * 2)} ({metric.unit})",
            f"# TYPE {name} {metric.kind.value}",
            *(f"{name}{{{labels}}} {value}" for labels, value in sorted(values.items())),
        ]
    return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
