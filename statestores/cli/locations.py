"""Which store or partitions of a path are meant, as the path and ``--store`` say."""

from statestores.errors import InvalidArgumentError
from statestores.reading.locations import (
    ChangelogDirectory,
    Location,
    Partition,
    Root,
    locate,
    with_local,
)


def choose_store(location: Root, name: str | None) -> str:
    """Return the store that is meant: *name*, the path's, or the only one.

    Raises:
        StoreNotFoundError: There is no such store.
        InvalidArgumentError: None is named, and there are several.
    """
    if name is not None and location.store is not None and name != location.store:
        raise InvalidArgumentError(
            f"the path names the store {location.store!r}, and --store {name!r}; leave one out"
        )
    chosen = name or location.store
    if chosen is None and len(location.root.stores) > 1:
        known = ", ".join(sorted(location.root.stores))
        raise InvalidArgumentError(
            f"{str(location.root.path)!r} has the stores {known}; name one with --store"
        )
    return location.root.store(chosen).specification.name


def choose_stores(location: Root, name: str | None) -> list[str]:
    """Return the store that *name* or the path names; without either, all of them.

    Raises:
        StoreNotFoundError: There is no such store.
        InvalidArgumentError: The two name different ones.
    """
    if not name and location.store is None:
        return sorted(location.root.stores)
    return [choose_store(location, name)]


def locate_store(path: str, name: str | None, local: str | None = None) -> Location:
    """Return what lies at *path*, unless it is of another store than *name*.

    With *local*, the engines are those in that directory.

    Raises:
        StoreNotFoundError: Nothing of this library's lies there, or there is no such directory.
        InvalidArgumentError: It is a partition of another store, or its changelog; or what lies
            there has no engines in another directory.
    """
    location = locate(path)
    if local is not None:
        location = with_local(location, local)
    partition = location.partition if isinstance(location, ChangelogDirectory) else location
    specification = partition.specification if isinstance(partition, Partition) else None
    if name is not None and specification is not None and name != specification.name:
        raise InvalidArgumentError(
            f"the path is a partition of the store {specification.name!r}, and --store {name!r}; "
            "leave one out"
        )
    return location


def partitions_at(location: Location, store: str | None) -> list[Partition]:
    """Return the partitions at *location*.

    Raises:
        InvalidArgumentError: It is a snapshot, or a changelog on its own.
    """
    match location:
        case Root():
            return location.partitions(choose_store(location, store))
        case Partition():
            return [location]
        case ChangelogDirectory(partition=Partition() as partition):
            return [partition]
        case _:
            raise InvalidArgumentError(
                f"{str(location.path)!r} is no state root, store or partition; give one"
            )
