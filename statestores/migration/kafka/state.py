"""The state directory that a Kafka Streams application has left behind, as stores with rows.

Nothing in it is changed, and no Java is needed. The application must be stopped: its directory is
locked against it while a `KafkaStateDirectory` is open.
"""

import os
from collections.abc import Generator
from dataclasses import dataclass
from os import PathLike

import pyarrow as pa

from statestores.errors import (
    InvalidArgumentError,
    StoreClosedError,
    StoreNotFoundError,
)
from statestores.files.local_path import local_path
from statestores.migration.kafka.database import KafkaDatabase
from statestores.migration.kafka.detection import possible_kinds
from statestores.migration.kafka.kinds import ROW_SCHEMAS, KafkaKind
from statestores.migration.kafka.layout import (
    Ignored,
    StorePartition,
    find_application,
    find_partitions,
)
from statestores.migration.kafka.offsets import KafkaOffsets, offsets_of
from statestores.migration.kafka.rows import (
    OFFSETS_FAMILY,
    check_families,
    decoded_rows,
)
from statestores.migration.kafka.versions import versions_of
from statestores.migration.programs_lock import hold_shared
from statestores.migration.row_batches import as_batches
from statestores.spi.closing import Closing

_LOCK_FILE = ".lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaStore:
    """One store of the application."""

    name: str
    """Its name."""

    kinds: frozenset[KafkaKind]
    """The kinds that its bytes can be; more than one when they do not tell."""

    partitions: tuple[int, ...]
    """The partitions that are there."""

    is_global: bool
    """Whether it is a global store: its one partition has the rows of all."""

    @property
    def kind(self) -> KafkaKind | None:
        """The kind, where it is certain."""
        return next(iter(self.kinds)) if len(self.kinds) == 1 else None


class KafkaStateDirectory(Closing):
    """The stores of one application, to be read and not written."""

    def __init__(self, path: str | PathLike[str], *, application_id: str | None = None) -> None:
        """Open the directory of an application, or one that has a single application's in it.

        *application_id* names the application when its directory has been renamed: the names of
        the changelogs are made of it.

        Raises:
            StoreNotFoundError: There is no state of Kafka Streams.
            InvalidArgumentError: There is that of several applications.
            StoreLockedError: The application is running.
            StoreCorruptedError, UnsupportedFormatError: A store cannot be read.
            StorageError: A file cannot be read.
        """
        self.path = find_application(local_path(path))
        self.application_id = application_id or self.path.name
        self._is_open = True
        self._lock = hold_shared(self.path / _LOCK_FILE)
        try:
            found, ignored = find_partitions(self.path)
        except BaseException:
            self.close()
            raise
        self.ignored: tuple[Ignored, ...] = tuple(ignored)
        """What lies there and holds no rows that could be read."""
        self._partitions: dict[str, dict[int, StorePartition]] = {}
        for each in found:
            self._partitions.setdefault(each.store, {})[each.partition] = each
        self._stores: dict[str, KafkaStore] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the stores."""
        return tuple(self._partitions)

    def stores(self) -> list[KafkaStore]:
        """Return all stores; a sample of the rows of each is looked at, once.

        Raises:
            StoreCorruptedError, UnsupportedFormatError, StorageError: A store cannot be read.
        """
        return [self.store(name) for name in self._partitions]

    def store(self, name: str) -> KafkaStore:
        """Return the store *name*.

        Raises:
            StoreNotFoundError: There is none.
            StoreCorruptedError, UnsupportedFormatError, StorageError: It cannot be read.
        """
        partitions = self._partitions_of(name)
        if name not in self._stores:
            self._stores[name] = KafkaStore(
                name=name,
                kinds=possible_kinds(partitions.values()),
                partitions=tuple(partitions),
                is_global=any(each.is_global for each in partitions.values()),
            )
        return self._stores[name]

    def offsets(self, store: str, partition: int) -> KafkaOffsets:
        """Return how far *partition* of *store* has come.

        Raises:
            StoreNotFoundError: There is no such partition.
            MalformedCheckpointError, StoreCorruptedError, UnsupportedFormatError: It cannot be
                read as it should.
        """
        return offsets_of(self._partition(store, partition), self.application_id)

    def read(
        self, store: str, partition: int, *, kind: KafkaKind | None = None
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows of *partition* of *store*, with the columns of `ROW_SCHEMAS` (MIG-11).

        All rows that are there, even those that Kafka Streams would no longer show, in the order
        of the files. One batch at a time is in memory.

        Raises:
            StoreNotFoundError: There is no such partition.
            InvalidArgumentError: *kind* is not given and not certain, or the store cannot be one.
            StoreCorruptedError, UnsupportedFormatError, StorageError: It cannot be read.
        """
        place = self._partition(store, partition)
        chosen = self.kind_of(store, kind)
        return self._batches(place, chosen)

    def kind_of(self, store: str, kind: KafkaKind | None = None) -> KafkaKind:
        """Return the kind of *store*: *kind* where it can be that, or the one that is certain.

        Raises:
            StoreNotFoundError: There is no such store.
            InvalidArgumentError: It is not certain, or cannot be *kind*.
        """
        found = self.store(store)
        names = ", ".join(sorted(each.value for each in found.kinds)) or "none that is known"
        if kind is None and found.kind is None:
            raise InvalidArgumentError(
                f"the bytes of the store {store!r} do not tell its kind, which can be: {names}; "
                "say which one it is"
            )
        chosen = kind or found.kind
        if chosen is None or chosen not in found.kinds:
            raise InvalidArgumentError(
                f"the store {store!r} cannot be of the kind {chosen and chosen.value!r}; its rows "
                f"can be: {names}"
            )
        return chosen

    def is_empty(self, store: str) -> bool:
        """Return whether no partition of *store* has a row.

        Raises:
            StoreNotFoundError: There is no such store.
            StoreCorruptedError, StorageError: It cannot be read.
        """
        for place in self._partitions_of(store).values():
            for path in place.databases:
                with KafkaDatabase(path) as database:
                    for family in set(database.families) - {OFFSETS_FAMILY}:
                        if next(database.rows(family), None) is not None:
                            return False
        return True

    def close(self) -> None:
        """Let the application start again. Idempotent."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        self._is_open = False

    def _batches(
        self, place: StorePartition, kind: KafkaKind
    ) -> Generator[pa.RecordBatch, None, None]:
        schema = ROW_SCHEMAS[kind]
        for path in place.databases:
            with KafkaDatabase(path) as database:
                check_families(database, path)
                rows = (
                    versions_of(database, path)
                    if kind is KafkaKind.VERSIONED
                    else decoded_rows(database, path, kind)
                )
                yield from as_batches(rows, schema)

    def _partitions_of(self, store: str) -> dict[int, StorePartition]:
        if not self._is_open:
            raise StoreClosedError(f"the state directory {str(self.path)!r} is closed")
        try:
            return self._partitions[store]
        except KeyError:
            known = ", ".join(self._partitions) or "none"
            raise StoreNotFoundError(
                f"there is no store {store!r} in {str(self.path)!r}; there are: {known}"
            ) from None

    def _partition(self, store: str, partition: int) -> StorePartition:
        partitions = self._partitions_of(store)
        try:
            return partitions[partition]
        except KeyError:
            known = ", ".join(map(str, partitions))
            raise StoreNotFoundError(
                f"there is no partition {partition!r} of the store {store!r} in "
                f"{str(self.path)!r}; there are: {known}"
            ) from None
