"""From a store of bytes to the store that its specification describes."""

from typing import Any, TypeVar, overload

from statestores.errors import InvalidTypeError, StoreMismatchError
from statestores.serdes.raw_serde import raw
from statestores.serdes.typed_stores.key_value import TypedKeyValueStore
from statestores.serdes.typed_stores.session import TypedSessionStore
from statestores.serdes.typed_stores.timestamped import TypedTimestampedKeyValueStore
from statestores.serdes.typed_stores.versioned import TypedVersionedStore
from statestores.serdes.typed_stores.window import TypedWindowStore
from statestores.spi.session_specification import Session
from statestores.spi.specification import (
    KeyValue,
    StoreSpecification,
    TimestampedKeyValue,
    Versioned,
)
from statestores.spi.stores.key_value import KeyValueStore
from statestores.spi.stores.session import SessionStore
from statestores.spi.stores.store import StateStore
from statestores.spi.stores.timestamped_key_value import TimestampedKeyValueStore
from statestores.spi.stores.versioned import VersionedStore
from statestores.spi.stores.window import WindowStore
from statestores.spi.window_specification import Window

K = TypeVar("K")
V = TypeVar("V")


@overload
def typed(
    store: TimestampedKeyValueStore[bytes, bytes], specification: TimestampedKeyValue[K, V]
) -> TimestampedKeyValueStore[K, V]: ...
@overload
def typed(
    store: KeyValueStore[bytes, bytes], specification: KeyValue[K, V]
) -> KeyValueStore[K, V]: ...
@overload
def typed(
    store: VersionedStore[bytes, bytes], specification: Versioned[K, V]
) -> VersionedStore[K, V]: ...
@overload
def typed(store: WindowStore[bytes, bytes], specification: Window[K, V]) -> WindowStore[K, V]: ...
@overload
def typed(
    store: SessionStore[bytes, bytes], specification: Session[K, V]
) -> SessionStore[K, V]: ...
def typed(store: StateStore, specification: StoreSpecification[Any, Any]) -> Any:
    """Return *store* with the keys and values of *specification*.

    It is *store* itself when both are bytes. Otherwise it takes *store* over, and closes it when
    it is closed. Whoever writes to both at once has one set of pending writes.

    Raises:
        StoreMismatchError: *store* was opened with another specification.
        InvalidTypeError: It is not a store of the specification's kind.
    """
    opened, expected = store.specification.describe(), specification.describe()
    if opened != expected:
        raise StoreMismatchError(
            f"the store was opened as {opened!r}, and cannot be used as {expected!r}; "
            "open it with this specification"
        )
    if all(serde is None or serde == raw for serde in (specification.key, specification.value)):
        return store
    if isinstance(specification, KeyValue) and isinstance(store, KeyValueStore):
        return TypedKeyValueStore(store, specification)
    if isinstance(specification, TimestampedKeyValue) and isinstance(
        store, TimestampedKeyValueStore
    ):
        return TypedTimestampedKeyValueStore(store, specification)
    if isinstance(specification, Versioned) and isinstance(store, VersionedStore):
        return TypedVersionedStore(store, specification)
    if isinstance(specification, Window) and isinstance(store, WindowStore):
        return TypedWindowStore(store, specification)
    if isinstance(specification, Session) and isinstance(store, SessionStore):
        return TypedSessionStore(store, specification)
    raise InvalidTypeError(
        f"a {type(store).__name__} is not a store of the kind {specification.kind!r}"
    )
