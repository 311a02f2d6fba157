"""A state root: the directory of an application's stores, and the file that says what they are.

``statestores.json`` at its top names the stores with their specification and partition count; it
is how readers, Spark among them, recognise a state root (LAY-11). Beside it lie, for each
partition of each store, the live engine, the changelog and the snapshots::

    ROOT/statestores.json
    ROOT/<store>/<partition>/engine.json, engine/
    ROOT/<store>/<partition>/changelog/00000000000000000000.log
    ROOT/<store>/<partition>/snapshots/<offset>/manifest.json

A root may also be the URL of an object store: then ``statestores.json`` is an object, beside it lie
the changelogs, and the engines are on local disks (`statestores.object_log`).
"""

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from statestores import stores_in_directory, stores_in_objects
from statestores.errors import (
    CapabilityNotSupportedError,
    InvalidArgumentError,
    InvalidTypeError,
    StoreNotFoundError,
)
from statestores.files.durable_json import ROOT_FILE
from statestores.files.local_path import local_path
from statestores.files.presence import look_for
from statestores.generations import home_of
from statestores.partitioning import partitioner_by_name
from statestores.root_document import (
    MAX_PARTITIONS,
    RESERVED_NAMES,
    Placement,
    StoreEntry,
)
from statestores.semantics.every_kind.arguments import check_specification, check_store_name
from statestores.spi.specification import StoreSpecification
from statestores.storage import ObjectStorage, is_storage_url, open_storage

if TYPE_CHECKING:
    from statestores.object_log import ObjectLog


@dataclass(frozen=True, slots=True)
class PartitionDirectory:
    """Where one partition of one store lies."""

    path: Path
    """The directory that `statestores.open_store` takes."""

    @property
    def changelog(self) -> Path:
        """The directory of the changelog's segments."""
        return self.path / "changelog"

    @property
    def snapshots(self) -> Path:
        """The directory of the snapshots."""
        return self.path / "snapshots"


