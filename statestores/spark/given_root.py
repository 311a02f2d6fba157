"""A state root as a user of Spark names it: a directory that all machines see, or a URL.

It is sent to tasks, so it holds no connection. What it opens of an object store is kept by each
process, since a connection is dear and there are many calls.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from statestores.errors import InvalidOptionError, StoreNotFoundError
from statestores.generations import current_home, resharded
from statestores.root_document import StoreEntry
from statestores.spark.sent_storage import SentStorage, storage_at
from statestores.spark.state_path import require_local_path, staged_store
from statestores.spi.specification import StoreSpecification
from statestores.state_root import PartitionDirectory, StateRoot, is_state_root
from statestores.storage import ObjectStorage, is_storage_url
from statestores.stores_in_objects import read_stores

if TYPE_CHECKING:
    from statestores.object_log import ObjectLog
    from statestores.object_log.view import View
    from statestores.reading.partition_places import PartitionPlace

_MEMORY = "memory:"


@dataclass(frozen=True)
class GivenRoot:
    """Where a state root is, and how it is reached."""

    place: Path | str
    """The directory, absolute; or the URL in an object store."""

    storage: str | None = field(default=None, repr=False)
    """How the object store is reached, as JSON; ``None`` when the environment says it."""

    @classmethod
    def of(cls, path: str, storage: Mapping[str, object] | None = None) -> Self:
        """Return the root at *path*; *storage* says how the object store of a URL is reached.

        Raises:
            InvalidOptionError: The path is of another file system, or of the memory of one
                process; or there are options for an object store, and it is none.
        """
        if not is_storage_url(path):
            local = require_local_path(path)
            if storage is not None:
                raise InvalidOptionError(
                    "the options 'storageOptions' and 'storageSecrets' are for the URL of an "
                    f"object store, and {path!r} is a directory; leave them out"
                )
            return cls(local)
        if path.lower().startswith(_MEMORY):
            raise InvalidOptionError(
                "a state root at memory:// is in the memory of one process, and Spark has "
                "several; give the URL of an object store, or a directory"
            )
        try:
            text = None if storage is None else json.dumps(storage, sort_keys=True)
        except TypeError:
            raise InvalidOptionError(
                "the options of an object store are sent to Spark's tasks as JSON, and these hold "
                "something else; give durations as text, such as '20s'"
            ) from None
        return cls(storage_at(path, text).url, text)

    @property
    def shown(self) -> str:
        """The root as messages show it."""
        return str(self.place)

    @property
    def directory(self) -> Path | None:
        """The directory; ``None`` where the root is in an object store."""
        return self.place if isinstance(self.place, Path) else None

    def require_directory(self) -> Path:
        """Return the directory.

        Raises:
            InvalidOptionError: The root is in an object store.
        """
        return require_local_path(str(self.place))

    @property
    def objects(self) -> ObjectStorage:
        """The object store.

        Requires: the root is in one.
        """
        return storage_at(str(self.place), self.storage)

    def open(self) -> StateRoot:
        """Open the root.

        Raises:
            StateStoreError: As `StateRoot.open`.
        """
        return StateRoot.open(self.place, storage_options=self._options())

    def open_to_send(self) -> StateRoot:
        """Open the root so that what it knows of an object store can be sent to tasks.

        Raises:
            StateStoreError: As `StateRoot.open`.
        """
        if isinstance(self.place, Path):
            return self.open()
        storage = SentStorage(str(self.place), self.storage)
        return StateRoot(storage, read_stores(storage))

    def place_to_send(self) -> Path | SentStorage:
        """Return the directory, or the object store so that it can be sent to tasks."""
        return self.place if isinstance(self.place, Path) else SentStorage(self.place, self.storage)

    def create(self) -> StateRoot:
        """Open the root, made if there is none.

        Raises:
            StateStoreError: As `StateRoot.create`.
        """
        return StateRoot.create(self.place, storage_options=self._options())

    def find(self) -> StateRoot | None:
        """Open the root; ``None`` if there is none.

        Raises:
            StateStoreError: It cannot be looked at, or read.
        """
        if isinstance(self.place, Path):
            return StateRoot.open(self.place) if is_state_root(self.place) else None
        try:
            return self.open()
        except StoreNotFoundError:
            return None

    def home(self, store: str, partitions: int) -> Path | None:
        """Return the directory of the partitions that *store* has now; ``None`` for a URL.

        Whoever plans a read takes it once, and reads there alone: the partitions are replaced by a
        reshard, and some of the old and some of the new ones are no content of the store (RSH-7).

        Raises:
            StoreReshardedError: The store has another number of *partitions* by now.
            StateStoreError: The root cannot be read.
        """
        return current_home(self.place, store, partitions) if isinstance(self.place, Path) else None

    def partition(
        self,
        specification: StoreSpecification[Any, Any],
        partitions: int,
        number: int,
        seen: "View | None" = None,
        *,
        pinned: bool = False,
        home: Path | None = None,
    ) -> "PartitionPlace":
        """Return where partition *number* of a store is read, without looking at it.

        Of an object store *seen* is what is known; *pinned* says to read no further than that. Of a
        directory *home* is where to read, if not where the store has its partitions now.

        Raises:
            StoreReshardedError: The store has another number of *partitions* by now.
            StateStoreError: *seen* is not given, and the root cannot be read.
        """
        from statestores.reading.partition_places import ObjectPartition  # noqa: PLC0415  # needs pyarrow

        if isinstance(self.place, Path):
            place = home or current_home(self.place, specification.name, partitions)
            return PartitionDirectory(place / str(number))
        log = self.object_log(specification, partitions, seen)
        return ObjectPartition(log, number, seen, pinned=pinned)

    def object_log(
        self,
        specification: StoreSpecification[Any, Any],
        partitions: int,
        seen: "View | None" = None,
    ) -> "ObjectLog":
        """Return the log of a store in an object store, without looking at it.

        It is the one of which *seen* is known, or the one that the root names, if it names any.

        Requires: the root is in an object store.

        Raises:
            StoreReshardedError: The store has another number of partitions by now.
            StateStoreError: *seen* is not given, and the root cannot be read.
        """
        from statestores.object_log import ObjectLog  # noqa: PLC0415  # needs pyarrow

        return ObjectLog(
            storage=self.objects,
            store=specification.name,
            store_kind=specification.kind,
            partitions=partitions,
            generation=self._generation(specification.name, partitions)
            if seen is None
            else seen.checkpoint.generation,
        )

    def _generation(self, store: str, partitions: int) -> str:
        """Return which generation of its log *store* has now."""
        root = self.find()
        entry = None if root is None else root.stores.get(store)
        if entry is None:
            return ""
        if entry.partitions != partitions and entry.log_generation:
            raise resharded(store, self.shown)
        return entry.log_generation

    def _options(self) -> dict[str, object] | None:
        options: dict[str, object] | None = (
            None if self.storage is None else json.loads(self.storage)
        )
        return options


def store_at(root: GivenRoot, name: str | None) -> StoreEntry:
    """Return the store *name* of *root*, or, without a name, the only one.

    Raises:
        StoreNotFoundError: There is none; the message says if its first write is under way.
        InvalidArgumentError: No name is given, and there are several.
        StoreCorruptedError, UnsupportedFormatError, StorageError: It cannot be read.
    """
    try:
        return root.open().store(name)
    except StoreNotFoundError as error:
        staged = None if root.directory is None else staged_store(root.directory, name)
        if staged is None:
            raise
        raise StoreNotFoundError(
            f"{error}; a first write to {staged!r} has begun there and is not committed, so nobody "
            "knows its columns: load it when that write has ended"
        ) from error
