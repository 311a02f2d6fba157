"""What lies at a path: a state root, a partition, a changelog or a snapshot."""

import re
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from statestores.arrow.snapshots.directory import list_snapshots, offset_from_name
from statestores.arrow.snapshots.manifest import MANIFEST_NAME
from statestores.begun_partitions import GonePartitionError, refuse_gone
from statestores.changelog import ChangelogReader, changelog_partition
from statestores.engine_creation import ENGINE_DIRECTORY
from statestores.errors import InvalidArgumentError, StoreCorruptedError, StoreNotFoundError
from statestores.files.durable_json import ROOT_FILE
from statestores.files.failures import storage_error
from statestores.files.local_path import local_path
from statestores.generations import place_in_root, resharded
from statestores.opening import backend_of
from statestores.spi.offsets import TopicPartition
from statestores.spi.specification import StoreSpecification
from statestores.staging.unfinished_write import check_has_write
from statestores.staging.write_intent import read_intent
from statestores.state_root import PartitionDirectory, StateRoot, is_state_root

_SEGMENT = re.compile(r"[0-9]{20}\.log")
_NUMBER = re.compile(r"0|[1-9][0-9]*")


def changelog_of(
    directory: PartitionDirectory, specification: StoreSpecification[Any, Any]
) -> ChangelogReader:
    """Open the changelog in *directory*, a partition of the store in its state root, for reading.

    One that says that it is another partition's is refused (LAY-33).

    Raises:
        StateStoreError: As `ChangelogReader.open`.
    """
    logged = changelog_partition(specification.name, int(directory.path.name))
    return ChangelogReader.open(directory.changelog, specification.kind, partition=logged)


def changelog_end(
    directory: PartitionDirectory,
    specification: StoreSpecification[Any, Any],
    next_offset: int = 0,
) -> int:
    """Return where the changelog in *directory* ends, exclusive; 0 where none was begun.

    Whoever has a copy of it says which offset comes next there: then it was begun.

    Raises:
        StoreMismatchError: There was one, and it is gone (LAY-35), or it is another partition's.
        StoreReshardedError: The partition is no longer one of the store.
        ChangelogCorruptedError, StorageError: It cannot be read.
    """
    try:
        with changelog_of(directory, specification) as log:
            end, _ = log.known_end
            return end
    except StoreNotFoundError:
        refuse_gone(directory, next_offset)
        return next_offset


@dataclass(frozen=True, slots=True)
class Partition:
    """The directory of one partition, of a state root or on its own."""

    directory: PartitionDirectory
    """Where it lies."""

    root: StateRoot | None
    """The state root that it belongs to."""

    specification: StoreSpecification[Any, Any] | None
    """What the state root says about the store; ``None`` when only the engine knows."""

    number: int | None
    """Its number in the state root."""

    local: Path | None = None
    """Where its engine lies, if that is not where its changelog does (`restore --local`)."""

    @property
    def path(self) -> Path:
        """The directory."""
        return self.directory.path

    @property
    def logged(self) -> TopicPartition | None:
        """Whose changelog lies there; ``None`` outside a state root."""
        if self.specification is None or self.number is None:
            return None
        return changelog_partition(self.specification.name, self.number)

    @property
    def home(self) -> Path:
        """The directory that the engine lies in, with the file that names its backend."""
        return self.local or self.path

    @property
    def engine(self) -> Path:
        """Where the engine's own files are, if it has any."""
        return self.home / ENGINE_DIRECTORY

    @property
    def has_engine(self) -> bool:
        """Whether a backend has been noted for it."""
        return backend_of(self.home) is not None

    @property
    def has_changelog(self) -> bool:
        """Whether there is a changelog, damaged or not.

        Raises:
            StorageError: It cannot be told.
        """
        return has_segments(self.directory.changelog)

    def why_gone(self) -> str | None:
        """Return what says that its changelog is gone; ``None`` if it is there, or none was begun.

        It is looked for in a state root alone (LAY-35).

        Raises:
            StoreReshardedError: The store has other partitions since.
            StoreCorruptedError, StorageError: It cannot be told, so it may be there.
        """
        if self.root is not None and not self.has_changelog:
            try:
                refuse_gone(self.directory)
            except GonePartitionError as error:
                return str(error)
        return None

    def why_behind(self) -> str | None:
        """Return what says that its changelog has lost its end; ``None`` if nothing does.

        That is what the last staged write has noted, in a state root alone (LAY-39).

        Raises:
            StateStoreError: It cannot be told.
        """
        if self.specification is None or self.number is None or not self.has_changelog:
            return None
        home = self.path.parent
        left = read_intent(home)  # before the changelog, which may go on meanwhile
        ends = {self.number: changelog_end(self.directory, self.specification)}
        try:
            check_has_write(home, left, ends)
        except StoreCorruptedError as error:
            return str(error)
        return None

    @property
    def has_snapshots(self) -> bool:
        """Whether there is a snapshot, damaged or not."""
        return bool(list_snapshots(self.directory.snapshots))


@dataclass(frozen=True, slots=True)
class Root:
    """A state root, or one store of it."""

    root: StateRoot
    """The state root."""

    store: str | None
    """The store that the path names; ``None`` when it names the root."""

    local: Path | None = None
    """The directory of the engines, if that is another one (`restore --local`)."""

    def partitions(self, name: str) -> list[Partition]:
        """Return the partitions of the store *name*."""
        entry = self.root.store(name)
        return [
            Partition(
                self.root.partition(name, number),
                self.root,
                entry.specification,
                number,
                None if self.local is None else self.local / name / str(number),
            )
            for number in range(entry.partitions)
        ]


