"""A partition of another program's store, written into a state root whole or not at all.

Partitions keep their numbers, and rows go through the changelog of each, so that every reader of a
state root sees them. A partition is written aside and renamed when it is complete: it is there
whole or not at all, whenever the import dies.
"""

import os
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from statestores.arrow.columns import put_encoded
from statestores.arrow.file_access import reporting
from statestores.arrow.progress import Meter
from statestores.arrow.restore_mark import has_rows
from statestores.arrow.row_batches import BATCH_BYTES
from statestores.arrow.snapshots.directory import list_snapshots
from statestores.arrow.store_of_bytes import store_of_bytes
from statestores.changelog import FileChangelog
from statestores.errors import (
    InvalidArgumentError,
    StateStoreError,
    StorageError,
    StoreMismatchError,
)
from statestores.files.directory_lock import DirectoryLock
from statestores.files.local_path import local_path
from statestores.logged_store import open_logged_store
from statestores.migration.row_batches import chosen, in_large_columns
from statestores.migration.target_root import importing_root
from statestores.opening import backend_of, open_store
from statestores.reading.unfinished_imports import (
    ASIDE,
    bringing,
    forget_aside,
    imported,
    note_imported,
)
from statestores.reading.visible_changelog import VisibleChangelog, consistently
from statestores.root_document import IMPORT_DIRECTORY
from statestores.spi.kinds import Kind
from statestores.spi.offsets import TopicPartition
from statestores.spi.specification import StoreSpecification
from statestores.state_root import StateRoot

PUT_ROWS = 16_384
"""Rows between two commits."""

_EMPTY = "empty"
"""The name there of a partition that was there, with nothing in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedPartition:
    """What has become of one partition."""

    store: str
    """The store's name."""

    partition: int
    """The partition's number."""

    rows: int
    """Rows read."""

    refused: int
    """Rows that the store did not take, since its retention has passed them."""

    is_closed_cleanly: bool | None
    """Whether Kafka Streams closed it; ``None`` where nothing says so. What a killed application
    left can hold changes of a transaction that was aborted: exactly-once would not keep it."""

    is_new: bool
    """``False`` when the partition was there already, and was left as it is."""

    @classmethod
    def come(
        cls,
        store: str,
        partition: int,
        rows: int,
        *,
        refused: int = 0,
        is_closed_cleanly: bool | None = None,
    ) -> Self:
        """Return that *partition* of *store* has come, with so many *rows* read."""
        return cls(
            store=store,
            partition=partition,
            rows=rows,
            refused=refused,
            is_closed_cleanly=is_closed_cleanly,
            is_new=True,
        )

    @classmethod
    def left(cls, store: str, partition: int) -> Self:
        """Return that *partition* of *store* was there already."""
        return cls(
            store=store,
            partition=partition,
            rows=0,
            refused=0,
            is_closed_cleanly=None,
            is_new=False,
        )


@contextmanager
def root_outside(source: Path, root: str | PathLike[str]) -> Iterator[StateRoot]:
    """Give the state root at *root*, made if need be, which is not in what is imported (MIG-15).

    What lies in the directory of another program is that program's, which may remove it. Where the
    block raises, the root is as it was (MIG-22).

    Raises:
        InvalidArgumentError: It would be inside of *source*, which is only read.
        StorageError: It cannot be made.
    """
    origin, place = (Path(os.path.realpath(local_path(each))) for each in (source, root))
    if place.is_relative_to(origin) and origin.is_dir():
        raise InvalidArgumentError(
            f"the state root {str(root)!r} would be in {str(source)!r}, which is imported and only "
            "read; give a directory outside of it"
        )
    with importing_root(root) as target:
        yield target


@contextmanager
def importing_into(target: StateRoot) -> Iterator[None]:
    """Hold the lock of what is written aside in *target*; what is left aside goes in the end.

    Raises:
        StoreLockedError: Another import into it is running.
    """
    lock = DirectoryLock.acquire(target.path / IMPORT_DIRECTORY)
    try:
        yield
    except BaseException:
        with suppress(StateStoreError):  # the next import removes it as well
            _remove_aside(target)
        raise
    finally:
        lock.release()


