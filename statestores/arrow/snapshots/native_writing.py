"""A snapshot with a native part: the engine copies its files, and the columns are read from those.

So both are of one commit, whatever the owner commits meanwhile, and a native part has been opened
and read before it is there. The columns come first, under the snapshot's name: of a writer that
dies, there is nothing, or a snapshot, or a snapshot with its native part (SNP-27).
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Literal, TypeAlias

import google_crc32c

from statestores.arrow.file_access import checksum_of, reporting, write_durably
from statestores.arrow.progress import Meter, ProgressCallback
from statestores.arrow.snapshots.directory import (
    native_path,
    publish,
    remove_stale_temporaries,
    retire_native,
    temporary_directory,
)
from statestores.arrow.snapshots.manifest import MANIFEST_NAME, version_of
from statestores.arrow.snapshots.native_manifest import (
    NATIVE_MANIFEST_NAME,
    NativeFile,
    NativeManifest,
    render_native_manifest,
)
from statestores.arrow.snapshots.native_part import ENGINE_FILES, NativePart, read_native
from statestores.arrow.snapshots.snapshot import SnapshotInfo, committed_content, write_content
from statestores.errors import (
    CapabilityNotSupportedError,
    InvalidArgumentError,
    SnapshotCorruptedError,
    UnsupportedFormatError,
)
from statestores.failpoints import reach
from statestores.files.directory_lock import LOCK_FILE
from statestores.files.durable_directory import make_durable
from statestores.files.local_path import local_path
from statestores.semantics import open_on_engine
from statestores.semantics.opening import AnyEngineStore
from statestores.spi.durability import Durability
from statestores.spi.offsets import TopicPartition

SnapshotFormat: TypeAlias = Literal["arrow", "native"]
"""What a snapshot is written in: columns for every engine, or the engine's own files as well."""


def snapshot_format_of(chosen: object) -> SnapshotFormat:
    """Return what was *chosen*, if it is a format of snapshots.

    Raises:
        InvalidArgumentError: It is none.
    """
    if chosen == "arrow":
        return "arrow"
    if chosen == "native":
        return "native"
    raise InvalidArgumentError(f"the format of a snapshot is 'arrow' or 'native', got {chosen!r}")


def write_native_snapshot(
    store: AnyEngineStore,
    directory: str | PathLike[str],
    *,
    partition: TopicPartition | None = None,
    progress: ProgressCallback | None = None,
) -> SnapshotInfo:
    """Write the committed content of *store* as `write_snapshot` does, and a native part (SNP-27).

    A snapshot that is there already and holds the same gets the native part that it lacks.

    Raises:
        CapabilityNotSupportedError: The engine copies no files, or not in a way that another engine
            can open. Nothing is written.
        InvalidArgumentError, StoreMismatchError, StoreClosedError, StorageError: As
            `write_snapshot`.
    """
    driver = _driver_of(store)
    parent = local_path(directory, "directory")
    with reporting("write a snapshot into", parent):
        remove_stale_temporaries(parent)
        with temporary_directory(parent) as temporary:
            files = temporary / ENGINE_FILES
            store.checkpoint(files)
            reach("native.copied")
            with (
                _store_of_copy(store, files) as copy,
                committed_content(copy, partition) as content,
            ):
                info = write_content(parent, content, meter=Meter(progress))
            (files / LOCK_FILE).unlink(missing_ok=True)
            manifest = NativeManifest(
                offset=info.offset,
                snapshot_crc32c=google_crc32c.value((info.path / MANIFEST_NAME).read_bytes()),
                backend=store.engine_class.name,
                driver=driver,
                files=tuple(_durable_files(files)),
                created_at_ms=time.time_ns() // 1_000_000,
                library_version=version_of("statestores"),
            )
            write_durably(temporary / NATIVE_MANIFEST_NAME, render_native_manifest(manifest))
            reach("native.described")
            present = _place(temporary, info.path)
    standing = manifest if present is None else present.manifest
    return replace(info, native_bytes=standing.bytes, written=info.written or present is None)


def _driver_of(store: AnyEngineStore) -> str:
    """Return what writes the files of *store*.

    Raises:
        CapabilityNotSupportedError: They cannot be copied, or belong to this engine alone.
    """
    engine = store.engine_class
    driver = engine.driver()
    if not engine.capabilities.native_checkpoint or driver is None:
        raise CapabilityNotSupportedError(
            f"the {engine.name!r} backend makes no native snapshots: its engine has no native "
            "checkpoint, or does not say which driver opens one; write one of the format 'arrow'"
        )
    return driver


@contextmanager
def _store_of_copy(store: AnyEngineStore, files: Path) -> Iterator[AnyEngineStore]:
    """Open what *store* is on the copy of its engine in *files*, and close it."""
    copy = open_on_engine(
        store.engine_class.open(os.fspath(files)),
        store.specification,
        durability=Durability.PROCESS_CRASH,
        read_cache_bytes=0,
    )
    with copy:
        yield copy


def _durable_files(directory: Path) -> Iterator[NativeFile]:
    """Yield the files of a closed engine in *directory*; each is on disk when it is yielded."""
    for path in sorted(directory.iterdir()):
        if not path.is_file() or path.is_symlink():
            raise CapabilityNotSupportedError(
                f"{str(path)!r} is no regular file, and a native part has nothing else; write a "
                "snapshot of the format 'arrow'"
            )
        make_durable(path)
        yield NativeFile(name=path.name, bytes=path.stat().st_size, crc32c=checksum_of(path))
    make_durable(directory)


def _place(temporary: Path, snapshot: Path) -> NativePart | None:
    """Give the native part in *temporary* its name, or return the whole one that stands there."""
    while not publish(temporary, native_path(snapshot)):
        try:
            present = read_native(snapshot)
            if present is not None:
                present.verify()
                return present
        except (SnapshotCorruptedError, UnsupportedFormatError):
            retire_native(snapshot)  # of an earlier snapshot at this offset, or damaged
    return None
