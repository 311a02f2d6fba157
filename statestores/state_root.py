"""A state root: the directory of an application's stores, and the file that says what they are.

``statestores.json`` at its top names the stores with their specification and partition count; it
is how readers, Spark among them, recognise a state root (LAY-11). Beside it lie, for each
partition of each store, the live engine, the changelog and the snapshots::

    ROOT/statestores.json
    ROOT/<store>/<partition>/engine.json, engine/
    ROOT/<store>/<partition>/changelog/00000000000000000000.log
    ROOT/<store>/<partition>/snapshots/<offset>/manifest.json
"""

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Self

from statestores.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    StoreCorruptedError,
    StoreMismatchError,
    StoreNotFoundError,
)
from statestores.files.directory_lock import LOCK_FILE, DirectoryLock
from statestores.files.durable_json import (
    ENGINE_FILE,
    ROOT_FILE,
    check_format,
    read_fields,
    write_json,
)
from statestores.files.local_path import local_path
from statestores.files.presence import look_for
from statestores.files.strict_json import Fields
from statestores.partitioning import partitioner_by_name
from statestores.semantics.every_kind.arguments import check_specification, check_store_name
from statestores.semantics.every_kind.self_description import check_description
from statestores.serdes import specification_from_description
from statestores.spi.specification import StoreSpecification

MAX_PARTITIONS = 100_000
"""More partitions than this is a mistake: each is a directory and a file lock."""

_RESERVED_NAMES = frozenset({ROOT_FILE, LOCK_FILE})
"""Files of the state root itself: a store of that name would have to be a directory there."""

