"""Metrics of stores and tasks: recording every call, and exporting to OpenTelemetry.

Every store, logged store, task, task manager and standby has a method ``metrics()``; this package
puts them to use.
"""

from statestores.metrics.call_recording import RecordingLevel, set_recording_level
from statestores.metrics.opentelemetry_export import OpenTelemetryExport, register_opentelemetry
from statestores.spi.metrics.metric import Metric, MetricKind, Metrics, MetricSource

__all__ = [
    "Metric",
    "MetricKind",
    "MetricSource",
    "Metrics",
    "OpenTelemetryExport",
    "RecordingLevel",
    "register_opentelemetry",
    "set_recording_level",
]
