"""The partitions of the stores of one state root."""

from statestores.cli.locations import choose_stores, locate_store
from statestores.errors import InvalidArgumentError
from statestores.reading.locations import Partition, Root
from statestores.storage import is_storage_url


def locate_root(path: str, store: str | None, local: str | None = None) -> Root:
    """Return the state root at *path*, or the one of its stores that *path* names.

    Raises:
        StoreNotFoundError: Nothing of this library's lies there.
        InvalidArgumentError: Something else lies there, or it is the URL of an object store.
    """
    refuse_url(path)
    location = locate_store(path, store, local)
    if not isinstance(location, Root):
        raise InvalidArgumentError(
            f"{path!r} is no state root and none of its stores; give one of them"
        )
    return location


def root_partitions(location: Root, store: str | None) -> list[Partition]:
    """Return the partitions of *store*, of the one that *location* names, or of all, in order."""
    return [
        partition
        for name in choose_stores(location, store)
        for partition in location.partitions(name)
    ]


def refuse_url(path: str) -> None:
    """Refuse what is in an object store.

    Raises:
        InvalidArgumentError: It is.
    """
    if is_storage_url(path):
        raise InvalidArgumentError(
            f"{path!r} is in an object store, and this looks at directories; info takes the URL"
        )