@contextmanager
def checked_first(
    target: StateRoot,
    places: Mapping[tuple[str, int], Callable[[], Iterable[pa.RecordBatch]]],
) -> Iterator[None]:
    """Have what is to come to *places* checked before any of it does, and noted until all has.

    Each gives the rows of its partition, checked. With a single one they are so when it is written.

    Requires: `importing_into`.

    Raises:
        InvalidArgumentError, SerializationError: Something is wrong with a row (MIG-20, MIG-22).
        StateStoreError: Rows cannot be read, or it cannot be noted.
    """
    for rows in places.values() if len(places) > 1 else ():
        deque(rows(), maxlen=0)
    with bringing(target.path, places):
        yield


def partitions_there(
    target: StateRoot, places: Sequence[tuple[str, int]], *, skip_existing: bool
) -> frozenset[tuple[str, int]]:
    """Return those of *places*, stores and partitions, that are in *target* already.

    One that was opened, or locked, and never committed to is not: who looked at a store that an
    import has left half there, or began to reshard it, has made the others, and they are empty.
    One with something that no import has brought there is not either, and nothing can take its
    place: a reshard has made it out of whatever had been imported elsewhere, or a program has begun
    with it.

    Raises:
        StoreMismatchError: There are some, and they must not be skipped, or no import has brought
            them; or some are not, and their store has been resharded since others were imported.
        StoreLockedError: Somebody has one open that has nothing yet.
        StoreCorruptedError, StorageError: It cannot be told.
    """
    existing = []
    for store in {store: None for store, _ in places}:
        numbers = [number for name, number in places if name == store]
        come = imported(target.path).get(store, set()) if store in target.stores else set()
        if come and target.store(store).generation:
            existing += [(store, number) for number in numbers]
            _refuse_missing(target, store, set(numbers) - come)
            continue
        taken = [number for number in numbers if _is_taken(target, store, number)]
        existing += [(store, number) for number in taken]
        if skip_existing:
            _refuse_of_others(target, store, set(taken) - come)
    if existing and not skip_existing:
        raise _taken(target, *existing[0])
    return frozenset(existing)


def _refuse_missing(target: StateRoot, store: str, missing: AbstractSet[int]) -> None:
    """Accept a store that was resharded when everything that is asked for had been imported.

    Raises:
        StoreMismatchError: Some of it was *missing*, and the partitions are others now.
    """
    if missing:
        raise StoreMismatchError(
            f"partition {min(missing)} of the store {store!r} had not been imported when the store "
            f"in {str(target.path)!r} was resharded, and cannot be added to partitions that are "
            "others now; import all of it into another state root, and reshard then"
        )


def _refuse_of_others(target: StateRoot, store: str, numbers: AbstractSet[int]) -> None:
    """Accept partitions with something in them, all of which imports have brought.

    Raises:
        StoreMismatchError: What is in *numbers* is from elsewhere.
    """
    if numbers:
        raise StoreMismatchError(
            f"partition {min(numbers)} of the store {store!r} in {str(target.path)!r} has "
            "something that no import has brought there, so whether what is imported is in it "
            "cannot be told: a reshard into this state root or another program has made it; import "
            "into another state root, and reshard that one when its import has ended"
        )


def _is_taken(target: StateRoot, store: str, number: int) -> bool:
    """Return whether *target* has something in a partition, in what counts of the store."""
    if store not in target.stores:  # files of nobody, which would be in the way
        return (target.path / store / str(number)).exists()
    if number >= target.store(store).partitions:
        return False
    place = target.partition(store, number)
    if not place.path.exists():
        return False
    if list_snapshots(place.snapshots):
        return True
    specification = target.store(store).specification
    if FileChangelog.exists(place.changelog):
        log = VisibleChangelog(place, specification)  # also of one that is still to be imported
        end = consistently(log.store_directory, log.end_with)
        if end.offset or end.position:
            return True
    if backend_of(place.path) is None:
        return False
    with open_store(place.path, specification) as opened:
        return has_rows(opened) or bool(opened.committed_offsets())


