"""A store's committed content as an immutable, checksummed directory of Arrow files (SNP-1)."""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from os import PathLike
from pathlib import Path
from typing import Any

from statestores.arrow.file_access import reporting, write_durably
from statestores.arrow.progress import Meter, ProgressCallback
from statestores.arrow.restore_mark import check_not_half_restored
from statestores.arrow.row_batches import BATCH_ROWS, BatchParts
from statestores.arrow.snapshots.committed_parts import committed_parts
from statestores.arrow.snapshots.data_files import BYTES_PER_FILE, ROWS_PER_FILE, write_files
from statestores.arrow.snapshots.directory import (
    publish,
    remove_stale_temporaries,
    retire,
    snapshot_name,
    temporary_directory,
)
from statestores.arrow.snapshots.files import LocalFiles, path_of
from statestores.arrow.snapshots.manifest import (
    MANIFEST_NAME,
    FileEntry,
    Manifest,
    render_manifest,
    version_of,
)
from statestores.arrow.snapshots.reader import Snapshot, read_snapshot
from statestores.arrow.snapshots.same_content import hold_the_same
from statestores.errors import (
    InvalidArgumentError,
    SnapshotCorruptedError,
    StoreMismatchError,
)
from statestores.failpoints import reach
from statestores.files.local_path import local_path
from statestores.spi.offsets import Position, TopicPartition
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.store import StateStore


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotInfo:
    """What `write_snapshot` has written, or found."""

    place: Path | str
    """The snapshot's directory, or its URL in an object store."""

    partition: TopicPartition
    """The changelog partition at whose offset it stands."""

    offset: int
    """The committed offset of that partition."""

    rows: int
    """How many rows it holds."""

    bytes: int
    """The size of its data files."""

    written: bool
    """``False`` when the same snapshot had been there already."""

    native_bytes: int | None = None
    """The size of its native part; ``None`` when none was asked for."""

    @property
    def path(self) -> Path:
        """The snapshot's directory.

        Raises:
            CapabilityNotSupportedError: It is in an object store.
        """
        return path_of(self.place)


def write_snapshot(
    store: StateStore,
    directory: str | PathLike[str],
    *,
    partition: TopicPartition | None = None,
    batch_rows: int = BATCH_ROWS,
    rows_per_file: int = ROWS_PER_FILE,
    bytes_per_file: int = BYTES_PER_FILE,
    progress: ProgressCallback | None = None,
) -> SnapshotInfo:
    """Write the committed content of *store* as ``directory/<offset>/`` (SNP-1).

    Rows, offsets, position and stream time are those of one commit, even while the owner goes on:
    any thread may call it. The snapshot appears whole or not at all. *partition* is the changelog
    partition at whose offset it stands, and need not be given when the store has committed an
    offset of one partition only. A record batch has up to *batch_rows* rows, and a file ends with
    the batch that reaches *rows_per_file* or *bytes_per_file*.

    A snapshot that is there already is left alone when it holds the same; when it is damaged it
    is replaced. What dead writers have left in *directory* is removed.

    Raises:
        InvalidArgumentError: The store has no committed offset for the partition, or a size is
            below 1.
        StoreMismatchError: Other content was written at the same offset, or the store is half
            restored.
        StoreClosedError: The store is closed.
        StorageError: The disk is full, read-only, or failed. Nothing appears.
    """
    sizes = {
        "batch_rows": batch_rows,
        "rows_per_file": rows_per_file,
        "bytes_per_file": bytes_per_file,
    }
    for name, size in sizes.items():
        if size < 1:
            raise InvalidArgumentError(f"{name} must be from 1, got {size!r}")
    parent = local_path(directory, "directory")
    with committed_content(store, partition, batch_rows) as content:
        return write_content(
            parent,
            content,
            meter=Meter(progress),
            rows_per_file=rows_per_file,
            bytes_per_file=bytes_per_file,
        )


