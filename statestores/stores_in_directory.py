"""The stores of a state root in a directory: noted in its file, under the lock of the root."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from statestores.errors import StoreMismatchError, StoreNotFoundError
from statestores.files.directory_lock import LOCK_FILE, DirectoryLock
from statestores.files.durable_json import ENGINE_FILE, ROOT_FILE, read_fields, write_json
from statestores.files.failures import reporting
from statestores.files.presence import look_for
from statestores.generations import SCRATCH_DIRECTORY, resharded
from statestores.root_document import FORMAT, StoreEntry, content_of, stores_in, with_entry


def create_root(root: Path) -> None:
    """Make an empty state root at *root*, unless there is one.

    Raises:
        StoreMismatchError: There is a single store, or the directory is that of a store.
        StoreLockedError: Another process is making or changing it.
        StoreCorruptedError, UnsupportedFormatError: What says whether it is cannot be read.
        StorageError: It cannot be made.
    """
    # A link to nothing counts as well, and an empty file must not replace it.
    if look_for(root / ROOT_FILE, follow_links=False) is not None:
        return
    refuse_engine(root)
    refuse_inside_store(root)
    with _changing(root):
        if look_for(root / ROOT_FILE, follow_links=False) is None:
            write_json(root / ROOT_FILE, {"format": FORMAT, "stores": {}})


def remove_empty_root(root: Path) -> None:
    """Remove what `create_root` has made in *root*, unless there is a store by now.

    Requires: the caller has made the root.

    Raises:
        StoreLockedError: Another process is changing it.
        StoreNotFoundError, StorageError: It is gone, or cannot be removed.
    """
    with _changing(root):
        if not read_stores(root):
            with reporting("remove", root / ROOT_FILE):
                (root / ROOT_FILE).unlink()
                (root / LOCK_FILE).unlink()


def refuse_engine(root: Path) -> None:
    """Accept a directory that is not that of a single store.

    Raises:
        StoreMismatchError: It is.
    """
    if look_for(root / ENGINE_FILE, follow_links=False) is not None:
        raise StoreMismatchError(
            f"{str(root)!r} holds a single store, which open_store() opens, and can be no state "
            "root as well; choose another directory"
        )


def refuse_inside_store(root: Path) -> None:
    """Accept a directory that no other state root has as that of a store, or of its partition.

    Whoever gave the store's directory would read the inner root from then on.

    Raises:
        StoreMismatchError: One has.
        StoreCorruptedError, UnsupportedFormatError, StorageError: It cannot be told.
    """
    place = Path(os.path.realpath(root))
    for outer in place.parents:
        if look_for(outer / ROOT_FILE) is None:
            continue
        store = place.relative_to(outer).parts[0]
        if store in read_stores(outer):
            raise StoreMismatchError(
                f"{str(root)!r} belongs to the store {store!r} of the state root {str(outer)!r}, "
                f"and can be no state root as well; give {str(outer)!r} to add a store to that "
                "root, or choose another directory"
            )


def read_stores(root: Path, only: str | None = None) -> dict[str, StoreEntry]:
    """Return the stores that *root* has, by name, or *only* the one of that name.

    Raises:
        StoreNotFoundError: There is no state root.
        StoreCorruptedError, UnsupportedFormatError, StorageError: It cannot be read.
    """
    file = root / ROOT_FILE
    fields = read_fields(file)
    if fields is None:
        raise StoreNotFoundError(
            f"there is no state root at {str(root)!r}: it has no {ROOT_FILE}; check the path"
        )
    return stores_in(fields, repr(str(file)), only)


def add_store(root: Path, entry: StoreEntry, *, by_reshard: bool) -> dict[str, StoreEntry]:
    """Note a store, whose files are those of a reshard, or nobody's; return the stores.

    Raises:
        StoreMismatchError: There is another store of that name, or a reshard has its directory.
        StoreLockedError: Another process is adding a store.
    """
    name = entry.specification.name
    with _changing(root):
        stores = read_stores(root)
        if name not in stores and not by_reshard:
            _refuse_unfinished_reshard(root / name)
            _refuse_root_in_store(root / name)
        changed = with_entry(stores, entry)
        if changed is None:
            return stores
        write_json(root / ROOT_FILE, content_of(changed))
        return changed


def note_resharded(
    root: Path, store: str, known: StoreEntry, partitions: int
) -> dict[str, StoreEntry]:
    """Note that *store*, which is *known*, has its next generation; return the stores.

    Raises:
        StoreReshardedError: Somebody else has resharded it.
        StoreLockedError: Another process is adding a store.
        StorageError: It cannot be noted; the store is as it was.
    """
    with _changing(root):
        check_current(root, store, known)
        stores = read_stores(root)
        generation = stores[store].generation + 1
        stores[store] = replace(stores[store], partitions=partitions, generation=generation)
        write_json(root / ROOT_FILE, content_of(stores))
    return stores


def check_current(root: Path, store: str, known: StoreEntry) -> None:
    """Accept a *store* that is of the generation that is *known*.

    Raises:
        StoreReshardedError: It has other partitions since.
        StoreCorruptedError, UnsupportedFormatError: ``statestores.json`` cannot be read.
    """
    noted = read_stores(root, store).get(store)
    if noted is None or noted.generation != known.generation:
        raise resharded(store, root)


@contextmanager
def _changing(root: Path) -> Iterator[None]:
    """Keep others from changing the file."""
    lock = DirectoryLock.acquire(root)
    try:
        yield
    finally:
        lock.release()


def _refuse_unfinished_reshard(directory: Path) -> None:
    """Accept the directory of a store that is to be added, if no reshard has its partitions there.

    Raises:
        StoreMismatchError: One has, and has died or is at work.
    """
    if look_for(directory / SCRATCH_DIRECTORY, follow_links=False) is not None:
        raise StoreMismatchError(
            f"{str(directory)!r} has partitions of a reshard that has not ended, which a new store "
            "of that name would take for its own; let the reshard end, repeat it, or remove that "
            "directory"
        )


def _refuse_root_in_store(directory: Path) -> None:
    """Accept the directory of a store that is to be added, if it is no state root (LAY-11).

    Raises:
        StoreMismatchError: It is.
    """
    if look_for(directory / ROOT_FILE) is not None:
        raise StoreMismatchError(
            f"{str(directory)!r} is a state root, where the partitions of a store "
            f"{directory.name!r} would lie; give the store another name, or add it to another "
            "state root"
        )