def _make_room(target: StateRoot, store: str, number: int) -> None:
    """Set a partition aside that is there and has nothing.

    Requires: `importing_into`.

    Raises:
        StoreMismatchError: It has something since it was looked at.
        StoreLockedError: Somebody has it open.
    """
    place = target.partition(store, number)
    if not place.path.exists():
        return
    lock = DirectoryLock.acquire(place.changelog)
    try:
        if _is_taken(target, store, number):
            raise _taken(target, store, number)
        with reporting("move aside", place.path):
            place.path.rename(target.path / IMPORT_DIRECTORY / _EMPTY)
    finally:
        lock.release()
    _remove(target.path / IMPORT_DIRECTORY / _EMPTY)


def _taken(target: StateRoot, store: str, number: int) -> StoreMismatchError:
    return StoreMismatchError(
        f"partition {number} of the store {store!r} is in {str(target.path)!r} already; import "
        "into another state root, or skip what is there"
    )


def in_order(
    kind: Kind, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.Table]:
    """Yield the rows of *batches* in the order in which they go into a store of *kind*.

    Rows with a time are sorted by it, with all of them in memory: so none of them makes another one
    late, and the store's retention then decides which can still be seen. Others stay as they come.
    """
    if not kind.order:
        yield from map(pa.Table.from_batches, ([batch] for batch in batches))
        return
    time, *numbers = [each.row_name for each in kind.order]
    columns = [time, "key", *numbers]
    rows = in_large_columns(batches, schema)
    order = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in columns])
    step = max(1, min(PUT_ROWS, BATCH_BYTES * rows.num_rows // max(rows.nbytes, 1)))
    for start in range(0, rows.num_rows, step):
        yield from chosen(rows, order.slice(start, step), schema)


def write_partition(
    target: StateRoot,
    specification: StoreSpecification[Any, Any],
    partitions: int,
    partition: int,
    tables: Iterable[pa.Table],
    offsets: Mapping[TopicPartition, int],
    *,
    backend: str | None,
    options: Mapping[str, object] | None,
    meter: Meter,
    is_closed_cleanly: bool | None = None,
) -> ImportedPartition:
    """Write a partition aside, and give it its place; return what has become of it.

    Requires: `importing_into`.

    Raises:
        StoreMismatchError, StoreLockedError: Somebody has opened the partition meanwhile.
        StorageError: Something cannot be written; there is no such partition then.
    """
    aside = target.path / IMPORT_DIRECTORY / ASIDE
    _remove_aside(target)  # left by a process that died
    staged = StateRoot.create(aside)
    staged.add_store(specification, partitions=partitions)
    name = specification.name
    rows = accepted = 0
    with open_logged_store(staged, name, partition, backend=backend, options=options) as logged:
        below = store_of_bytes(logged.store)
        for table in tables:
            rows += table.num_rows
            accepted += put_encoded(below, table)
            logged.commit()
            meter.add(table.num_rows, table.nbytes)
        logged.commit(offsets)
        logged.snapshot()
    target.add_store(specification, partitions=partitions)
    _make_room(target, name, partition)
    note_imported(target.path, name, partition)
    place = target.partition(name, partition).path
    try:
        place.parent.mkdir(exist_ok=True)
        staged.partition(name, partition).path.rename(place)
    except OSError as error:
        raise StorageError(
            f"cannot move the imported partition to {str(place)!r}: {error.strerror or error}"
        ) from error
    _remove(aside)
    return ImportedPartition.come(
        name, partition, rows, refused=rows - accepted, is_closed_cleanly=is_closed_cleanly
    )


def _remove_aside(target: StateRoot) -> None:
    """Remove what lies aside in *target*, of this import or of one that died.

    Requires: `importing_into`.
    """
    forget_aside(target.path)
    for left in (ASIDE, _EMPTY):
        _remove(target.path / IMPORT_DIRECTORY / left)


def _remove(directory: Path) -> None:
    try:
        if directory.exists():
            shutil.rmtree(directory)
    except OSError as error:
        raise StorageError(
            f"cannot remove {str(directory)!r}: {error.strerror or error}; check the rights"
        ) from error