@dataclass(frozen=True, slots=True)
class ChangelogDirectory:
    """A changelog that the path names itself."""

    path: Path
    """The directory of the segments."""

    partition: Partition | None
    """The partition whose changelog it is, if it belongs to one."""


@dataclass(frozen=True, slots=True)
class SnapshotDirectory:
    """A snapshot that the path names itself."""

    path: Path
    """The directory of manifest and data."""


_LEVELS_BELOW = 3
_LOOKED_AT = 500
_SHOWN_BELOW = 3

Location: TypeAlias = Root | Partition | ChangelogDirectory | SnapshotDirectory


def locate(path: str | PathLike[str]) -> Location:
    """Return what lies at *path*.

    Raises:
        StoreMismatchError: A partition lay there, and is gone (LAY-35).
        StoreNotFoundError: Nothing there is this library's.
        StateStoreError: A file that says what it is cannot be read.
    """
    place = local_path(path)
    if not place.exists():
        named = _partition_named(place)
        if named is not None and named.path != place:
            return named
        if named is not None:
            refuse_gone(named.directory)
        raise StoreNotFoundError(f"there is nothing at {str(path)!r}; check the path")
    if is_state_root(place):
        return Root(StateRoot.open(place), None)
    in_snapshots = place.parent.name == "snapshots" and offset_from_name(place.name) is not None
    if (place / MANIFEST_NAME).is_file() or (in_snapshots and place.is_dir()):
        return SnapshotDirectory(place)
    partition = _partition_at(place)
    if partition is not None:
        return partition
    if has_segments(place):
        owner = _partition_at(place.parent)
        is_its_log = owner is not None and owner.directory.changelog == place
        return ChangelogDirectory(place, owner if is_its_log else None)
    if is_state_root(place.parent) and place.is_dir():
        root = StateRoot.open(place.parent)
        if place.name in root.stores:
            return Root(root, place.name)
    below = shown_below(place)
    raise StoreNotFoundError(
        f"{str(path)!r} is no state root (it has no {ROOT_FILE}), no partition of a store, no "
        f"changelog and no snapshot; {below or 'check the path'}"
    )


def shown_below(place: Path) -> str | None:
    """Return which stores lie somewhat below the directory *place*; ``None`` without any.

    Some hundred directories are looked at, so that a wrong path costs no walk of a disk.
    """
    found: list[Path] = []
    level, looked = [place], 0
    for _ in range(_LEVELS_BELOW):
        level = [each for directory in level for each in _directories(directory)]
        level = level[: _LOOKED_AT - looked]
        looked += len(level)
        stores = list(filter(_is_store, level))
        found.extend(stores)
        level = [each for each in level if each not in stores]
    if not found:
        return None
    shown = ", ".join(repr(str(each)) for each in found[:_SHOWN_BELOW])
    more = f" and {len(found) - _SHOWN_BELOW} more" if len(found) > _SHOWN_BELOW else ""
    return f"below it there is {shown}{more}: give that path"


def _is_store(directory: Path) -> bool:
    """Return whether *directory* is a state root or a partition; no, if that cannot be told."""
    try:
        is_one = is_state_root(directory) or (directory / "engine.json").is_file()
        return is_one or has_segments(directory)
    except OSError:
        return False


def _directories(directory: Path) -> list[Path]:
    try:
        return sorted(each for each in directory.iterdir() if each.is_dir())
    except OSError:
        return []


def with_local(location: Location, local: str | PathLike[str]) -> Location:
    """Return *location* with its engines in *local*, as `restore --local` puts them there.

    Raises:
        InvalidArgumentError: It is no state root, store or partition of one.
        StoreNotFoundError: There is no such directory.
    """
    directory = local_path(local)
    if not directory.is_dir():
        raise StoreNotFoundError(f"there is no directory {str(local)!r}; check --local")
    if isinstance(location, Root):
        return replace(location, local=directory)
    if isinstance(location, Partition) and location.root is not None:
        assert location.specification is not None  # noqa: S101  # the root says what it is
        name, number = location.specification.name, str(location.number)
        return replace(location, local=directory / name / number)
    raise InvalidArgumentError(
        "engines lie in another directory for a state root, its stores and their partitions only; "
        "leave --local out"
    )


def has_segments(path: Path) -> bool:
    """Return whether *path* is a directory with segments of a changelog.

    Raises:
        StorageError: It cannot be told.
    """
    try:
        return any(_SEGMENT.fullmatch(entry.name) for entry in path.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise storage_error("look into", path, error) from error


def _partition_named(place: Path) -> Partition | None:
    """Return the partition of a store that *place* is the first place of; ``None`` if of none.

    After a reshard it lies elsewhere, in the directory of the generation that counts.
    """
    root_path, store = place.parent.parent, place.parent.name
    if not _NUMBER.fullmatch(place.name) or not is_state_root(root_path):
        return None
    root = StateRoot.open(root_path)
    entry = root.stores.get(store)
    if entry is None or int(place.name) >= entry.partitions:
        return None
    number = int(place.name)
    return Partition(root.partition(store, number), root, entry.specification, number)


def _partition_at(place: Path) -> Partition | None:
    """Return the partition whose directory is *place*; ``None`` when it is none."""
    if not place.is_dir():
        return None
    directory = PartitionDirectory(place)
    root_path, store, generation = place_in_root(place.parent)
    if _NUMBER.fullmatch(place.name) and is_state_root(root_path):
        root = StateRoot.open(root_path)
        entry = root.stores.get(store)
        if entry is not None and entry.generation != generation:
            raise resharded(store, root_path)
        if entry is not None and int(place.name) < entry.partitions:
            return Partition(directory, root, entry.specification, int(place.name))
    known = (place / "engine.json").is_file()
    if known or has_segments(directory.changelog) or list_snapshots(directory.snapshots):
        return Partition(directory, None, None, None)
    return None
