"""The local runner: durable topics and stores in directories, exactly once."""

import statestores.serdes.arrow_required  # noqa: F401  # before what needs Arrow

# isort: split
from statestores.processing.local.progress import RunProgress
from statestores.processing.local.resetting import Reset, ResetItem, plan_reset
from statestores.processing.local.retention import Retention
from statestores.processing.local.runner import LocalRunner
from statestores.processing.local.running import run
from statestores.processing.local.sharing.instances import (
    ActiveTask,
    Instance,
    StandbyTask,
    read_instances,
)
from statestores.processing.local.sharing.state_membership import StateMembership
from statestores.processing.local.sinks import AtLeastOnce, LocalSink, ParquetSink
from statestores.processing.local.sources import Items, JsonLines, LocalSource, ParquetFiles
from statestores.processing.local.topics import LocalTopic, LocalTopics, StoredRecord

__all__ = [
    "ActiveTask",
    "AtLeastOnce",
    "Instance",
    "Items",
    "JsonLines",
    "LocalRunner",
    "LocalSink",
    "LocalSource",
    "LocalTopic",
    "LocalTopics",
    "ParquetFiles",
    "ParquetSink",
    "Reset",
    "ResetItem",
    "Retention",
    "RunProgress",
    "StandbyTask",
    "StateMembership",
    "StoredRecord",
    "plan_reset",
    "read_instances",
    "run",
]
