"""A snapshot whose data files are there already: they are renamed into it, and not read.

Whoever has written them has described each one as the manifest does, and waited for the disk.
"""

from collections.abc import Sequence
from pathlib import Path

from statestores.arrow.file_access import reporting, write_durably
from statestores.arrow.snapshots.directory import publish, snapshot_name, temporary_directory
from statestores.arrow.snapshots.files import LocalFiles
from statestores.arrow.snapshots.manifest import (
    MANIFEST_NAME,
    FileEntry,
    data_name,
    render_manifest,
)
from statestores.arrow.snapshots.snapshot import SnapshotContent, SnapshotInfo
from statestores.errors import StoreMismatchError


def adopt_files(
    parent: Path, content: SnapshotContent, files: Sequence[tuple[Path, FileEntry]]
) -> SnapshotInfo:
    """Write *content* as a snapshot in the directory *parent*; its rows are those of *files*.

    Each file has the rows of its entry, in order, behind those of the file before, and is on the
    file system of *parent*. The parts of *content* are not looked at.

    Raises:
        SnapshotCorruptedError: A file is gone, or has another size.
        StoreMismatchError: There is a snapshot at that offset.
        StorageError: A file cannot be renamed, or the manifest not be written.
    """
    entries = []
    with (
        reporting("write a snapshot into", parent),
        temporary_directory(parent) as temporary,
    ):
        for number, (path, entry) in enumerate(files):
            LocalFiles(path.parent).check_size(entry)
            path.rename(temporary / data_name(number))
            entries.append(
                FileEntry(
                    name=data_name(number),
                    bytes=entry.bytes,
                    crc32c=entry.crc32c,
                    batches=entry.batches,
                )
            )
        manifest = content.manifest(entries)
        write_durably(temporary / MANIFEST_NAME, render_manifest(manifest))
        target = parent / snapshot_name(manifest.offset)
        if not publish(temporary, target):
            raise StoreMismatchError(f"there is a snapshot at {str(target)!r} already")
    return SnapshotInfo(
        place=target,
        partition=content.partition,
        offset=manifest.offset,
        rows=manifest.rows,
        bytes=manifest.bytes,
        written=True,
    )
