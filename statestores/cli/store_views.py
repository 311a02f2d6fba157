"""The partitions of one store as views: which there are, and through which door each is read."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from statestores.arrow.snapshots.choice import newest_valid_snapshot
from statestores.arrow.snapshots.reader import Snapshot, read_snapshot
from statestores.begun_partitions import refuse_gone
from statestores.cli.arguments import parse_backend_options
from statestores.cli.locations import choose_store, locate_store
from statestores.errors import InvalidArgumentError, MisplacedKeyError, StoreNotFoundError
from statestores.partitioning import partitioner_by_name, placed_elsewhere
from statestores.reading.key_text import parse_key
from statestores.reading.locations import (
    ChangelogDirectory,
    Location,
    Partition,
    Root,
    SnapshotDirectory,
)
from statestores.reading.partition_places import place_of
from statestores.reading.partition_reader import end_offsets
from statestores.reading.views import EngineView, LogView, SnapshotView, View
from statestores.spi.specification import StoreSpecification
from statestores.state_root import StateRoot
from statestores.storage import is_storage_url


class StoreViews:
    """The partitions of one store, opened as they are needed."""

    def __init__(
        self,
        specification: StoreSpecification[Any, Any] | None,
        sources: list[Partition] | SnapshotDirectory,
        options: Mapping[str, object] | None,
    ) -> None:
        """Read the store in *sources*; use `views_at`."""
        self._specification = specification
        self._sources = sources
        self._options = options

    @property
    def number_of_partitions(self) -> int:
        """How many there are."""
        return 1 if isinstance(self._sources, SnapshotDirectory) else len(self._sources)

    @property
    def specification(self) -> StoreSpecification[Any, Any]:
        """What the store is; for a store that only its engine knows, the engine is opened."""
        if self._specification is None:
            with self.open(0) as view:
                self._specification = view.specification
        return self._specification

    def partition_number(self, index: int) -> int | None:
        """Return the number of the partition at *index*; ``None`` outside a state root."""
        return None if isinstance(self._sources, SnapshotDirectory) else self._sources[index].number

    def index_of(self, key: bytes, partition: int | None = None) -> int:
        """Return the index of the partition that holds *key*: the one named, or its own.

        Raises:
            InvalidArgumentError: The one named is not here, or the key has none of its own.
        """
        if partition is not None:
            numbers = [self.partition_number(each) for each in range(self.number_of_partitions)]
            if partition not in numbers:
                here = ", ".join(map(str, numbers)) if numbers != [None] else "no numbered one"
                raise InvalidArgumentError(f"--partition {partition} is not here; here: {here}")
            return numbers.index(partition)
        if self.number_of_partitions == 1:
            return 0
        partitioner = partitioner_by_name(self.specification.partitioner)
        return partitioner.partition(key, self.number_of_partitions)

    def check_not_elsewhere(self, key: bytes, index: int, is_found: Callable[[View], bool]) -> None:
        """Return if *key*, which is not in the partition at *index*, is in no other (QRY-10).

        Raises:
            MisplacedKeyError: It is in another one.
            StateStoreError: Another one cannot be read, so nobody knows.
        """
        for other in range(self.number_of_partitions):
            if other == index:
                continue
            with self.open(other) as view:
                is_there = is_found(view)
            if is_there:
                words = placed_elsewhere(key, self.specification, self.number_of_partitions, other)
                raise MisplacedKeyError(f"{words}or read it with --partition {other}")

    @contextmanager
    def open_all(self) -> Iterator[list[View]]:
        """Give the views of all partitions, those with a changelog as of one moment.

        A write that touches several partitions is in all of them or in none.
        """
        with ExitStack() as opened:
            views = [
                opened.enter_context(self.open(index)) for index in range(self.number_of_partitions)
            ]
            logged = [view for view in views if isinstance(view, LogView)]
            if len(logged) > 1:
                ends = end_offsets([view.reader for view in logged])
                for view, end in zip(logged, ends, strict=True):
                    view.stop_at(end)
            yield views

    @contextmanager
    def open(self, index: int) -> Iterator[View]:
        """Give the view of the partition at *index*.

        Raises:
            StoreMismatchError: It has had a changelog, which is gone (LAY-35).
            StoreLockedError: It has an engine and no changelog, and the engine is open elsewhere.
            StateStoreError: It cannot be read.
        """
        if isinstance(self._sources, SnapshotDirectory):
            yield SnapshotView(read_snapshot(self._sources.path))
            return
        partition = self._sources[index]
        if partition.root is not None and not partition.has_changelog:
            refuse_gone(partition.directory)
        is_known = partition.specification is not None
        if partition.has_engine and not (partition.has_changelog and is_known):
            with EngineView.open(partition, self._options) as view:
                yield view
        elif partition.specification is not None:
            yield LogView(partition.directory, partition.specification)
        elif partition.has_changelog:
            raise StoreNotFoundError(
                f"{str(partition.path)!r} has a changelog, and no state root that says what the "
                "store is; give the partition inside its state root, or the changelog directory"
            )
        else:
            yield SnapshotView(_newest(partition))


class ObjectStoreViews(StoreViews):
    """The partitions of a store in an object store, which all have a log."""

    def __init__(self, root: StateRoot, store: str | None) -> None:
        """Read *store* of *root*, or its only one.

        Raises:
            StoreNotFoundError, InvalidArgumentError: There is no such store, or there are several.
        """
        entry = root.store(store)
        super().__init__(entry.specification, [], None)
        self._root = root
        self._partitions = entry.partitions

    @property
    def number_of_partitions(self) -> int:
        """How many there are."""
        return self._partitions

    def partition_number(self, index: int) -> int | None:
        """Return the number of the partition at *index*."""
        return index

    @contextmanager
    def open(self, index: int) -> Iterator[View]:
        """Give the view of the partition at *index*."""
        specification = self.specification
        yield LogView(place_of(self._root, specification.name, index), specification)


def views_of(path: str, store: str | None, options: Mapping[str, object] | None) -> StoreViews:
    """Return the partitions of the store at *path*, which may be the URL of a state root.

    Raises:
        StoreNotFoundError: Nothing of this library's lies there.
        InvalidArgumentError: It has no rows, or several stores and none is named.
    """
    if is_storage_url(path):
        return ObjectStoreViews(StateRoot.open(path), store)
    return views_at(locate_store(path, store), store, options)


def views_at(
    location: Location, store: str | None, options: Mapping[str, object] | None
) -> StoreViews:
    """Return the partitions of the store at *location*.

    Raises:
        InvalidArgumentError: The location has no rows, or several stores and none is named.
    """
    match location:
        case Root():
            name = choose_store(location, store)
            specification = location.root.store(name).specification
            return StoreViews(specification, location.partitions(name), options)
        case Partition():
            return StoreViews(location.specification, [location], options)
        case SnapshotDirectory():
            return StoreViews(None, location, options)
        case ChangelogDirectory():
            raise InvalidArgumentError(
                f"{str(location.path)!r} is a changelog, which holds changes and no rows; use the "
                "changelog command, or give the partition that it belongs to"
            )


def find_key(
    path: str, key: str, store: str | None, backend_option: list[str] | None, *, key_hex: bool
) -> tuple[StoreViews, bytes]:
    """Return the store at *path*, and the bytes of *key*."""
    views = views_of(path, store, parse_backend_options(backend_option))
    return views, parse_key(key, views.specification, is_hex=key_hex)


def _newest(partition: Partition) -> Snapshot:
    """Return the newest valid snapshot of a partition that has nothing else."""
    choice = newest_valid_snapshot(partition.directory.snapshots)
    if choice.snapshot is None:
        for error in choice.refused.values():
            raise error
        raise StoreNotFoundError(f"{str(partition.path)!r} is empty; check the path")
    return choice.snapshot
