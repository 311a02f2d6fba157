"""Typed keys and values: serdes, one record at a time and as Arrow columns, and typed stores.

Nothing here imports a third-party package until it is needed: pyarrow and numpy for columns,
msgpack for its serde, orjson for speed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from statestores.serdes.float64_serde import Float64Serde, float64
from statestores.serdes.int64_serde import Int64Serde, SortedInt64Serde, int64, int64_sorted
from statestores.serdes.json_serde import JsonSerde, json
from statestores.serdes.msgpack_serde import MsgpackSerde, msgpack
from statestores.serdes.raw_serde import RawSerde, raw
from statestores.serdes.utf8_serde import Utf8Serde, utf8

if TYPE_CHECKING:
    from statestores.serdes.descriptions import specification_from_description
    from statestores.serdes.list_serde import ListSerde, list_of
    from statestores.serdes.rows import RowSerde, SortedRowSerde, row, row_sorted
    from statestores.serdes.serde_registry import register_serde, serde_by_name
    from statestores.serdes.typed_stores.key_value import (
        TypedKeyValueStore,
        TypedReadOnlyKeyValueStore,
    )
    from statestores.serdes.typed_stores.session import (
        TypedReadOnlySessionStore,
        TypedSessionStore,
    )
    from statestores.serdes.typed_stores.stores import typed
    from statestores.serdes.typed_stores.versioned import (
        TypedReadOnlyVersionedStore,
        TypedVersionedStore,
    )
    from statestores.serdes.typed_stores.window import TypedReadOnlyWindowStore, TypedWindowStore
    from statestores.serdes.uuid_serde import UuidSerde, uuid

_LOADED_WHEN_ASKED_FOR = {
    "ListSerde": "list_serde",
    "RowSerde": "rows",
    "SortedRowSerde": "rows",
    "TypedKeyValueStore": "typed_stores.key_value",
    "TypedReadOnlyKeyValueStore": "typed_stores.key_value",
    "TypedReadOnlySessionStore": "typed_stores.session",
    "TypedReadOnlyVersionedStore": "typed_stores.versioned",
    "TypedReadOnlyWindowStore": "typed_stores.window",
    "TypedSessionStore": "typed_stores.session",
    "TypedVersionedStore": "typed_stores.versioned",
    "TypedWindowStore": "typed_stores.window",
    "UuidSerde": "uuid_serde",
    "list_of": "list_serde",
    "register_serde": "serde_registry",
    "row": "rows",
    "row_sorted": "rows",
    "serde_by_name": "serde_registry",
    "specification_from_description": "descriptions",
    "typed": "typed_stores.stores",
    "uuid": "uuid_serde",
}
"""Names by the modules that `import statestores` does without: a third of what it took."""


def __getattr__(name: str) -> Any:
    """Load a name when it is first asked for (PEP 562)."""
    module = _LOADED_WHEN_ASKED_FOR.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    loaded = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    return loaded


def __dir__() -> list[str]:
    """List all names, including those not loaded yet."""
    return sorted({*globals(), *__all__})


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
