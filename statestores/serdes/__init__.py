"""Typed keys and values: serdes, one record at a time and as Arrow columns, and typed stores.

Nothing here imports a third-party package until it is needed: pyarrow and numpy for columns,
msgpack for its serde, orjson for speed.
"""

from statestores.serdes.descriptions import specification_from_description
from statestores.serdes.float64_serde import Float64Serde, float64
from statestores.serdes.int64_serde import Int64Serde, SortedInt64Serde, int64, int64_sorted
from statestores.serdes.json_serde import JsonSerde, json
from statestores.serdes.list_serde import ListSerde, list_of
from statestores.serdes.msgpack_serde import MsgpackSerde, msgpack
from statestores.serdes.raw_serde import RawSerde, raw
from statestores.serdes.rows import RowSerde, SortedRowSerde, row, row_sorted
from statestores.serdes.serde_registry import register_serde, serde_by_name
from statestores.serdes.typed_stores.key_value import TypedKeyValueStore, TypedReadOnlyKeyValueStore
from statestores.serdes.typed_stores.session import TypedReadOnlySessionStore, TypedSessionStore
from statestores.serdes.typed_stores.stores import typed
from statestores.serdes.typed_stores.versioned import (
    TypedReadOnlyVersionedStore,
    TypedVersionedStore,
)
from statestores.serdes.typed_stores.window import TypedReadOnlyWindowStore, TypedWindowStore
from statestores.serdes.utf8_serde import Utf8Serde, utf8
from statestores.serdes.uuid_serde import UuidSerde, uuid

__all__ = [
    "Float64Serde",
    "Int64Serde",
    "JsonSerde",
    "ListSerde",
    "MsgpackSerde",
    "RawSerde",
    "RowSerde",
    "SortedInt64Serde",
    "SortedRowSerde",
    "TypedKeyValueStore",
    "TypedReadOnlyKeyValueStore",
    "TypedReadOnlySessionStore",
    "TypedReadOnlyVersionedStore",
    "TypedReadOnlyWindowStore",
    "TypedSessionStore",
    "TypedVersionedStore",
    "TypedWindowStore",
    "Utf8Serde",
    "UuidSerde",
    "float64",
    "int64",
    "int64_sorted",
    "json",
    "list_of",
    "msgpack",
    "raw",
    "register_serde",
    "row",
    "row_sorted",
    "serde_by_name",
    "specification_from_description",
    "typed",
    "utf8",
    "uuid",
]
