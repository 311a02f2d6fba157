"""A store as the checkpoint of a streaming query, which Spark reads with nothing of ours installed.

A partition stays a partition, and stretches of its changelog become batches. The checkpoint
appears whole or not at all. `EXPORT_FILE` in it says up to which changelog offset each batch goes,
and what the store is.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final

from statestores.arrow.file_access import reporting
from statestores.arrow.progress import Meter, ProgressCallback
from statestores.arrow.snapshots.directory import (
    list_snapshots,
    publish,
    remove_stale_temporaries,
    temporary_directory,
)
from statestores.changelog import FileChangelog
from statestores.errors import InvalidArgumentError, OffsetOutOfRangeError
from statestores.files.durable_json import write_json
from statestores.files.local_path import local_path
from statestores.migration.spark.batches import PartitionBatches
from statestores.migration.spark.columns import SparkColumns
from statestores.reading.partition_reader import PartitionReader, end_offsets
from statestores.reading.replay import Replay
from statestores.spark_checkpoint import CheckpointDirectory
from statestores.spi.specification import StoreSpecification
from statestores.state_root import PartitionDirectory, StateRoot

EXPORT_FILE: Final = "statestores-export.json"
"""What says of an exported checkpoint where it comes from."""

DEFAULT_BATCHES: Final = 10
"""At most this many batches, unless something else is asked for."""

DEFAULT_SNAPSHOT_EVERY: Final = 10
"""Versions from one snapshot to the next: Spark applies at most this many deltas."""

_FORMAT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkExport:
    """What has been written."""

    path: Path
    """The checkpoint."""

    partitions: int
    """Its partitions, those of the store."""

    batches: int
    """Its batches, from 1."""

    changes: int
    """Changes in them, with the content before the first one and with deletions of what expired."""

    last_offsets: tuple[dict[int, int], ...]
    """For each batch the last changelog offset of each partition; -1 before the first change."""


def export_spark_checkpoint(
    root: StateRoot,
    store: str,
    destination: str | PathLike[str],
    *,
    batches: int | None = None,
    every: int | None = None,
    from_offset: int | None = None,
    snapshot_every: int = DEFAULT_SNAPSHOT_EVERY,
    raw: bool = False,
    progress: ProgressCallback | None = None,
) -> SparkExport:
    """Write *store* as a checkpoint that ``spark.read.format("statestore")`` reads.

    Reads changelogs and snapshots, without the lock of a writer, up to where they end now. The
    changes before *from_offset*, or those that a compaction or deletion has left no longer whole,
    are in batch 0 as content. Memory is that of the changes since the newest snapshot of one
    partition; where rows expire, also that of the keys of a partition.

    Args:
        root: The state root.
        store: The name of the store.
        destination: The directory to make; there must be nothing yet.
        batches: At most this many batches of about equally many changes, from 1; by default
            `DEFAULT_BATCHES`.
        every: Instead, a batch for every so many commits of each partition, from 1.
        from_offset: The first changelog offset whose changes are kept apart, of each partition.
        snapshot_every: How many versions lie between two snapshots, from 1.
        raw: Leave the serdes out: keys and values are bytes, and times milliseconds.
        progress: Is told of the changes that have been written.

    Raises:
        InvalidArgumentError: A number is below its bound, *batches* and *every* are both given,
            there is something at the destination, or a time or row is beyond what Spark holds.
        StoreNotFoundError: There is no such store, or a partition has a live engine only.
        OffsetOutOfRangeError: The changelog no longer has the content at *from_offset*.
        SerializationError: A key or value is not the serde's.
        StoreLockedError: Staged writes follow each other too fast to be seen whole; try again.
        SnapshotCorruptedError, ChangelogCorruptedError, StoreCorruptedError, StorageError: It
            cannot be read, or not be written. Nothing appears.
    """
    _check_numbers(batches, every, from_offset, snapshot_every)
    entry = root.store(store)
    specification = entry.specification
    target = local_path(destination, "destination")
    _check_free(target)
    directories = [root.partition(specification.name, each) for each in range(entry.partitions)]
    ends = end_offsets([PartitionReader(each, specification) for each in directories])
    sources = [
        _Source.open(directory, specification, end, from_offset)
        for directory, end in zip(directories, ends, strict=True)
    ]
    columns = SparkColumns(specification, raw=raw)
    has_base = any(source.base for source in sources)
    total = None if has_base else sum(source.end for source in sources)
    with _published(target) as temporary:
        checkpoint = CheckpointDirectory(temporary, columns.keys, columns.values, entry.partitions)
        writer = _Writer(
            checkpoint, columns, snapshot_every, Meter(progress, total), has_base=has_base
        )
        offsets = [
            writer.write(number, source, specification, _Cut.of(source, batches, every))
            for number, source in enumerate(sources)
        ]
        count = max(1, *map(len, offsets))
        for number, each in enumerate(offsets):
            for batch in range(len(each), count):
                with checkpoint.delta(number, batch):
                    pass  # Spark needs one, and nothing has happened
        last_offsets = tuple(
            {
                number: each[min(batch, len(each) - 1)] if each else -1
                for number, each in enumerate(offsets)
            }
            for batch in range(count)
        )
        _describe(temporary, specification, entry.partitions, last_offsets, raw=raw)
        checkpoint.finish(count, time.time_ns() // 1_000_000)
    return SparkExport(
        path=target,
        partitions=entry.partitions,
        batches=count,
        changes=writer.changes,
        last_offsets=last_offsets,
    )


@dataclass(frozen=True, slots=True)
class _Source:
    """One partition: the content at `base`, and the changes from there to `end`."""

    reader: PartitionReader
    base: int
    end: int
    replay: Replay

    @classmethod
    def open(
        cls,
        directory: PartitionDirectory,
        specification: StoreSpecification[Any, Any],
        end: int,
        from_offset: int | None,
    ) -> "_Source":
        """Find the content with which to begin.

        Raises:
            OffsetOutOfRangeError: There is none up to *from_offset*.
        """
        reader = PartitionReader(directory, specification)
        snapshots = [offset + 1 for offset in list_snapshots(directory.snapshots)]
        complete_from = reader.beginning.complete_from
        if snapshots and not FileChangelog.exists(directory.changelog):
            complete_from = end
        base = min(max(from_offset or 0, complete_from), end)
        later = [] if from_offset else sorted(each for each in snapshots if base < each <= end)
        refused: OffsetOutOfRangeError | None = None
        for candidate in (base, *later):
            try:
                return cls(reader, candidate, end, reader.replay(candidate - 1))
            except OffsetOutOfRangeError as error:
                refused = refused or error
        raise refused or OffsetOutOfRangeError(f"there is no content at offset {base - 1}")


@dataclass(frozen=True, slots=True)
class _Cut:
    """When a batch of a partition is full: at the end of a commit, in any case."""

    changes: int | None
    commits: int | None

    @classmethod
    def of(cls, source: _Source, batches: int | None, every: int | None) -> "_Cut":
        """Return the cut that makes at most *batches*, or one for *every* so many commits."""
        if every is not None:
            return cls(None, every)
        changes = source.end - source.base
        return cls(max(1, -(-changes // (batches or DEFAULT_BATCHES))), None)

    def is_full(self, changes: int, commits: int) -> bool:
        """Return whether that much makes a batch."""
        if self.commits is not None:
            return commits >= self.commits
        return self.changes is not None and changes >= self.changes


class _Writer:
    """Writes the batches of one partition after the other."""

    def __init__(
        self,
        checkpoint: CheckpointDirectory,
        columns: SparkColumns,
        snapshot_every: int,
        meter: Meter,
        *,
        has_base: bool,
    ) -> None:
        self._checkpoint = checkpoint
        self._columns = columns
        self._snapshot_every = snapshot_every
        self._meter = meter
        self._has_base = has_base
        self.changes = 0

    def write(
        self,
        number: int,
        source: _Source,
        specification: StoreSpecification[Any, Any],
        cut: _Cut,
    ) -> list[int]:
        """Write partition *number*; return the last offset of each of its batches."""
        content = PartitionBatches(specification, self._columns, source.replay)
        last_offsets: list[int] = []
        if self._has_base:
            with self._checkpoint.delta(number, 0) as delta:
                content.write_content(delta, begin=True)
            self._end_batch(number, last_offsets, source.base - 1, delta.rows, content)
        frames = source.reader.changes(source.base, source.end, typed=False)
        frame = next(frames, None)
        while frame is not None:
            changes = commits = 0
            with self._checkpoint.delta(number, len(last_offsets)) as delta:
                while frame is not None and not cut.is_full(changes, commits):
                    content.write_changes(delta, frame)
                    changes += frame.num_rows
                    commits += 1
                    last = int(frame.column("offset")[-1].as_py())
                    frame = next(frames, None)
                content.end_batch(delta)
            self._end_batch(number, last_offsets, last, delta.rows, content)
        return last_offsets

    def _end_batch(
        self, number: int, last_offsets: list[int], last: int, rows: int, content: PartitionBatches
    ) -> None:
        """Note a batch, and write a snapshot when it is time for one."""
        batch = len(last_offsets)
        last_offsets.append(last)
        self.changes += rows
        self._meter.add(rows, 0)
        if (batch + 1) % self._snapshot_every == 0:
            with self._checkpoint.snapshot(number, batch) as snapshot:
                content.write_content(snapshot)


def _check_numbers(
    batches: int | None, every: int | None, from_offset: int | None, snapshot_every: int
) -> None:
    if batches is not None and every is not None:
        raise InvalidArgumentError("give batches or every, not both")
    for name, number, least in (
        ("batches", batches, 1),
        ("every", every, 1),
        ("from_offset", from_offset, 0),
        ("snapshot_every", snapshot_every, 1),
    ):
        if number is not None and number < least:
            raise InvalidArgumentError(f"{name} must be from {least}, got {number!r}")


def _check_free(target: Path) -> None:
    """Accept a path at which there is nothing.

    Raises:
        InvalidArgumentError: There is something.
    """
    if os.path.lexists(target):
        raise _taken(target)


def _taken(target: Path) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{str(target)!r} exists, and an export makes a new directory; choose another path"
    )


@contextmanager
def _published(target: Path) -> Iterator[Path]:
    """Give a directory that becomes *target* when the block ends well.

    Raises:
        InvalidArgumentError: Somebody else was faster.
        StorageError: The disk failed.
    """
    with reporting("write", target):
        remove_stale_temporaries(target.parent)
        with temporary_directory(target.parent) as temporary:
            yield temporary
            _check_free(target)
            if not publish(temporary, target):
                raise _taken(target)


def _describe(
    directory: Path,
    specification: StoreSpecification[Any, Any],
    partitions: int,
    last_offsets: tuple[dict[int, int], ...],
    *,
    raw: bool,
) -> None:
    """Write `EXPORT_FILE`."""
    write_json(
        directory / EXPORT_FILE,
        {
            "format": _FORMAT,
            "specification": specification.describe(),
            "partitions": partitions,
            "raw": raw,
            "last_offsets": [
                [each[number] for number in range(partitions)] for each in last_offsets
            ],
        },
    )
