"""Queries of running state: the partitions of a store that are here, read as one (KIP-67).

    stores = QueryableStores(manager)
    counts = stores.store("counts", key_value_store())
    counts.get("word")

A composite store holds nothing: each operation looks anew for the partitions that are here.
"""

from statestores.query.local_partitions import LocalPartitions, StoreSource
from statestores.query.position_bound import AtLeast
from statestores.query.queryable_stores import QueryableStores
from statestores.query.questions import Question, RemoteStores
from statestores.query.routed_stores import RoutedStores
from statestores.query.running_stores import Runner, RunningStore
from statestores.query.store_types import (
    QueryableStoreType,
    key_value_store,
    session_store,
    timestamped_key_value_store,
    versioned_store,
    window_store,
)

__all__ = [
    "AtLeast",
    "LocalPartitions",
    "QueryableStoreType",
    "QueryableStores",
    "Question",
    "RemoteStores",
    "RoutedStores",
    "Runner",
    "RunningStore",
    "StoreSource",
    "key_value_store",
    "session_store",
    "timestamped_key_value_store",
    "versioned_store",
    "window_store",
]
