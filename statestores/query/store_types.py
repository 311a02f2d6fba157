"""What a store can be asked as: the built-in types, and the base of one's own (KIP-67)."""

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from statestores.query.composite_key_value import (
    CompositeKeyValueStore,
    CompositeTimestampedStore,
)
from statestores.query.composite_session import CompositeSessionStore
from statestores.query.composite_versioned import CompositeVersionedStore
from statestores.query.composite_window import CompositeWindowStore
from statestores.query.local_partitions import LocalPartitions
from statestores.serdes.typed_stores.key_value import TypedReadOnlyKeyValueStore
from statestores.serdes.typed_stores.session import TypedReadOnlySessionStore
from statestores.serdes.typed_stores.timestamped import TypedReadOnlyTimestampedStore
from statestores.serdes.typed_stores.versioned import TypedReadOnlyVersionedStore
from statestores.serdes.typed_stores.window import TypedReadOnlyWindowStore
from statestores.spi import kinds
from statestores.spi.kinds import Kind
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.key_value import ReadOnlyKeyValueStore
from statestores.spi.stores.session import ReadOnlySessionStore
from statestores.spi.stores.store import ReadOnlyStore
from statestores.spi.stores.timestamped_key_value import ReadOnlyTimestampedKeyValueStore
from statestores.spi.stores.versioned import ReadOnlyVersionedStore
from statestores.spi.stores.window import ReadOnlyWindowStore

T = TypeVar("T")


class QueryableStoreType(ABC, Generic[T]):
    """A way in which stores are read: which stores it accepts, and what it makes of them.

    A type of one's own reads the partitions in another way, an index or an aggregate: `create` is
    given the partitions that are here, and looks for them anew at each operation.
    """

    @abstractmethod
    def accepts(self, store: ReadOnlyStore) -> bool:
        """Return whether *store*, one partition, can be read this way."""

    @abstractmethod
    def create(self, partitions: LocalPartitions[Any]) -> T:
        """Return what reads *partitions* as one."""


class _KeyValueType(QueryableStoreType[ReadOnlyKeyValueStore[Any, Any]]):
    def accepts(self, store: ReadOnlyStore) -> bool:
        return isinstance(store, ReadOnlyKeyValueStore) and not isinstance(
            store, ReadOnlyTimestampedKeyValueStore
        )

    def create(self, partitions: LocalPartitions[Any]) -> ReadOnlyKeyValueStore[Any, Any]:
        return TypedReadOnlyKeyValueStore(
            CompositeKeyValueStore(partitions), partitions.specification
        )


class _TimestampedType(QueryableStoreType[ReadOnlyTimestampedKeyValueStore[Any, Any]]):
    def accepts(self, store: ReadOnlyStore) -> bool:
        return isinstance(store, ReadOnlyTimestampedKeyValueStore)

    def create(
        self, partitions: LocalPartitions[Any]
    ) -> ReadOnlyTimestampedKeyValueStore[Any, Any]:
        return TypedReadOnlyTimestampedStore(
            CompositeTimestampedStore(partitions), partitions.specification
        )


class _VersionedType(QueryableStoreType[ReadOnlyVersionedStore[Any, Any]]):
    def accepts(self, store: ReadOnlyStore) -> bool:
        return isinstance(store, ReadOnlyVersionedStore)

    def create(self, partitions: LocalPartitions[Any]) -> ReadOnlyVersionedStore[Any, Any]:
        return TypedReadOnlyVersionedStore(
            CompositeVersionedStore(partitions), partitions.specification
        )


class _WindowType(QueryableStoreType[ReadOnlyWindowStore[Any, Any]]):
    def accepts(self, store: ReadOnlyStore) -> bool:
        return isinstance(store, ReadOnlyWindowStore)

    def create(self, partitions: LocalPartitions[Any]) -> ReadOnlyWindowStore[Any, Any]:
        return TypedReadOnlyWindowStore(CompositeWindowStore(partitions), partitions.specification)


class _SessionType(QueryableStoreType[ReadOnlySessionStore[Any, Any]]):
    def accepts(self, store: ReadOnlyStore) -> bool:
        return isinstance(store, ReadOnlySessionStore)

    def create(self, partitions: LocalPartitions[Any]) -> ReadOnlySessionStore[Any, Any]:
        return TypedReadOnlySessionStore(
            CompositeSessionStore(partitions), partitions.specification
        )


def key_value_store() -> QueryableStoreType[ReadOnlyKeyValueStore[Any, Any]]:
    """Return the type of key-value stores."""
    return _KeyValueType()


def timestamped_key_value_store() -> QueryableStoreType[ReadOnlyTimestampedKeyValueStore[Any, Any]]:
    """Return the type of key-value stores whose values have timestamps."""
    return _TimestampedType()


def versioned_store() -> QueryableStoreType[ReadOnlyVersionedStore[Any, Any]]:
    """Return the type of versioned stores."""
    return _VersionedType()


def window_store() -> QueryableStoreType[ReadOnlyWindowStore[Any, Any]]:
    """Return the type of window stores."""
    return _WindowType()


def session_store() -> QueryableStoreType[ReadOnlySessionStore[Any, Any]]:
    """Return the type of session stores."""
    return _SessionType()


def type_of_kind(kind: Kind) -> QueryableStoreType[Any]:
    """Return the built-in type of stores of *kind*."""
    types: dict[Kind, QueryableStoreType[Any]] = {
        kinds.KEY_VALUE: key_value_store(),
        kinds.TIMESTAMPED_KEY_VALUE: timestamped_key_value_store(),
        kinds.VERSIONED: versioned_store(),
        kinds.WINDOW: window_store(),
        kinds.SESSION: session_store(),
    }
    return types[kind]


def read_as(store: ReadOnlyStore, specification: StoreSpecification[Any, Any]) -> Any:
    """Return *store*, of bytes, with the keys and values of *specification*."""
    typed: dict[Kind, Any] = {
        kinds.KEY_VALUE: TypedReadOnlyKeyValueStore,
        kinds.TIMESTAMPED_KEY_VALUE: TypedReadOnlyTimestampedStore,
        kinds.VERSIONED: TypedReadOnlyVersionedStore,
        kinds.WINDOW: TypedReadOnlyWindowStore,
        kinds.SESSION: TypedReadOnlySessionStore,
    }
    return typed[specification.kind](store, specification)
