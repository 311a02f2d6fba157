"""From the store that an operator is declared with to the one that it is kept in, and back.

Aggregates and tables keep a timestamp with each value, whether their declaration says so or not;
and who asks for the declared store gets the declared values.
"""

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from statestores.errors import InvalidTypeError
from statestores.serdes import json, raw, register_serde
from statestores.serdes.stamped_serde import StampedSerde
from statestores.spi import (
    KeyValue,
    Serde,
    Session,
    StoreSpecification,
    TimestampedKeyValue,
    Versioned,
    Window,
)

if TYPE_CHECKING:
    from collections.abc import Callable

K = TypeVar("K")
V = TypeVar("V")

AnyKeyValue: TypeAlias = KeyValue[K, V] | TimestampedKeyValue[K, V]
"""How the latest values of keys may be declared: with their timestamps to be asked for, or not."""

_UNTYPED_TIMESTAMPED = cast("Callable[..., TimestampedKeyValue[Any, Any]]", TimestampedKeyValue)
_UNTYPED_WINDOW = cast("Callable[..., Window[Any, Any]]", Window)
_UNTYPED_SESSION = cast("Callable[..., Session[Any, Any]]", Session)


def key_serde(store: StoreSpecification[Any, Any]) -> Serde[Any]:
    """Return the serde of a store's keys."""
    return raw if store.key is None else store.key


def value_serde(store: StoreSpecification[Any, Any]) -> Serde[Any]:
    """Return the serde of a store's values."""
    return raw if store.value is None else store.value


def timestamped(
    store: AnyKeyValue[Any, Any], value: Serde[Any] | None = None
) -> TimestampedKeyValue[Any, Any]:
    """Return the key-value store with a timestamp beside each value."""
    if not isinstance(store, (KeyValue, TimestampedKeyValue)):
        raise InvalidTypeError(
            "this needs a statestores.KeyValue, such as KeyValue('counts', value=int64), got "
            f"{store!r}"
        )
    more = (
        {"ttl_ms": store.ttl_ms, "ttl_clock": store.ttl_clock}
        if isinstance(store, TimestampedKeyValue)
        else {}
    )
    return _UNTYPED_TIMESTAMPED(
        store.name,
        key=store.key,
        value=store.value if value is None else value,
        partitioner=store.partitioner,
        **more,
    )


def stamped_window(store: Window[Any, Any], value: Serde[Any] | None = None) -> Window[Any, Any]:
    """Return the window store with a timestamp in front of each value."""
    if not isinstance(store, Window):
        raise InvalidTypeError(
            "these windows need a statestores.Window, such as Window('counts', retention_ms=..., "
            f"window_size_ms=...), got {store!r}"
        )
    serde = StampedSerde(value_serde(store) if value is None else value)
    register_serde(serde)  # whoever opens the store by what is written in it finds it here
    return _UNTYPED_WINDOW(
        store.name,
        retention_ms=store.retention_ms,
        window_size_ms=store.window_size_ms,
        key=store.key,
        value=serde,
        partitioner=store.partitioner,
    )


def session_store(store: Session[Any, Any], value: Serde[Any] | None = None) -> Session[Any, Any]:
    """Return the session store, of other values if they are said."""
    if not isinstance(store, Session):
        raise InvalidTypeError(
            "sessions need a statestores.Session, such as Session('counts', retention_ms=...), got "
            f"{store!r}"
        )
    return _UNTYPED_SESSION(
        store.name,
        retention_ms=store.retention_ms,
        key=store.key,
        value=store.value if value is None else value,
        partitioner=store.partitioner,
    )


def table_store(
    store: AnyKeyValue[Any, Any] | Versioned[Any, Any],
) -> TimestampedKeyValue[Any, Any] | Versioned[Any, Any]:
    """Return what a table of that declaration is kept in."""
    return store if isinstance(store, Versioned) else timestamped(store)


def rows_store(name: str, key: Serde[Any] | None) -> TimestampedKeyValue[Any, Any]:
    """Return the store in which the join of tables *name* keeps what it gives on."""
    return _UNTYPED_TIMESTAMPED(f"{name}-rows", key=key or json, value=json)


def join_window_store(
    name: str, key: Serde[Any], value: Serde[Any], *, size_ms: int, retention_ms: int
) -> Window[Any, Any]:
    """Return the store in which one side of a join keeps its records."""
    return _UNTYPED_WINDOW(
        name,
        retention_ms=retention_ms,
        window_size_ms=size_ms,
        retain_duplicates=True,
        key=key,
        value=value,
    )


def store_below(store: Any) -> Any:
    """Return the store of bytes below *store*, a typed one or a processor's."""
    whole = getattr(store, "whole_store", store)
    return getattr(whole, "store_of_bytes", whole)
