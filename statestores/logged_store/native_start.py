"""A new engine made of the native part of the newest snapshot, so that only a tail is replayed.

It is a way to the same store in less time, and no more: whatever speaks against it leaves the
partition as it was, is logged, and the snapshot's columns are loaded instead (SNP-28). Nothing is
decided here that a restore would refuse. The files are copied beside the engine's place, opened
there, and compared with the snapshot; then the directory is renamed.
"""

import errno
import logging
import os
from collections.abc import Mapping
from contextlib import closing
from os import PathLike
from pathlib import Path
from typing import Any

from statestores.arrow.file_access import reporting
from statestores.arrow.snapshots.directory import (
    list_snapshots,
    native_path,
    remove_stale_temporaries,
    temporary_directory,
)
from statestores.arrow.snapshots.manifest import Manifest
from statestores.arrow.snapshots.native_part import NativePart, read_native
from statestores.arrow.snapshots.reader import Snapshot, read_snapshot
from statestores.begun_partitions import refuse_gone
from statestores.changelog import FileChangelog, changelog_partition
from statestores.engine_creation import ENGINE_DIRECTORY, creating, note_creation
from statestores.errors import (
    ChangelogCorruptedError,
    SnapshotCorruptedError,
    StoreCorruptedError,
    StoreMismatchError,
    StoreNotFoundError,
    UnsupportedFormatError,
)
from statestores.failpoints import reach
from statestores.files.directory_lock import LOCK_FILE
from statestores.files.durable_directory import make_durable
from statestores.files.durable_json import ENGINE_FILE
from statestores.files.local_path import local_path
from statestores.opening import DEFAULT_BACKEND, BytesStore, backend_of, open_bytes_store
from statestores.reading.locations import changelog_of
from statestores.registry import load_backend, load_recorded_backend
from statestores.semantics.every_kind.self_description import differences, read_description
from statestores.semantics.rows.layout import read_offsets, read_position
from statestores.spi.durability import Durability
from statestores.spi.engine import Engine
from statestores.spi.specification import StoreSpecification
from statestores.state_root import PartitionDirectory

_LOG = logging.getLogger(__name__)


def open_restorable(
    directory: str | PathLike[str],
    specification: StoreSpecification[Any, Any],
    source: PartitionDirectory,
    *,
    backend: str | None,
    options: Mapping[str, object] | None,
    durability: Durability,
) -> BytesStore:
    """Open the store in *directory*, for a restore from what *source* has.

    A new engine begins with the native part of the newest snapshot, where there is one that it can
    take.

    Raises:
        StoreMismatchError: There is no engine, and the changelog of *source* is gone.
        StateStoreError: As `statestores.open_store`.
    """
    home = local_path(directory)
    if backend_of(home) is None and not FileChangelog.exists(source.changelog):
        refuse_gone(source)  # before an empty engine is made
    begun = begin_from_native(home, specification, source, backend)
    with reporting("read", source.changelog):
        restorable = source.changelog.is_dir()
    store = open_bytes_store(
        home,
        specification,
        backend=backend,
        options=options,
        durability=durability,
        restorable=restorable,
    )
    if begun is not None:
        store.begun_from = (begun.offset, begun.rows)
    return store


def begin_from_native(
    home: Path,
    specification: StoreSpecification[Any, Any],
    source: PartitionDirectory,
    backend: str | None,
) -> Snapshot | None:
    """Make the engine in *home* of a native part; return its snapshot, or ``None`` if none is made.

    Whoever opens the store next finds it at the commit of that snapshot.

    Raises:
        StoreCorruptedError, UnknownBackendError, MissingDriverError: As `statestores.open_store`.
        StorageError: What there is cannot be read or written.
    """
    remove_stale_temporaries(home)  # of one that was killed, however the store is opened now
    path = max(list_snapshots(source.snapshots).items(), default=(0, None))[1]
    if path is None or not native_path(path).exists() or _has_engine(home):
        return None
    try:
        snapshot = read_snapshot(path)
        part = read_native(path)
    except StoreNotFoundError:
        return None  # removed since it was listed
    except (SnapshotCorruptedError, UnsupportedFormatError) as error:
        _LOG.warning("%s: its columns are read instead of a native part: %s", path, error)
        return None
    known = backend_of(home)
    name = backend or known or DEFAULT_BACKEND
    if part is None or known not in {None, name}:
        return None
    engine_class = (
        load_recorded_backend(name, home / ENGINE_FILE)
        if backend is None and known is not None
        else load_backend(name)
    )
    foreign = _foreign(part, engine_class, snapshot.manifest, specification)
    if foreign is not None:
        _LOG.info("%s: its columns are read instead of its native part: %s", path, foreign)
        return None
    if not _joins(snapshot, specification, source):
        return None  # the restore says why it cannot
    try:
        with reporting("restore into", home):
            note = name if known is None else None
            return snapshot if _placed(home, note, engine_class, part, snapshot) else None
    except (
        SnapshotCorruptedError,
        StoreCorruptedError,
        StoreMismatchError,
        UnsupportedFormatError,
    ) as error:
        _LOG.warning("%s: its columns are read instead of its native part: %s", path, error)
        return None


