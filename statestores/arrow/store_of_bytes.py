"""From a store to the store of bytes below it, for whoever works on whole columns."""

from statestores.serdes.delegation import DelegatingReadOnlyStore
from statestores.serdes.processor_store import ProcessorStore
from statestores.spi.store import ReadOnlyStore


def store_of_bytes(store: ReadOnlyStore) -> ReadOnlyStore:
    """Return the store below a typed one, or a processor's, or the store itself."""
    if isinstance(store, ProcessorStore):
        store = store.whole_store
    return store.store_of_bytes if isinstance(store, DelegatingReadOnlyStore) else store


def check_owner(store: object) -> None:
    """Accept a store that its caller may commit, before anything is put into it.

    Raises:
        CapabilityNotSupportedError: It is a processor's.
    """
    if isinstance(store, ProcessorStore):
        store.refuse("commit")
