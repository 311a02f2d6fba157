"""The native part of a snapshot: the engine's own files at the same commit, beside the columns.

It is for the same backend and driver alone, and nothing depends on it: whoever cannot use it takes
the snapshot. It lies beside the snapshot's directory, under a name that is no snapshot's::

    <directory>/<offset, 20 digits>.native/native.json
                                           engine/...
"""

from collections.abc import Iterator
from pathlib import Path

import google_crc32c

from statestores.arrow.file_access import checksum_of, reporting
from statestores.arrow.snapshots.checked_json import ADVICE
from statestores.arrow.snapshots.directory import native_path
from statestores.arrow.snapshots.files import check_size, check_sum, missing
from statestores.arrow.snapshots.manifest import MANIFEST_NAME
from statestores.arrow.snapshots.native_manifest import (
    NATIVE_MANIFEST_NAME,
    NativeFile,
    NativeManifest,
    parse_native_manifest,
)
from statestores.errors import SnapshotCorruptedError
from statestores.failpoints import reach

ENGINE_FILES = "engine"
"""The directory of the engine's files inside a native part."""

_CHUNK_BYTES = 1024 * 1024


class NativePart:
    """The native part of one snapshot. It holds no file open between calls."""

    __slots__ = ("manifest", "path")

    def __init__(self, path: Path, manifest: NativeManifest) -> None:
        """Trust *manifest* for what is in the directory *path*; `read_native` is the way in."""
        self.path = path
        self.manifest = manifest

    def __repr__(self) -> str:
        return f"NativePart({str(self.path)!r}, driver={self.manifest.driver!r})"

    def verify(self) -> None:
        """Read every file and compare it with the manifest (SNP-29).

        Raises:
            SnapshotCorruptedError: A file is missing, changed, or does not belong there.
            StorageError: A file cannot be read.
        """
        for path, file in self._present():
            with reporting("read", path):
                check_sum(checksum_of(path), file.crc32c, repr(str(path)))

    def copy_to(self, target: Path) -> None:
        """Copy the files into the empty directory *target*, each checked as it is copied (SNP-29).

        Copies and no links: whoever opens them writes there. Nothing is made durable.

        Raises:
            SnapshotCorruptedError: As `verify`; *target* has some of the files then.
            StorageError: A file cannot be read or written.
        """
        for path, file in self._present():
            with reporting("copy", path):
                check_sum(_copied(path, target / file.name), file.crc32c, repr(str(path)))
            reach("native.restoring")

    def _present(self) -> Iterator[tuple[Path, NativeFile]]:
        """Yield the files that the manifest names, once there are these and no others."""
        directory = self.path / ENGINE_FILES
        with reporting("read", directory):
            names = {each.name for each in directory.iterdir()} if directory.is_dir() else set()
        expected = {file.name for file in self.manifest.files}
        for name in sorted(names ^ expected):
            words = "does not belong to" if name in names else "is missing from"
            raise SnapshotCorruptedError(
                f"{str(directory / name)!r} {words} the native part of the snapshot; {ADVICE}"
            )
        for file in self.manifest.files:
            path = directory / file.name
            with reporting("read", path):
                if not path.is_file():
                    raise missing(repr(str(path)))
                size = path.stat().st_size
            check_size(size, file.bytes, repr(str(path)))
            yield path, file


def read_native(snapshot: Path) -> NativePart | None:
    """Return the native part of the snapshot in the directory *snapshot*; ``None`` without one.

    Requires: the snapshot's manifest has been read and is whole.

    Raises:
        SnapshotCorruptedError: Its document is missing or damaged, or it belongs to another one.
        UnsupportedFormatError: A newer release wrote it.
        StorageError: It cannot be read.
    """
    path = native_path(snapshot)
    document = path / NATIVE_MANIFEST_NAME
    with reporting("read", path):
        if not path.is_dir():
            return None
        if not document.is_file():
            raise SnapshotCorruptedError(f"{str(document)!r} is missing; {ADVICE}")
        data = document.read_bytes()
        belongs_to = google_crc32c.value((snapshot / MANIFEST_NAME).read_bytes())
    manifest = parse_native_manifest(data, repr(str(document)))
    if manifest.snapshot_crc32c != belongs_to:
        raise SnapshotCorruptedError(
            f"{str(path)!r} is the native part of another snapshot than {str(snapshot)!r}; {ADVICE}"
        )
    return NativePart(path, manifest)


def _copied(source: Path, target: Path) -> int:
    """Copy the file *source* to the new file *target*; return the CRC32C of what was copied."""
    checksum = 0
    with source.open("rb", buffering=0) as read, target.open("xb") as written:
        while chunk := read.read(_CHUNK_BYTES):
            checksum = google_crc32c.extend(checksum, chunk)
            written.write(chunk)
    return checksum