_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreEntry:
    """One store of a state root."""

    specification: StoreSpecification[Any, Any]
    """What the store is."""

    partitions: int
    """How many partitions it has, from 1."""


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
    """The directory of an application's stores."""

    def __init__(self, path: Path, stores: Mapping[str, StoreEntry]) -> None:
        """Use `create` or `open`."""
        self._path = path
        self._stores = dict(stores)

    @classmethod
    def create(cls, path: str | PathLike[str]) -> Self:
        """Open the state root at *path*, making an empty one when there is none.

        Raises:
            InvalidTypeError, InvalidArgumentError: The path is none, or a URL.
            StoreMismatchError: There is a single store.
            StorageError, StoreCorruptedError, UnsupportedFormatError: It cannot be made or read.
        """
        root = local_path(path)
        # A link to nothing counts as well, and an empty file must not replace it.
        if look_for(root / ROOT_FILE, follow_links=False) is None:
            _refuse_engine(root)
            lock = DirectoryLock.acquire(root)
            try:
                if look_for(root / ROOT_FILE, follow_links=False) is None:
                    write_json(root / ROOT_FILE, {"format": _FORMAT, "stores": {}})
            finally:
                lock.release()
        return cls.open(root)

    @classmethod
    def open(cls, path: str | PathLike[str]) -> Self:
        """Open the state root at *path*.

        Raises:
            InvalidTypeError, InvalidArgumentError: The path is none, or a URL.
            StoreNotFoundError: There is no state root.
            StoreCorruptedError, UnsupportedFormatError: ``statestores.json`` cannot be read.
        """
        root = local_path(path)
        return cls(root, _read_stores(root))

    @property
    def path(self) -> Path:
        """The directory."""
        return self._path

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
                    f"{str(self._path)!r} has {len(self._stores)} stores ({known}); name one"
                )
            return next(iter(self._stores.values()))
        try:
            return self._stores[name]
        except KeyError as error:
            raise StoreNotFoundError(
                f"{str(self._path)!r} has no store {name!r}; it has: {known}"
            ) from error

    def add_store(
        self, specification: StoreSpecification[Any, Any], *, partitions: int
    ) -> StoreEntry:
        """Note a store, or check that it is already noted as such; return its entry.

        An existing store may get another time to live in this way (TTL-9); each of its partitions
        has it from its next opening on.

        Raises:
            InvalidTypeError, InvalidArgumentError: The number of partitions or the partitioner is
                not valid.
            StoreMismatchError: The store exists with another specification or partition count.
            StoreLockedError: Another process is adding a store.
        """
        check_specification(specification)
        if type(partitions) is not int:
            raise InvalidTypeError(f"partitions must be an int, got {partitions!r}")
        if not 1 <= partitions <= MAX_PARTITIONS:
            raise InvalidArgumentError(
                f"partitions must be from 1 to {MAX_PARTITIONS}, got {partitions}"
            )
        if specification.name in _RESERVED_NAMES:
            raise InvalidArgumentError(
                f"a state root has a file named {specification.name!r}; give the store another name"
            )
        partitioner_by_name(specification.partitioner)
        entry = StoreEntry(specification=specification, partitions=partitions)
        lock = DirectoryLock.acquire(self._path)
        try:
            stores = _read_stores(self._path)
            present = stores.get(specification.name)
            if present is not None:
                _check_entry(present, entry)
            if present is None or present.specification != specification:
                stores[specification.name] = entry
                write_json(self._path / ROOT_FILE, _content(stores))
            self._stores = stores
        finally:
            lock.release()
        return entry

    def partition(self, store: str, partition: int) -> PartitionDirectory:
        """Return where *partition* of *store* lies.

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
        return PartitionDirectory(self._path / store / str(partition))


def is_state_root(path: str | PathLike[str]) -> bool:
    """Return whether there is a state root at *path*.

    Raises:
        StorageError: The directory cannot be looked into.
    """
    about = look_for(local_path(path) / ROOT_FILE)
    return about is not None and stat.S_ISREG(about.st_mode)


def _refuse_engine(root: Path) -> None:
    """Accept a directory that is not that of a single store.

    Raises:
        StoreMismatchError: It is.
    """
    if look_for(root / ENGINE_FILE, follow_links=False) is not None:
        raise StoreMismatchError(
            f"{str(root)!r} holds a single store, which open_store() opens, and can be no state "
            "root as well; choose another directory"
        )


def _read_stores(root: Path) -> dict[str, StoreEntry]:
    """Return the stores that ``statestores.json`` names."""
    file = root / ROOT_FILE
    fields = read_fields(file)
    if fields is None:
        raise StoreNotFoundError(
            f"there is no state root at {str(root)!r}: it has no {ROOT_FILE}; check the path"
        )
    check_format(fields, file, _FORMAT)
    return {name: _read_entry(file, name, entry) for name, entry in fields.inside("stores").items()}


def _read_entry(file: Path, name: str, entry: Fields) -> StoreEntry:
    """Return what *file* says about the store *name*, which names a directory, so it is checked."""
    partitions = entry.integer("partitions", 1, MAX_PARTITIONS)
    try:
        specification = specification_from_description(entry.mapping("specification"))
    except (InvalidArgumentError, InvalidTypeError) as error:
        raise StoreCorruptedError(
            f"{str(file)!r} describes the store {name!r} wrongly, or is of a later release: {error}"
        ) from error
    if specification.name != name or name in _RESERVED_NAMES:
        raise StoreCorruptedError(
            f"{str(file)!r} has the store {specification.name!r} under the name {name!r}, which is "
            "not its own or one that no store can have; it is damaged or was edited"
        )
    return StoreEntry(specification=specification, partitions=partitions)


def _content(stores: Mapping[str, StoreEntry]) -> dict[str, Any]:
    """Return what ``statestores.json`` says about *stores*."""
    return {
        "format": _FORMAT,
        "stores": {
            name: {
                "specification": entry.specification.describe(),
                "partitions": entry.partitions,
            }
            for name, entry in stores.items()
        },
    }


def _check_entry(present: StoreEntry, wanted: StoreEntry) -> None:
    """Accept an entry that says the same as the one that is there."""
    specification = wanted.specification
    check_description(
        present.specification.describe(), specification.describe(), specification.changeable
    )
    if present.partitions != wanted.partitions:
        raise StoreMismatchError(
            f"the store {wanted.specification.name!r} has {present.partitions} partitions, "
            f"expected {wanted.partitions}; the number is fixed when a store is created"
        )
