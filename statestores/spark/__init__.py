"""Spark: stores and their changes as DataFrames, and DataFrames into stores.

The data source is ``format("statestores")`` and needs no call; `register` makes
``format("statestore")``, the name of Spark's own source, work for state roots as well. This is the
only place that imports pyspark, and importing it does not: Spark's workers import it often.

`stateful` computes on a streaming DataFrame with stores; `run` runs a topology on streaming
DataFrames; `temporal_join` joins a DataFrame with a versioned store as of a time.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from statestores.spark.session.java_runtime import ensure_java
from statestores.spark.session.registration import register, unregister
from statestores.spark.source_name import SOURCE_NAME

if TYPE_CHECKING:
    from statestores.spark.resharding import reshard
    from statestores.spark.stateful_functions.plan import OpenStores
    from statestores.spark.stateful_functions.stream import StatefulStream, stateful
    from statestores.spark.temporal.frame import temporal_join
    from statestores.spark.topology.running import run
    from statestores.spark.topology.sources import Files, KafkaTopic, StateFeed, StreamSource
    from statestores.spark.upkeep import compact, vacuum, write_snapshots

_LOADED_LATE = {
    "Files": "statestores.spark.topology.sources",
    "KafkaTopic": "statestores.spark.topology.sources",
    "OpenStores": "statestores.spark.stateful_functions.plan",
    "StateFeed": "statestores.spark.topology.sources",
    "StatefulStream": "statestores.spark.stateful_functions.stream",
    "StreamSource": "statestores.spark.topology.sources",
    "compact": "statestores.spark.upkeep",
    "reshard": "statestores.spark.resharding",
    "run": "statestores.spark.topology.running",
    "stateful": "statestores.spark.stateful_functions.stream",
    "temporal_join": "statestores.spark.temporal.frame",
    "vacuum": "statestores.spark.upkeep",
    "write_snapshots": "statestores.spark.upkeep",
}


def __getattr__(name: str) -> Any:
    """Load what needs Arrow and Spark when it is first asked for (PEP 562)."""
    if name not in _LOADED_LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import_module("statestores.spark.spark_required")
    return getattr(import_module(_LOADED_LATE[name]), name)


__all__ = [
    "SOURCE_NAME",
    "Files",
    "KafkaTopic",
    "OpenStores",
    "StateFeed",
    "StatefulStream",
    "StreamSource",
    "compact",
    "ensure_java",
    "register",
    "reshard",
    "run",
    "stateful",
    "temporal_join",
    "unregister",
    "vacuum",
    "write_snapshots",
]
