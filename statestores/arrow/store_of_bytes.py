"""From a store to the store of bytes below it, for whoever works on whole columns."""

from statestores.errors import InvalidTypeError
from statestores.serdes.typed_stores.delegation import DelegatingReadOnlyStore
from statestores.serdes.typed_stores.processor_store import ProcessorStore
from statestores.spi.stores.store import ReadOnlyStore, StateStore


def store_of_bytes(store: ReadOnlyStore) -> ReadOnlyStore:
    """Return the store below a typed one, or a processor's, or the store itself."""
    if isinstance(store, ProcessorStore):
        store = store.whole_store
    return store.store_of_bytes if isinstance(store, DelegatingReadOnlyStore) else store


def check_owner(store: object) -> None:
    """Accept a store that its caller may commit, before anything is put into it.

    Raises:
        InvalidTypeError: It is no store.
        CapabilityNotSupportedError: It is a processor's.
    """
    if not isinstance(store, StateStore):
        raise InvalidTypeError(f"expected an open store, got {store!r}; open it with open_store()")
    if isinstance(store, ProcessorStore):
        store.refuse("commit")
