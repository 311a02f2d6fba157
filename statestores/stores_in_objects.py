"""The stores of a state root in an object store: noted, and followed to where they go on.

``statestores.json`` is replaced by whoever knows its tag, so each change is made again of what the
file says by then. A store whose log may have ended is looked at (OBJ-47), and what is read here
says where it is, whatever the file does.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from statestores.errors import StorageError, StoreMismatchError, StoreNotFoundError
from statestores.files.durable_json import ROOT_FILE
from statestores.generations import resharded
from statestores.object_root import RootObject
from statestores.root_document import FORMAT, StoreEntry, content_of, stores_in, with_entry
from statestores.storage import ObjectStorage

if TYPE_CHECKING:
    from statestores.object_log import ObjectLog

_log = logging.getLogger(__name__)

Stores: TypeAlias = dict[str, StoreEntry]
"""The entries of stores, by name."""


def create_root(storage: ObjectStorage) -> None:
    """Make an empty state root, unless there is one.

    Raises:
        StoreMismatchError: It would lie among the objects of a store.
        StoreCorruptedError, UnsupportedFormatError, StorageError: It cannot be told, or made.
    """
    if storage.read(ROOT_FILE) is None:
        _refuse_inside_store(storage)
        RootObject(storage).create({"format": FORMAT, "stores": {}})


def read_stores(storage: ObjectStorage) -> Stores:
    """Return the stores that the root has.

    Raises:
        StoreNotFoundError: There is no state root.
        StoreCorruptedError, UnsupportedFormatError, StorageError: It cannot be read.
    """
    root = RootObject(storage)
    return _followed(storage, stores_in(root.read()[0], root.shown))


def add_store(storage: ObjectStorage, entry: StoreEntry) -> Stores:
    """Note a store, its log first, so that what is noted has one; return the stores.

    Raises:
        StoreMismatchError: There is another store of that name.
        StorageError: The object store does not answer.
    """
    stores, name = read_stores(storage), entry.specification.name
    with_entry(stores, entry)  # refuses another store of that name
    if name not in stores:
        _refuse_root_in_store(storage, name)
    log_of(storage, entry).create()
    return _replace(storage, lambda stores: with_entry(stores, entry))


def refuse_copied_store(storage: ObjectStorage, store: str) -> None:
    """Accept a root, or a place for one, that `add_copied_store` may note *store* in.

    For who is about to make the log, which may take hours.

    Raises:
        StoreMismatchError: There is a store of the name. The root would lie among the objects of a
            store, or one lies where those of *store* would.
        StoreCorruptedError, UnsupportedFormatError, StorageError: It cannot be told.
    """
    try:
        if store in read_stores(storage):
            raise _has_already(storage, store)
    except StoreNotFoundError:
        _refuse_inside_store(storage)
    _refuse_root_in_store(storage, store)


def add_copied_store(storage: ObjectStorage, entry: StoreEntry) -> Stores:
    """Note a store whose log a reshard has made, in the root, or in a new one (RSH-22).

    Raises:
        StoreMismatchError: There is a store of the name.
        StorageError: The object store does not answer, and it may be noted.
    """
    name = entry.specification.name

    def change(stores: Stores) -> Stores | None:
        present = stores.get(name)
        if present is not None and not _goes_on_from(storage, present, entry):
            raise _has_already(storage, name)
        return None if present is not None else {**stores, name: entry}

    if storage.read(ROOT_FILE) is None:
        RootObject(storage).create(content_of({name: entry}))
    return _replace(storage, change)


def _refuse_inside_store(storage: ObjectStorage) -> None:
    """Accept a root that no other one has among the objects of a store (LAY-11).

    Upkeep of that store would delete the inner root's. The places above may lie beyond the
    caller's rights: what cannot be read there is taken for nothing.

    Raises:
        StoreMismatchError: One has.
        StoreCorruptedError, UnsupportedFormatError: It cannot be told.
    """
    for outer in storage.outer():
        root = RootObject(outer)
        try:
            fields, _ = root.read()
        except StoreNotFoundError:
            continue
        except StorageError as error:
            _log.debug("whether a state root lies at %r cannot be told: %s", outer.url, error)
            continue
        store = storage.url.removeprefix(f"{outer.url}/").partition("/")[0]
        if store in stores_in(fields, root.shown):
            raise StoreMismatchError(
                f"{storage.url!r} belongs to the store {store!r} of the state root {outer.url!r}, "
                f"and can be no state root as well; give {outer.url!r} to add a store to that "
                "root, or choose another URL"
            )


def _refuse_root_in_store(storage: ObjectStorage, store: str) -> None:
    """Accept a *store* that is to be added, if no state root lies where its objects would (LAY-11).

    Raises:
        StoreMismatchError: One does.
        StorageError: It cannot be told.
    """
    for each in storage.list(f"{store}/"):
        if each.name.endswith(f"/{ROOT_FILE}"):
            inner = f"{storage.url}/{each.name.removesuffix(f'/{ROOT_FILE}')}"
            raise StoreMismatchError(
                f"{inner!r} is a state root, where the objects of a store {store!r} would lie; "
                "give the store another name, or add it to another state root"
            )


def _has_already(storage: ObjectStorage, store: str) -> StoreMismatchError:
    """Return the error for a root that has a store of the name that a reshard would bring."""
    return StoreMismatchError(
        f"the state root {storage.url!r} has a store {store!r} already; reshard into another one, "
        "or leave to (--to) out to reshard that one in place"
    )


def _goes_on_from(storage: ObjectStorage, present: StoreEntry, begun: StoreEntry) -> bool:
    """Return whether the store is, or was before it was resharded, the one that was *begun* as."""
    if present.log_generation == begun.log_generation:
        return True
    from statestores.object_log.driver import run  # noqa: PLC0415  # needs Arrow, an extra
    from statestores.object_log.settling import read_checkpoint  # noqa: PLC0415

    known = run(read_checkpoint(log_of(storage, present).names), storage)
    return begun.log_generation in known.checkpoint.former


def note_log_may_end(storage: ObjectStorage, store: str, known: StoreEntry) -> Stores:
    """Note that a reshard is about to end the log of *store*, which is *known*; return the stores.

    Raises:
        StoreReshardedError: Somebody else has resharded it.
        StorageError: The object store does not answer.
    """

    def change(stores: Stores) -> Stores | None:
        present = stores.get(store)
        if present is None or present.log_generation != known.log_generation:
            raise resharded(store, storage.url)
        if present.may_have_ended:
            return None
        return {**stores, store: replace(present, may_have_ended=True)}

    return _replace(storage, change)


def note_logs_ended(storage: ObjectStorage) -> Stores:
    """Note where stores go on whose logs have ended; return the stores.

    Raises:
        StorageError: The object store does not answer.
    """
    return _replace(storage, lambda stores: stores)


def log_of(storage: ObjectStorage, entry: StoreEntry) -> "ObjectLog":
    """Return the log of the store that *entry* is of."""
    from statestores.object_log import ObjectLog  # noqa: PLC0415  # needs Arrow, an extra

    return ObjectLog(
        storage=storage,
        store=entry.specification.name,
        store_kind=entry.specification.kind,
        partitions=entry.partitions,
        generation=entry.log_generation,
    )


def _replace(storage: ObjectStorage, change: Callable[[Stores], Stores | None]) -> Stores:
    """Have the file say what *change* makes of the stores, and return that; ``None`` leaves it.

    What it is given knows of every log that has ended.
    """
    root = RootObject(storage)
    while True:
        fields, tag = root.read()
        noted = stores_in(fields, root.shown)
        stores = _followed(storage, noted)
        changed = change(stores)
        if changed is None or changed == noted:
            return stores
        if root.replace(content_of(changed), tag):
            return changed


def _followed(storage: ObjectStorage, stores: Stores) -> Stores:
    """Return *stores* with those where they go on whose log may have ended, and has (OBJ-47)."""
    if not any(entry.may_have_ended for entry in stores.values()):
        return stores
    from statestores.object_log.driver import run  # noqa: PLC0415  # needs Arrow, an extra
    from statestores.object_log.generations.ending import find_end  # noqa: PLC0415
    from statestores.object_log.names import Names  # noqa: PLC0415

    found = dict(stores)
    for name in stores:
        while found[name].may_have_ended:
            names = Names(name, storage.url, found[name].log_generation)
            end = run(find_end(names), storage)
            if end is None:
                break
            found[name] = replace(
                found[name],
                partitions=end.partitions,
                generation=found[name].generation + 1,
                log_generation=end.generation,
                may_have_ended=False,
            )
    return found
