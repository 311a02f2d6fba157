"""Topologies on the stores (KIP-28): a description, the runtime of a task, and a test driver.

import statestores as ss
from statestores.processing import Topic, Topology

shop = Topology("shop")
lines = shop.stream(Topic("lines", value=ss.utf8))
words = lines.flat_map(lambda record: record.value.lower().split())
counts = words.group_by("value", key=ss.utf8).count(
    ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
)
counts.to(Topic("word-counts", key=ss.utf8, value=ss.int64))

with shop.test() as driver:
    driver.topic("lines").pipe("to be or not to be", time_ms=1)
    assert driver.store("counts").get("to") == 2
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from statestores.processing.any_processor import Cancellable
from statestores.processing.batch_processor import BatchContext, BatchProcessor
from statestores.processing.dsl.global_table import GlobalTable
from statestores.processing.dsl.grouped import (
    Cogrouped,
    GroupedStream,
    GroupedTable,
    WindowedCogrouped,
)
from statestores.processing.dsl.joining import within
from statestores.processing.dsl.stream import Stream
from statestores.processing.dsl.table import Table
from statestores.processing.dsl.topology import Topology
from statestores.processing.dsl.windowed import WindowedStream
from statestores.processing.error_policy import DeadLetter, ErrorPolicy
from statestores.processing.processor import Context, Processor
from statestores.processing.record import Headers, RawRecord, Record
from statestores.processing.serdes import windowed
from statestores.processing.topic import Topic
from statestores.processing.topology import Graph, SubTopology, check_upgrade, describe
from statestores.processing.windows import (
    Emission,
    closed,
    hopping,
    session,
    sliding,
    tumbling,
    updates,
)
from statestores.serdes.windowed_serde import Windowed

if TYPE_CHECKING:
    from statestores.processing.local import LocalRunner, LocalTopics, run

_OF_THE_LOCAL_RUNNER = frozenset({"LocalRunner", "LocalTopics", "run"})
"""What needs Arrow, which is an extra: a topology is described and tested without."""


def __getattr__(name: str) -> Any:
    """Load a name that is asked for (PEP 562), once."""
    if name not in _OF_THE_LOCAL_RUNNER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    loaded = globals()[name] = getattr(import_module("statestores.processing.local"), name)
    return loaded


def __dir__() -> list[str]:
    """List the names that are not loaded yet as well."""
    return sorted({*globals(), *__all__})


__all__ = [
    "BatchContext",
    "BatchProcessor",
    "Cancellable",
    "Cogrouped",
    "Context",
    "DeadLetter",
    "Emission",
    "ErrorPolicy",
    "GlobalTable",
    "Graph",
    "GroupedStream",
    "GroupedTable",
    "Headers",
    "LocalRunner",
    "LocalTopics",
    "Processor",
    "RawRecord",
    "Record",
    "Stream",
    "SubTopology",
    "Table",
    "Topic",
    "Topology",
    "Windowed",
    "WindowedCogrouped",
    "WindowedStream",
    "check_upgrade",
    "closed",
    "describe",
    "hopping",
    "run",
    "session",
    "sliding",
    "tumbling",
    "updates",
    "windowed",
    "within",
]
