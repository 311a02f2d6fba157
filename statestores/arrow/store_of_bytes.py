"""From a typed store to the store of bytes below it, for whoever works on whole columns."""

from statestores.serdes.delegation import DelegatingReadOnlyStore
from statestores.spi.store import ReadOnlyStore


def store_of_bytes(store: ReadOnlyStore) -> ReadOnlyStore:
    """Return the store below a typed one, or the store itself."""
    return store.store_of_bytes if isinstance(store, DelegatingReadOnlyStore) else store