@contextmanager
def committed_content(
    store: StateStore, partition: TopicPartition | None = None, batch_rows: int = BATCH_ROWS
) -> Iterator["SnapshotContent"]:
    """Give the committed content of *store*, frozen now, as `write_snapshot` writes it.

    Raises:
        InvalidArgumentError, StoreMismatchError, StoreClosedError: As `write_snapshot`.
    """
    content = committed_parts(store, batch_rows)
    with closing(content.source):
        first = list(islice(content.parts, 1))  # closing reaches the engine's snapshot from now on
        check_not_half_restored(store.specification, content.offsets)
        yield SnapshotContent(
            specification=store.specification,
            partition=_choose(partition, content.offsets, store.name),
            offsets=content.offsets,
            position=content.position,
            stream_time_ms=content.stream_time_ms,
            parts=chain(first, content.parts),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotContent:
    """What a snapshot is written of, wherever it comes from."""

    specification: StoreSpecification[Any, Any]
    """What the store is."""

    partition: TopicPartition
    """The changelog partition at whose offset it stands."""

    offsets: Mapping[TopicPartition, int]
    """The committed offsets, that of `partition` among them."""

    position: Position
    """The input offsets that the rows reflect."""

    stream_time_ms: int | None
    """The highest timestamp that the rows reflect, if the kind has a stream time."""

    parts: Iterator[BatchParts]
    """The rows, in order."""

    def manifest(self, files: Iterable[FileEntry]) -> Manifest:
        """Return what a snapshot of this is, whose data are *files*."""
        return Manifest(
            specification=self.specification.describe(),
            partition=self.partition,
            offsets=self.offsets,
            position=self.position,
            stream_time_ms=self.stream_time_ms,
            files=tuple(files),
            created_at_ms=time.time_ns() // 1_000_000,
            library_version=version_of("statestores"),
        )


def write_content(
    parent: Path,
    content: SnapshotContent,
    *,
    meter: Meter,
    rows_per_file: int = ROWS_PER_FILE,
    bytes_per_file: int = BYTES_PER_FILE,
) -> SnapshotInfo:
    """Write *content* as a snapshot in the directory *parent*, as `write_snapshot` does.

    Raises:
        StoreMismatchError, StorageError: As `write_snapshot`.
    """
    with reporting("write a snapshot into", parent):
        remove_stale_temporaries(parent)
        with temporary_directory(parent) as temporary:
            manifest = content.manifest(
                write_files(
                    temporary,
                    content.specification.kind,
                    content.parts,
                    rows_per_file,
                    bytes_per_file,
                    meter,
                )
            )
            write_durably(temporary / MANIFEST_NAME, render_manifest(manifest))
            reach("snapshot.manifest-written")
            present = _place(temporary, manifest, parent)
    standing = manifest if present is None else present.manifest
    return SnapshotInfo(
        place=parent / snapshot_name(standing.offset),
        partition=content.partition,
        offset=standing.offset,
        rows=standing.rows,
        bytes=standing.bytes,
        written=present is None,
    )


def _choose(
    partition: TopicPartition | None, offsets: Mapping[TopicPartition, int], name: str
) -> TopicPartition:
    """Return the partition at whose offset the snapshot stands.

    Raises:
        InvalidArgumentError: There is no offset for it, or more than one partition to choose from.
    """
    known = ", ".join(f"{topic}-{number}" for topic, number in sorted(offsets)) or "none"
    if partition is None:
        if len(offsets) != 1:
            raise InvalidArgumentError(
                f"the store {name!r} has committed offsets of: {known}; a snapshot stands at one "
                "of them: commit one, or name the partition"
            )
        (partition,) = offsets
    if partition not in offsets:
        raise InvalidArgumentError(
            f"the store {name!r} has committed no offset of {partition!r}; known: {known}; "
            "commit one before you write a snapshot"
        )
    return partition


def _place(temporary: Path, manifest: Manifest, parent: Path) -> Snapshot | None:
    """Give the snapshot in *temporary* its name, or return the same one that stands there.

    Raises:
        StoreMismatchError: There is a snapshot at its offset, and it holds something else.
    """
    snapshot = Snapshot(LocalFiles(temporary), manifest)
    target = parent / snapshot_name(manifest.offset)
    while not publish(temporary, target):
        try:
            present = read_snapshot(target)
            present.verify()
        except SnapshotCorruptedError:
            retire(target)  # nobody can read it, and this is what it should have been
        else:
            if not hold_the_same(present, snapshot):
                raise StoreMismatchError(
                    f"{str(target)!r} holds other content at the same offset: the store has "
                    "changed without a new offset; commit one, or remove that snapshot"
                )
            return present
    return None
