"""Metrics for OpenTelemetry: read when a collector asks, and through the API package only (MET-9).

Each metric is one observable instrument, ``statestores.`` and its name with underscores: a counter
for a total, a gauge for a current value. Rates are not exported, since whoever collects totals has
better ones.
"""

import threading
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from statestores.errors import MissingDriverError
from statestores.spi.closing import Closing
from statestores.spi.metrics.catalog import DEFINITIONS
from statestores.spi.metrics.metric import Metric, MetricKind, Metrics, MetricSource

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

METER_NAME = "statestores"
"""The name of the meter: the instrumentation scope of everything exported."""


class OpenTelemetryExport(Closing):
    """The sources whose metrics a meter exports. Made by `register_opentelemetry`.

    A source is held weakly: once nobody uses it, it is no longer exported. Neither is a closed
    source, nor anything once the export is closed, since OpenTelemetry keeps instruments for good.
    """

    def __init__(self, meter: Any, observation: Callable[..., Any]) -> None:
        """Make the instruments of every metric that always exists."""
        self._meter = meter
        self._observation = observation
        self._sources: dict[int, weakref.ref[Any]] = {}
        self._lock = threading.Lock()
        self._instruments: set[str] = set()
        self._reading: dict[str, list[Metric]] = {}
        self._read: set[str] = set()
        self._is_open = True
        for definition in DEFINITIONS.values():
            self._make_instrument(
                definition.name, definition.unit, definition.description, definition.kind
            )

    def add(self, source: MetricSource) -> None:
        """Export the metrics of *source* as well, for as long as it is open and in use.

        A metric that is not in the catalogue is exported if the source already has it.
        """
        for metric in source.metrics():
            self._make_instrument(metric.name, metric.unit, metric.description, metric.kind)
        with self._lock:
            self._sources[id(source)] = weakref.ref(source)

    def _make_instrument(self, name: str, unit: str, description: str, kind: MetricKind) -> None:
        if name in self._instruments or name.endswith("-rate"):
            return
        self._instruments.add(name)
        make = (
            self._meter.create_observable_counter
            if kind is MetricKind.COUNTER
            else self._meter.create_observable_gauge
        )

        def observe(options: "CallbackOptions") -> "Iterable[Observation]":
            return [
                self._observation(metric.value, dict(metric.tags)) for metric in self._read_of(name)
            ]

        make(
            f"{METER_NAME}.{name.replace('-', '_')}",
            callbacks=[observe],
            unit=unit,
            description=description,
        )

    def _read_of(self, name: str) -> list[Metric]:
        """Return the metrics *name*, of the same moment as the others of a collection.

        A collection asks each instrument once. So the sources are read again as soon as one is
        asked for the second time.
        """
        with self._lock:
            if name in self._read or not self._read:
                self._read.clear()
                self._reading = self._read_all()
            self._read.add(name)
            return self._reading.get(name, [])

    def _read_all(self) -> dict[str, list[Metric]]:
        reading: dict[str, list[Metric]] = {}
        for key, reference in list(self._sources.items()):
            source = reference()
            if source is None or not getattr(source, "is_open", True):
                del self._sources[key]
                continue
            for metric in source.metrics() if self._is_open else ():
                reading.setdefault(metric.name, []).append(metric)
        return reading

    def metrics(self) -> Metrics:
        """Return the metrics of every source, as an exporter sees them."""
        with self._lock:
            return tuple(metric for metrics in self._read_all().values() for metric in metrics)

    def close(self) -> None:
        """Stop exporting. Idempotent."""
        self._is_open = False


def register_opentelemetry(
    *sources: MetricSource, meter_provider: "MeterProvider | None" = None
) -> OpenTelemetryExport:
    """Export the metrics of *sources* through the OpenTelemetry API.

    Args:
        sources: Stores, logged stores, tasks, task managers or standbys. A store need not be given
            in addition to the task that has it. More can be added later.
        meter_provider: Where to export; by default what the application has set globally.

    Raises:
        MissingDriverError: The package ``opentelemetry-api`` is not installed.
    """
    try:
        from opentelemetry.metrics import (  # noqa: PLC0415  # an extra, and not for everybody
            Observation,
            get_meter_provider,
        )
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("opentelemetry"):
            raise
        raise MissingDriverError(
            "exporting metrics needs the package 'opentelemetry-api', which is not installed; "
            "try: pip install 'statestores[opentelemetry]'"
        ) from error
    provider = meter_provider or get_meter_provider()
    export = OpenTelemetryExport(provider.get_meter(METER_NAME), Observation)
    for source in sources:
        export.add(source)
    return export
