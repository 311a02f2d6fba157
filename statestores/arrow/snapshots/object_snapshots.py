"""The snapshots of a partition in an object store (OBJ-37): written once, and found by listing.

Nothing depends on one: the log has everything that a snapshot has, which only makes reading short.
Each attempt to write one has names of its own, and counts once its manifest is there, which is put
last, if nothing is. Who tidies up after a writer that may have died puts a *void* under that name
first: then the writer, should it live, finds that it comes second (OBJ-39).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from statestores.arrow.file_access import reporting
from statestores.arrow.progress import Meter
from statestores.arrow.snapshots.checked_json import ADVICE
from statestores.arrow.snapshots.choice import ListedSnapshot, SnapshotChoice, newest_valid
from statestores.arrow.snapshots.data_files import ROWS_PER_FILE, write_files
from statestores.arrow.snapshots.directory import snapshot_name
from statestores.arrow.snapshots.manifest import (
    MANIFEST_NAME,
    Manifest,
    parse_manifest,
    render_manifest,
)
from statestores.arrow.snapshots.object_files import ObjectFiles
from statestores.arrow.snapshots.reader import Snapshot
from statestores.arrow.snapshots.snapshot import SnapshotContent, SnapshotInfo
from statestores.errors import (
    CommitInDoubtError,
    SnapshotCorruptedError,
    StorageError,
    StoreNotFoundError,
    UnsupportedFormatError,
)
from statestores.failpoints import reach
from statestores.files.scratch_directory import scratch_directory
from statestores.object_log import ObjectLog
from statestores.object_log.changelog import unique_id
from statestores.object_log.documents import pack_document
from statestores.object_log.driver import run
from statestores.object_log.settling import settle
from statestores.storage import Found

BYTES_PER_OBJECT = 64 * 1024 * 1024
"""A new data file begins after this many bytes: one is put at once, and read whole."""

_DIRECTORY = re.compile(r"(?P<offset>[0-9]{20})-[0-9a-f]+")

_VOID = pack_document("void-snapshot", {})
"""What stands where a manifest would that must never count. No manifest is as short."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """What there is of one attempt to write a snapshot."""

    offset: int
    directory: str
    sizes: Mapping[str, int]
    modified_ms: int

    @property
    def manifest(self) -> str:
        return f"{self.directory}/{MANIFEST_NAME}"

    @property
    def is_void(self) -> bool:
        return self.sizes.get(MANIFEST_NAME) == len(_VOID)

    @property
    def counts(self) -> bool:
        return MANIFEST_NAME in self.sizes and not self.is_void

    @property
    def data(self) -> list[str]:
        return [f"{self.directory}/{name}" for name in self.sizes if name != MANIFEST_NAME]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectSnapshots:
    """The snapshots of one partition, looked at anew at each call."""

    log: ObjectLog
    """The log of the store."""

    log_id: str
    """The id of that log: a snapshot of another one, of the same name, is never taken for ours."""

    partition: int
    """The partition's number."""

    @property
    def prefix(self) -> str:
        """What the names of all of them begin with."""
        return self.log.names.snapshots(self.log_id, self.partition)

    def listed(self) -> list[ListedSnapshot]:
        """Return those that count, by offset, ascending, without looking into them.

        Raises:
            StorageError: They cannot be listed.
        """
        return [
            ListedSnapshot(
                each.offset,
                f"{self.log.storage.url}/{each.directory}",
                partial(self._read, each),
            )
            for each in self._attempts()
            if each.counts
        ]

    def newest_valid(self, *, to_offset: int | None = None) -> SnapshotChoice:
        """Return the newest one up to *to_offset* that passes `Snapshot.verify` (SNP-7).

        Raises:
            StorageError: One cannot be read.
        """
        return newest_valid(
            each
            for each in reversed(self.listed())
            if to_offset is None or each.offset <= to_offset
        )

    def write(
        self,
        content: SnapshotContent,
        *,
        meter: Meter,
        rows_per_file: int = ROWS_PER_FILE,
        bytes_per_file: int = BYTES_PER_OBJECT,
    ) -> SnapshotInfo:
        """Write *content*, unless a whole snapshot is at its offset: in one log that is the same.

        Its files pass through a directory for temporary files of this machine, one at a time.

        Raises:
            StorageError: The object store does not answer, or the disk is full. A snapshot may
                appear all the same, and then it is whole; otherwise a vacuum removes what is left.
        """
        offset = content.offsets[content.partition]
        present = self.present(offset)
        if present is not None:
            return present
        directory = f"{self.prefix}{snapshot_name(offset)}-{unique_id()}"
        entries = []
        with scratch_directory() as local, reporting("write a snapshot into", local):
            kind = content.specification.kind
            for entry in write_files(
                local, kind, content.parts, rows_per_file, bytes_per_file, meter
            ):
                path = local / entry.name
                self._put(f"{directory}/{entry.name}", path.read_bytes())
                path.unlink()
                entries.append(entry)
                reach("objects.snapshot.put")
        manifest = content.manifest(entries)
        reach("objects.snapshot.complete")
        if not self._put(f"{directory}/{MANIFEST_NAME}", render_manifest(manifest)):
            raise StorageError(
                f"the snapshot {self.log.names.shown(directory)} does not count: it took so long "
                "that a vacuum has taken its writer for dead; write it again, and vacuum less soon"
            )
        reach("objects.snapshot.published")
        return self._info(directory, manifest, written=True)

    def present(self, offset: int) -> SnapshotInfo | None:
        """Return what the snapshot at *offset* is; ``None`` if there is none that is whole.

        Raises:
            StorageError: One cannot be read.
        """
        for each in self._attempts():
            if each.offset != offset or not each.counts:
                continue
            try:
                snapshot = self._read(each)
                snapshot.verify_checksums()
            except (SnapshotCorruptedError, StoreNotFoundError, UnsupportedFormatError):
                continue
            return self._info(each.directory, snapshot.manifest, written=False)
        return None

    def remove_old(self, keep: int) -> int:
        """Remove all but one whole snapshot at each of the *keep* newest offsets; return how many.

        Damaged ones go as well, if one is whole: the log has everything that they had. One of a
        later release stays while there are not enough that are newer.

        Raises:
            StorageError: Something cannot be read or removed.
        """
        kept: set[int] = set()
        gone: list[_Attempt] = []
        for each in reversed([each for each in self._attempts() if each.counts]):
            if each.offset in kept or len(kept) == keep:
                gone.append(each)
                continue
            try:
                self._read(each).verify_checksums()
            except SnapshotCorruptedError:
                gone.append(each)
            except (StoreNotFoundError, UnsupportedFormatError):
                continue
            else:
                kept.add(each.offset)
        if not kept:
            return 0
        for each in gone:
            self._remove(each)
        return len(gone)

    def vacuum(self, oldest_ms: int) -> int:
        """Remove what was put before *oldest_ms* of snapshots that do not count; return how much.

        The clock decides only what is taken for garbage: a writer that lives is told (OBJ-39).

        Raises:
            CommitInDoubtError, StorageError: The object store does not answer. Trying again is
                harmless.
        """
        storage, removed = self.log.storage, 0
        for each in self._attempts():
            if each.counts or each.modified_ms >= oldest_ms:
                continue
            if not each.is_void:
                if not run(settle(self.log.names, each.manifest, _VOID), storage):
                    continue  # it counts since
                reach("objects.snapshot.voided")
            for name in each.data:
                storage.delete(name)
            if each.is_void:  # for so long that no put of a manifest is under way any more
                storage.delete(each.manifest)
            removed += len(each.sizes)
        return removed

    def sizes(self) -> Iterator[int]:
        """Yield the size of each object, of snapshots that count and of others."""
        for each in self._attempts():
            yield from each.sizes.values()

    def _remove(self, attempt: _Attempt) -> None:
        """Remove a snapshot so that nobody finds half of it: its manifest goes first."""
        self.log.storage.delete(attempt.manifest)
        reach("objects.snapshot.unpublished")
        for name in attempt.data:
            self.log.storage.delete(name)

    def _read(self, attempt: _Attempt) -> Snapshot:
        """Return the snapshot of *attempt*, its manifest checked, and its objects all there.

        Raises:
            StoreNotFoundError: It has been removed since it was listed.
            SnapshotCorruptedError, UnsupportedFormatError, StorageError: As `read_snapshot`.
        """
        shown = self.log.names.shown(attempt.manifest)
        found = self.log.storage.read(attempt.manifest)
        if not isinstance(found, Found):
            raise StoreNotFoundError(f"there is no snapshot {shown} any more; {ADVICE}")
        manifest = parse_manifest(found.data, shown)
        if manifest.offset != attempt.offset:
            raise SnapshotCorruptedError(
                f"{shown} is named for offset {attempt.offset}, and says {manifest.offset}; "
                f"{ADVICE}"
            )
        files = ObjectFiles(self.log.storage, attempt.directory, attempt.sizes)
        for entry in manifest.files:
            files.check_size(entry)
        return Snapshot(files, manifest)

    def _put(self, name: str, data: bytes) -> bool:
        """Put the object *name*; return whether it is there."""
        try:
            return run(settle(self.log.names, name, data), self.log.storage)
        except CommitInDoubtError as error:
            raise StorageError(
                f"cannot write the snapshot's {self.log.names.shown(name)}: "
                f"{self.log.storage.last_failure() or 'no answer'}; check the network, the "
                "credentials and their rights, and write it again"
            ) from error

    def _info(self, directory: str, manifest: Manifest, *, written: bool) -> SnapshotInfo:
        return SnapshotInfo(
            place=f"{self.log.storage.url}/{directory}",
            partition=manifest.partition,
            offset=manifest.offset,
            rows=manifest.rows,
            bytes=manifest.bytes,
            written=written,
        )

    def _attempts(self) -> list[_Attempt]:
        """Return what there is, by offset, ascending."""
        sizes: dict[str, dict[str, int]] = {}
        modified: dict[str, int] = {}
        for each in self.log.storage.list(self.prefix):
            directory, _, name = each.name.removeprefix(self.prefix).partition("/")
            sizes.setdefault(directory, {})[name] = each.size
            modified[directory] = max(modified.get(directory, 0), each.modified_ms)
        return [
            _Attempt(
                int(match["offset"]), self.prefix + directory, sizes[directory], modified[directory]
            )
            for directory in sorted(sizes)
            if (match := _DIRECTORY.fullmatch(directory)) is not None
        ]
