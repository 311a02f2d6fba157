"""What every step of a task measures at the level DEBUG: each of its records (PRC-76).

An operator's method is replaced on the object, before it is wired; so a task that is not measured
pays nothing. It processes records, and never columns, since those have no records to measure.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from time import perf_counter_ns
from types import MappingProxyType
from typing import Any

from statestores.metering.operation_meter import OperationMeter
from statestores.metering.value_meter import ValueMeter
from statestores.processing.operators.operator import Operator, Receive
from statestores.processing.runtime.task_meter import NODE_TAG, e2e_metrics
from statestores.processing.topology import Node, SubTopology
from statestores.spi.metrics.catalog import NODE_PROCESS_LATENCY, NODE_PROCESSED
from statestores.spi.metrics.metric import Metric, Metrics

NEVER_COLUMNS = 1 << 62
"""More records than any batch has: columns from there on are none at all."""

_RECORD_TIME, _CHANGE_TIME = 2, 3
"""Where the time is, in a `Record` and in a `Change`."""


class NodeMeters:
    """The meters of the steps of one task. One thread at a time records, any thread may read."""

    def __init__(self, tags: Mapping[str, str]) -> None:
        """Measure nothing yet; metrics will have *tags*."""
        self.wall_ms: Callable[[], int] = int
        """The wall clock of the task."""
        self._tags = dict(tags)
        self._calls: dict[str, OperationMeter] = {}
        self._ends: dict[str, ValueMeter] = {}

    def measured(self, part: SubTopology) -> SubTopology:
        """Return *part* with operators that are measured."""
        self._calls = {node.name: OperationMeter() for node in part.nodes}
        self._ends = {
            node.name: ValueMeter()
            for node in part.nodes
            if node.writes is not None or node.reads is not None
        }
        nodes = (replace(node, make=partial(self._made, node)) for node in part.nodes)
        return replace(part, nodes=tuple(nodes))

    def metrics(self) -> Metrics:
        """Return the metrics of this moment."""
        return tuple(self._metrics())

    def _metrics(self) -> Iterator[Metric]:
        now_ns = perf_counter_ns()
        for name, meter in self._calls.items():
            tags = MappingProxyType({**self._tags, NODE_TAG: name})
            yield from meter.counted(NODE_PROCESSED, tags)
            yield from meter.latencies(NODE_PROCESS_LATENCY, tags)
            if name in self._ends:
                yield from e2e_metrics(self._ends[name], tags, now_ns)

    def _made(self, node: Node) -> Operator:
        operator = node.make()
        own = vars(operator)
        if node.reads is not None:  # what reads a topic is not given records, and gives them on
            wire = operator.wire

            def wire_and_measure(children: Mapping[str, Receive]) -> None:
                wire(children)
                operator.forward = self._timed(node.name, operator.forward, _RECORD_TIME)

            own["wire"] = wire_and_measure
            return operator
        own["receive"] = self._timed(node.name, operator.receive, _RECORD_TIME)
        of_changes: Any = getattr(operator, "receive_change", None)
        if of_changes is not None:
            own["receive_change"] = self._timed(node.name, of_changes, _CHANGE_TIME)
        return operator

    def _timed(self, name: str, receive: Receive, time_at: int) -> Receive:
        meter, end = self._calls[name], self._ends.get(name)

        def timed(item: Any) -> None:
            began_ns = perf_counter_ns()
            try:
                receive(item)
            finally:
                now_ns = perf_counter_ns()
                meter.record(now_ns - began_ns, now_ns)
                if end is not None:
                    end.record(self.wall_ms() - item[time_at], now_ns)

        return timed