class StateRoot:
    """The directory of an application's stores, or their place in an object store."""

    def __init__(self, place: Path | ObjectStorage, stores: Mapping[str, StoreEntry]) -> None:
        """Use `create` or `open`."""
        self._place = place
        self._stores = dict(stores)

    def __repr__(self) -> str:
        place = self._place.url if isinstance(self._place, ObjectStorage) else str(self._place)
        return f"<state root {place!r}, stores: {', '.join(sorted(self._stores)) or 'none'}>"

    @classmethod
    def create(
        cls,
        path: str | PathLike[str],
        *,
        storage_options: Mapping[str, object] | None = None,
    ) -> Self:
        """Open the state root at *path*, making an empty one when there is none.

        *path* may be the URL of an object store (docs/object-stores.md), which *storage_options*
        say how to reach.

        Raises:
            InvalidTypeError, InvalidArgumentError: The path is none, or another URL.
            InvalidOptionError, MissingDriverError: The object store cannot be used.
            StoreMismatchError: There is a single store, or *path* lies in the directory of a store
                of another state root.
            StorageError, StoreCorruptedError, UnsupportedFormatError: It cannot be made or read.
        """
        storage = _storage(path, storage_options)
        if storage is not None:
            stores_in_objects.create_root(storage)
            return cls(storage, _read_stores(storage))
        root = local_path(path)
        stores_in_directory.create_root(root)
        return cls.open(root)

    @classmethod
    def open(
        cls,
        path: str | PathLike[str],
        *,
        storage_options: Mapping[str, object] | None = None,
    ) -> Self:
        """Open the state root at *path*, which may be the URL of an object store as in `create`.

        Raises:
            InvalidTypeError, InvalidArgumentError: The path is none, or another URL.
            InvalidOptionError, MissingDriverError: The object store cannot be used.
            StoreNotFoundError: There is no state root.
            StoreCorruptedError, UnsupportedFormatError: ``statestores.json`` cannot be read.
            StorageError: The object store does not answer.
        """
        place = _storage(path, storage_options) or local_path(path)
        return cls(place, _read_stores(place))

    @property
    def path(self) -> Path:
        """The directory.

        Raises:
            CapabilityNotSupportedError: It is in an object store.
        """
        if isinstance(self._place, ObjectStorage):
            raise CapabilityNotSupportedError(
                f"{self._place.url!r} is a state root in an object store, and this needs one in a "
                "directory; open_logged_store() opens its partitions, and StateRoot.object_log() "
                "reads and compacts their changelogs (docs/object-stores.md)"
            )
        return self._place

    @property
    def storage(self) -> ObjectStorage | None:
        """The object store; ``None`` for a directory."""
        return self._place if isinstance(self._place, ObjectStorage) else None

    @property
    def _shown(self) -> str:
        """The root as messages show it."""
        return _shown(self._place)

    @property
    def stores(self) -> dict[str, StoreEntry]:
        """The stores by name."""
        return dict(self._stores)

    def store(self, name: str | None = None) -> StoreEntry:
        """Return the store *name*, or, without a name, the only one.

        Raises:
            StoreNotFoundError: There is no such store; the message lists those that there are.
            InvalidArgumentError: No name is given, and there are several.
        """
        if name is not None:
            check_store_name(name)
        known = ", ".join(sorted(self._stores)) or "none"
        if name is None:
            if len(self._stores) != 1:
                raise InvalidArgumentError(
                    f"{self._shown!r} has {len(self._stores)} stores ({known}); name one"
                )
            return next(iter(self._stores.values()))
        try:
            return self._stores[name]
        except KeyError as error:
            raise StoreNotFoundError(
                f"{self._shown!r} has no store {name!r}; it has: {known}"
            ) from error

    def add_store(
        self,
        specification: StoreSpecification[Any, Any],
        *,
        partitions: int,
        placement: Placement | Literal["partitioner", "task"] | None = None,
    ) -> StoreEntry:
        """Note a store, or check that it is already noted as such; return its entry.

        An existing store may get another time to live in this way (TTL-9); each of its partitions
        has it from its next opening on. *placement* says who decides the partition of a key
        (LAY-11); ``None`` leaves what is noted of that.

        Raises:
            InvalidTypeError, InvalidArgumentError: The number of partitions, the partitioner or the
                placement is not valid.
            StoreMismatchError: The store exists with another specification or partition count; or
                its directory has the partitions of a reshard that has not ended (RSH-11).
            StoreLockedError: Another process is adding a store.
        """
        check_specification(specification)
        if type(partitions) is not int:
            raise InvalidTypeError(f"partitions must be an int, got {partitions!r}")
        if not 1 <= partitions <= MAX_PARTITIONS:
            raise InvalidArgumentError(
                f"partitions must be from 1 to {MAX_PARTITIONS}, got {partitions}"
            )
        if specification.name in RESERVED_NAMES:
            raise InvalidArgumentError(
                f"a state root has a file named {specification.name!r}; give the store another name"
            )
        partitioner_by_name(specification.partitioner)
        if placement is not None and placement not in set(Placement):
            raise InvalidArgumentError(
                f"placement must be one of {', '.join(map(repr, map(str, Placement)))}, got "
                f"{placement!r}"
            )
        entry = StoreEntry(
            specification=specification,
            partitions=partitions,
            placement=None if placement is None else Placement(placement),
        )
        if isinstance(self._place, ObjectStorage):
            self._stores = stores_in_objects.add_store(self._place, entry)
            return self._stores[specification.name]
        self._stores = stores_in_directory.add_store(self._place, entry, by_reshard=False)
        return self._stores[specification.name]

    def note_reshard_into(self, entry: StoreEntry) -> StoreEntry:
        """Note a store whose partitions a reshard has written into this root (RSH-11).

        Raises:
            StoreMismatchError: There is another store of the name.
            StoreLockedError: Another process is adding a store.
        """
        self._stores = stores_in_directory.add_store(self.path, entry, by_reshard=True)
        return self._stores[entry.specification.name]

    def note_resharded(self, store: str, partitions: int) -> StoreEntry:
        """Note that *store* has its next generation, of so many partitions; return its entry.

        Requires: the caller keeps every writer of the store out, and all of it is on disk.

        Raises:
            StoreReshardedError: Somebody else has resharded it.
            StoreLockedError: Another process is adding a store.
            StorageError: It cannot be noted; the store is as it was.
        """
        self._stores = stores_in_directory.note_resharded(
            self.path, store, self.store(store), partitions
        )
        return self._stores[store]

    def note_log_may_end(self, store: str) -> None:
        """Note that a reshard is about to end the log of *store*, so that it is looked at (OBJ-47).

        Requires: the root is in an object store. That stays noted until the store is resharded.

        Raises:
            StoreReshardedError: Somebody else has resharded it since this was opened.
            StorageError: The object store does not answer.
        """
        self._stores = stores_in_objects.note_log_may_end(
            self._objects(store), store, self.store(store)
        )

    def note_log_ended(self, store: str) -> StoreEntry:
        """Note where *store* goes on, if its log has ended; return its entry.

        Requires: the root is in an object store.

        Raises:
            StoreNotFoundError: There is no such store.
            StorageError: The object store does not answer.
        """
        self._stores = stores_in_objects.note_logs_ended(self._objects(store))
        return self.store(store)

    def _objects(self, store: str) -> ObjectStorage:
        """Return where *store* lies.

        Raises:
            CapabilityNotSupportedError: The root is a directory.
        """
        self.store(store)
        if not isinstance(self._place, ObjectStorage):
            raise CapabilityNotSupportedError(
                f"{self._shown!r} is a directory, whose stores have no logs in an object store"
            )
        return self._place

    def object_log(self, store: str) -> "ObjectLog":
        """Return the log of *store* in this root, which is in an object store (OBJ-2).

        Raises:
            StoreNotFoundError: There is no such store.
            CapabilityNotSupportedError: The root is a directory, whose partitions have a changelog
                each: `statestores.changelog`.
        """
        entry = self.store(store)
        if not isinstance(self._place, ObjectStorage):
            raise CapabilityNotSupportedError(
                f"{self._shown!r} is a directory, whose partitions have a changelog each; use "
                "statestores.changelog, or `statestores compact`"
            )
        return stores_in_objects.log_of(self._place, entry)

    def partition(self, store: str, partition: int) -> PartitionDirectory:
        """Return where *partition* of *store* lies.

        Raises:
            StoreNotFoundError: There is no such store.
            InvalidArgumentError: It has no such partition.
            CapabilityNotSupportedError: The root is in an object store.
        """
        self.check_partition(store, partition)
        return PartitionDirectory(self.home(store) / str(partition))

    def home(self, store: str) -> Path:
        """Return the directory that the partitions of *store* and its staged writes lie in.

        That of the partitions as they were when the root was opened: a reshard makes another one.

        Raises:
            StoreNotFoundError: There is no such store.
            CapabilityNotSupportedError: The root is in an object store.
        """
        return home_of(self.path, store, self.store(store).generation)

    def check_current(self, store: str) -> None:
        """Accept a *store* whose partitions are those that this root has found when it was opened.

        For a writer that has the lock of one of them: nobody reshards the store from now on.

        Raises:
            StoreNotFoundError: There is no such store.
            StoreReshardedError: It has other partitions since.
            StoreCorruptedError, UnsupportedFormatError: ``statestores.json`` cannot be read.
        """
        stores_in_directory.check_current(self.path, store, self.store(store))

    def check_partition(self, store: str, partition: int) -> None:
        """Accept the number of a partition of *store*.

        Raises:
            StoreNotFoundError: There is no such store.
            InvalidArgumentError: It has no such partition.
        """
        entry = self.store(store)
        if type(partition) is not int or not 0 <= partition < entry.partitions:
            raise InvalidArgumentError(
                f"the store {store!r} has the partitions 0 to {entry.partitions - 1}, "
                f"got {partition!r}"
            )


def is_state_root(path: str | PathLike[str]) -> bool:
    """Return whether there is a state root at *path*.

    Raises:
        StorageError: The directory cannot be looked into.
    """
    about = look_for(local_path(path) / ROOT_FILE)
    return about is not None and stat.S_ISREG(about.st_mode)


def _storage(
    path: str | PathLike[str], options: Mapping[str, object] | None
) -> ObjectStorage | None:
    """Return the object store that *path* is the URL of; ``None`` for a path.

    Raises:
        InvalidArgumentError: There are *options*, and it is a path.
    """
    if is_storage_url(path):
        return open_storage(path, options)
    if options is not None:
        raise InvalidArgumentError(
            "storage_options are for the URL of an object store, and the state root is none"
        )
    return None


def _shown(place: Path | ObjectStorage) -> str:
    return place.url if isinstance(place, ObjectStorage) else str(place)


def _read_stores(place: Path | ObjectStorage) -> dict[str, StoreEntry]:
    """Return the stores that ``statestores.json`` names."""
    if isinstance(place, ObjectStorage):
        return stores_in_objects.read_stores(place)
    return stores_in_directory.read_stores(place)
