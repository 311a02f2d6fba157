"""Changelogs as the command `changelog` reads them: of partitions, on their own, or in a bucket."""

import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from statestores.begun_partitions import refuse_gone
from statestores.changelog import ChangelogReader
from statestores.cli.locations import choose_store
from statestores.cli.object_roots import ObjectPartition
from statestores.errors import InvalidArgumentError, StoreNotFoundError
from statestores.reading.change_feed import described
from statestores.reading.locations import (
    ChangelogDirectory,
    Location,
    Partition,
    Root,
    SnapshotDirectory,
)
from statestores.reading.partition_reader import PartitionReader
from statestores.reading.records import rows_of
from statestores.spi.specification import StoreSpecification
from statestores.stopping import StopRequest

Change: TypeAlias = tuple[Any, ...]
"""Offset, partition, operation, key, value, and the numbers of the kind."""

_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSource:
    """One changelog."""

    kind: str
    """Of the store; it says which columns there are."""

    specification: StoreSpecification[Any, Any] | None
    """What the store is, where anything says so."""

    changes: Callable[[int | None, int | None], Iterator[pa.RecordBatch]]
    """Gives the changes from one offset up to another one, as bytes."""

    end_offset: Callable[[], int]
    """Tells where it ends now."""

    offset_at: Callable[[int], int] | None = None
    """Gives the first offset that was appended at a time or later, where that is kept."""

    def begin(self, since_ms: int) -> int:
        """Return the first offset that was appended at *since_ms* or later.

        Raises:
            InvalidArgumentError: Nobody tells here.
        """
        if self.offset_at is None:
            raise InvalidArgumentError(
                "--since and --until are for partitions of a state root in a directory; give "
                "offsets"
            )
        return self.offset_at(since_ms)


def read_changes(
    source: ChangeSource, first: int | None, stop: int | None, key: bytes | None
) -> Iterator[Change]:
    """Yield the changes of *source* from *first* up to *stop*, of one *key* or of all.

    A clear is one of every key.
    """
    return rows_of(_of_key(source.changes(first, stop), key))


def last_changes(
    source: ChangeSource, first: int | None, stop: int | None, key: bytes | None, count: int
) -> Iterator[Change]:
    """Yield the last *count* changes of what `read_changes` gives; no more are in memory."""
    yield from deque(read_changes(source, first, stop, key), maxlen=count)


def follow_changes(
    sources: list[ChangeSource], starts: list[int], key: bytes | None, stop: StopRequest
) -> Iterator[Change]:
    """Yield the changes of *sources* from *starts* on as they come, until *stop* is made."""
    nexts = list(starts)
    while True:
        for index, source in enumerate(sources):
            end = source.end_offset()
            if end > nexts[index]:
                yield from read_changes(source, nexts[index], end, key)
                nexts[index] = end
        sys.stdout.flush()  # what was given is printed by now, and somebody may wait for it
        if stop.wait(_LOOK_SECONDS):
            return


def sources_at(location: Location, store: str | None, partition: int | None) -> list[ChangeSource]:
    """Return the changelogs at *location*.

    Raises:
        StoreNotFoundError: There are none.
        InvalidArgumentError: It is a snapshot, or has no such partition.
    """
    match location:
        case Root():
            name = choose_store(location, store)
            partitions = location.partitions(name)
            if partition is not None:
                location.root.partition(name, partition)  # refuses a number that does not exist
                partitions = [partitions[partition]]
            return [_source_of(each) for each in partitions]
        case Partition():
            return [_source_of(location)]
        case ChangelogDirectory():
            if location.partition is not None:
                return [_source_of(location.partition)]
            return [_by_itself(location.path)]
        case SnapshotDirectory():
            raise InvalidArgumentError(
                f"{str(location.path)!r} is a snapshot, which has rows and no changes; use scan"
            )


def object_source(partition: ObjectPartition) -> ChangeSource:
    """Return the changelog of a *partition* in an object store."""
    return ChangeSource(
        kind=partition.specification.kind,
        specification=partition.specification,
        changes=partition.changes,
        end_offset=lambda: int(partition.facts()["end_offset"]),
    )


def _source_of(partition: Partition) -> ChangeSource:
    """Return the changelog of *partition*."""
    if partition.specification is None:
        return _by_itself(partition.directory.changelog)
    if partition.has_engine and not partition.has_changelog:
        refuse_gone(partition.directory)
        raise StoreNotFoundError(
            f"{str(partition.path)!r} has an engine and no changelog; use scan"
        )
    specification = partition.specification
    reader = PartitionReader(partition.directory, specification)
    return ChangeSource(
        kind=specification.kind,
        specification=specification,
        changes=partial(reader.changes, typed=False),
        end_offset=lambda: reader.end_offset,
        offset_at=reader.offset_at,
    )


def _by_itself(path: Path) -> ChangeSource:
    """Return a changelog with nothing to say what its bytes mean."""
    with ChangelogReader.open(path) as log:
        kind = log.store_kind
    return ChangeSource(
        kind=kind,
        specification=None,
        changes=partial(_changes_in, path),
        end_offset=partial(_end_of, path),
    )


def _changes_in(
    path: Path, from_offset: int | None, to_offset: int | None
) -> Iterator[pa.RecordBatch]:
    """Yield the changes of the changelog in *path*."""
    with ChangelogReader.open(path) as log:
        for frame in log.read(from_offset, to_offset):
            yield described(frame, log.store_kind, None)


def _end_of(path: Path) -> int:
    with ChangelogReader.open(path) as log:
        return log.end_offset


def _of_key(batches: Iterator[pa.RecordBatch], key: bytes | None) -> Iterator[pa.RecordBatch]:
    """Yield of *batches* what concerns *key*."""
    for batch in batches:
        if key is None:
            yield batch
            continue
        keys = batch.column("key")
        yield batch.filter(
            pc.or_kleene(pc.is_null(keys), pc.equal(keys, pa.scalar(key, keys.type)))
        )
