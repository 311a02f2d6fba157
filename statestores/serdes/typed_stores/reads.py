"""What the typed stores of every kind are made of: the serdes of a specification, bound once."""

from typing import Any, Generic, TypeVar

from statestores.serdes.raw_serde import serde_or_raw
from statestores.serdes.typed_stores.delegation import DelegatingReadOnlyStore
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.store import ReadOnlyStore
from statestores.spi.stores.stream_time import ReadOnlyTimedStore

K = TypeVar("K")
V = TypeVar("V")


class TypedReads(DelegatingReadOnlyStore, Generic[K, V]):
    """A store of bytes, read through the serdes of a specification."""

    def __init__(self, store: ReadOnlyStore, specification: StoreSpecification[K, V]) -> None:
        """Read *store* through the serdes of *specification*."""
        self._store = store
        self._specification = specification
        self._key_serde = serde_or_raw(specification.key)
        self._value_serde = serde_or_raw(specification.value)
        # Bound once: what is called for each key or value is the serde's function itself.
        self._encode_key = self._key_serde.encode
        self._decode_key = self._key_serde.decode
        self._encode_value = self._value_serde.encode
        self._decode_value = self._value_serde.decode

    def _encoded_key(self, key: K | None) -> Any:
        """Return the bytes of *key*; ``None`` goes down as it is (see `encoded_values`)."""
        return None if key is None else self._encode_key(key)


class TypedTimedReads(TypedReads[K, V], ReadOnlyTimedStore):
    """The same for a kind whose puts have times, which pass through unchanged."""

    _store: ReadOnlyTimedStore

    @property
    def stream_time_ms(self) -> int | None:
        return self._store.stream_time_ms