def _has_engine(home: Path) -> bool:
    """Return whether there is anything at the engine's place; an empty directory is nothing."""
    with reporting("look into", home):
        try:
            return any((home / ENGINE_DIRECTORY).iterdir())
        except FileNotFoundError:
            return False
        except NotADirectoryError:
            return True


def _foreign(
    part: NativePart,
    engine_class: type[Engine],
    manifest: Manifest,
    specification: StoreSpecification[Any, Any],
) -> str | None:
    """Return in words why *part* is not for this engine or store; ``None`` if it is."""
    own, wanted = part.manifest, engine_class.driver()
    if own.backend != engine_class.name:
        return f"it is of the backend {own.backend!r}, and the store's is {engine_class.name!r}"
    if own.driver != wanted:
        return f"it was written by {own.driver}, and this is {wanted}"
    differing = differences(manifest.specification, specification)
    return f"its {differing[0]}" if differing else None


def _joins(
    snapshot: Snapshot, specification: StoreSpecification[Any, Any], source: PartitionDirectory
) -> bool:
    """Return whether the changelog of *source* goes on where *snapshot* stands."""
    own = changelog_partition(specification.name, int(source.path.name))
    if snapshot.manifest.partition != own:
        return False
    try:
        with changelog_of(source, specification) as log:
            return log.first_offset <= snapshot.offset + 1 <= log.end_offset
    except (ChangelogCorruptedError, StoreNotFoundError, UnsupportedFormatError):
        return False


def _placed(
    home: Path, note: str | None, engine_class: type[Engine], part: NativePart, snapshot: Snapshot
) -> bool:
    """Make the engine in *home* of *part*; return whether the place was free.

    *note* is the backend's name, unless ``engine.json`` has it already.

    Raises:
        SnapshotCorruptedError, StoreCorruptedError, StoreMismatchError, UnsupportedFormatError: The
            part is not what it should be. Nothing is at the engine's place.
        StorageError: It cannot be read or written.
    """
    with temporary_directory(home) as made:
        part.copy_to(made)
        _check_content(made, engine_class, snapshot)
        (made / LOCK_FILE).unlink(missing_ok=True)
        for path in (*made.iterdir(), made):
            make_durable(path)
        with creating(home):
            if note is not None:  # otherwise nobody would know whose files they are (LAY-29)
                note_creation(home, note)
            reach("native.restored")
            try:
                made.rename(home / ENGINE_DIRECTORY)
            except OSError as error:
                if error.errno in {errno.EEXIST, errno.ENOTEMPTY}:
                    return False  # somebody else has begun one
                raise
        reach("native.renamed")
        make_durable(home)
    return True


def _check_content(made: Path, engine_class: type[Engine], snapshot: Snapshot) -> None:
    """Accept an engine in *made* that opens, and stands where *snapshot* does.

    Raises:
        StoreMismatchError: It is another store, or stands elsewhere.
        StoreCorruptedError, UnsupportedFormatError: It cannot be read.
    """
    manifest = snapshot.manifest
    with closing(engine_class.open(os.fspath(made))) as engine:
        found = (read_description(engine), read_offsets(engine), read_position(engine))
    if found != (dict(manifest.specification), dict(manifest.offsets), manifest.position):
        raise StoreMismatchError(
            f"the engine in the native part of {str(snapshot.place)!r} is not at the commit of its "
            "snapshot"
        )
