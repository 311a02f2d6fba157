"""Snapshots as they are read: lazily, each file checked before its first row is given (SNP-5).

Files are read and not mapped into memory: compressed columns must be unpacked anyway, a mapped
file counts as memory of the process, and one that shrinks while it is mapped kills the process.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from statestores.arrow.file_access import reporting
from statestores.arrow.keys.key_selection import KeySelection
from statestores.arrow.schemas import changes_from_rows, end_validity, first_disorder, row_schema
from statestores.arrow.snapshots.checked_json import ADVICE
from statestores.arrow.snapshots.directory import offset_from_name
from statestores.arrow.snapshots.files import (
    LocalFiles,
    SnapshotFiles,
    check_message,
    path_of,
)
from statestores.arrow.snapshots.manifest import (
    MANIFEST_NAME,
    BatchEntry,
    FileEntry,
    Manifest,
    batches_of,
    parse_manifest,
)
from statestores.errors import (
    SnapshotCorruptedError,
    StoreNotFoundError,
)
from statestores.files.local_path import local_path
from statestores.spi.records import Changes


class Snapshot:
    """One snapshot. It holds no file open between calls, so there is nothing to close."""

    __slots__ = ("_checked", "_files", "manifest")

    def __init__(self, files: SnapshotFiles, manifest: Manifest) -> None:
        """Trust *manifest* for what *files* are; `read_snapshot` is the way in."""
        self._files = files
        self.manifest = manifest
        self._checked: set[str] = set()

    def __repr__(self) -> str:
        return f"Snapshot({str(self.place)!r}, offset={self.offset}, rows={self.rows})"

    @property
    def place(self) -> Path | str:
        """The directory that it is in, or its URL in an object store."""
        return self._files.place

    @property
    def path(self) -> Path:
        """The directory that it is in.

        Raises:
            CapabilityNotSupportedError: It is in an object store.
        """
        return path_of(self.place)

    @property
    def is_there(self) -> bool:
        """Whether there is still something at its place."""
        return self._files.is_there()

    @property
    def offset(self) -> int:
        """The committed offset at which the snapshot stands."""
        return self.manifest.offset

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return self.manifest.rows

    @property
    def schema(self) -> pa.Schema:
        """The schema of its rows.

        Raises:
            UnsupportedFormatError: The snapshot is of a kind that this release does not know.
        """
        return row_schema(str(self.manifest.specification["kind"]))

    def batches(
        self,
        *,
        first_key: bytes | None = None,
        last_key: bytes | None = None,
        keys: KeySelection | None = None,
        files: slice | None = None,
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows in order, one record batch at a time.

        *first_key* and *last_key*, both inclusive, limit the keys, and so do *keys*; batches
        that have none of them are not read.
        *files* takes some of ``manifest.files`` only, for readers that share the work.

        Raises:
            SnapshotCorruptedError: A file is not what the manifest says. Rows of the file that is
                damaged are never given; those of files before it may have been.
            StorageError: A file cannot be read.
        """
        wanted_keys = KeySelection(first=first_key, last=last_key).both(keys or KeySelection())
        for entry in self.manifest.files[files or slice(None)]:
            wanted = batches_of(entry, wanted_keys)
            if not wanted:
                continue
            read = self._read_some if _are_some(entry, wanted) else self._read
            for batch in read(entry, wanted):
                rows = _selected(batch, wanted_keys)
                if rows.num_rows:
                    yield rows

    def changes(self) -> Iterator[Changes]:
        """Yield the rows as changes that rebuild the store.

        Raises:
            SnapshotCorruptedError, StorageError: As for `batches`.
        """
        return map(changes_from_rows, self.batches())

    def verify_checksums(self, keys: KeySelection | None = None) -> None:
        """Check size and sum of every file, which finds all damage (SNP-5).

        With *keys*, the sums of what `batches` reads for them.

        Raises:
            SnapshotCorruptedError: A file is not what the manifest says.
            StorageError: A file cannot be read.
        """
        self._checked.clear()
        for entry in self.manifest.files:
            wanted = batches_of(entry, keys or KeySelection())
            if _are_some(entry, wanted):
                for _ in self._messages(entry, wanted):
                    pass
            elif wanted:
                self._check(entry)

    def verify(self) -> None:
        """Read everything and check it: sums, counts, the order of rows, ends, key ranges (SNP-6).

        Raises:
            SnapshotCorruptedError: Something is not as the manifest says; the message says what.
            StorageError: A file cannot be read.
        """
        self._checked.clear()
        previous: pa.RecordBatch | None = None
        before = ""
        for entry in self.manifest.files:
            for number, batch in enumerate(self._read(entry, range(len(entry.batches)))):
                where = f"batch {number} of {self._files.shown(entry.name)}"
                _check_order(batch, entry.batches[number], previous, where)
                if previous is not None:
                    _check_ends(previous, batch, before)
                previous, before = batch, where
        if previous is not None:
            _check_ends(previous, None, before)

    def _read(self, entry: FileEntry, numbers: Iterable[int]) -> Iterator[pa.RecordBatch]:
        """Yield the batches with *numbers* of the file *entry*, which is checked first."""
        shown = self._files.shown(entry.name)
        self._check(entry)
        with self._files.open(entry) as file:
            try:
                with pa.ipc.open_file(file) as reader:
                    self._check_shape(reader, entry, shown)
                    for number in numbers:
                        batch = reader.get_batch(number)
                        _check_rows(batch, entry, number, shown)
                        yield batch
            except pa.ArrowInvalid as error:
                raise _no_arrow(shown, error) from error

    def _read_some(self, entry: FileEntry, numbers: Iterable[int]) -> Iterator[pa.RecordBatch]:
        """Yield the batches with *numbers*, each checked on its own and nothing else read."""
        shown, schema = self._files.shown(entry.name), self.schema
        for number, message in self._messages(entry, numbers):
            try:
                batch = pa.ipc.read_record_batch(message, schema)
            except pa.ArrowInvalid as error:
                raise _no_arrow(shown, error) from error
            _check_rows(batch, entry, number, shown)
            yield batch

    def _messages(
        self, entry: FileEntry, numbers: Iterable[int]
    ) -> Iterator[tuple[int, pa.Buffer]]:
        """Yield the messages of the batches with *numbers*, whose sums are right."""
        places = [
            (number, place)
            for number in numbers
            if (place := entry.batches[number].place) is not None  # `_are_some` says so
        ]
        shown, by_number = self._files.shown(entry.name), dict(places)
        for number, message in self._files.messages(entry, places):
            check_message(number, message, by_number[number], shown)
            yield number, message

    def _check_shape(self, reader: pa.RecordBatchFileReader, entry: FileEntry, shown: str) -> None:
        """Compare what the file says about itself with the manifest."""
        if reader.num_record_batches != len(entry.batches):
            raise SnapshotCorruptedError(
                f"{shown} has {reader.num_record_batches} record batches, and the manifest "
                f"{len(entry.batches)}; {ADVICE}"
            )
        if not reader.schema.equals(self.schema):
            raise SnapshotCorruptedError(
                f"{shown} does not have the columns of a "
                f"{self.manifest.specification['kind']} store; {ADVICE}"
            )

    def _check(self, entry: FileEntry) -> None:
        """Compare size and sum of a file with the manifest, once for this object."""
        if entry.name not in self._checked:
            self._files.check_sum(entry)
            self._checked.add(entry.name)


def read_snapshot(path: str | PathLike[str]) -> Snapshot:
    """Return the snapshot in the directory *path*, its manifest checked and its files all there.

    What is in the files is checked when they are read, or by `Snapshot.verify`.

    Raises:
        StoreNotFoundError: There is no such directory.
        SnapshotCorruptedError: The manifest is missing or damaged, or a file is missing, has
            another size, or does not belong there.
        UnsupportedFormatError: A newer release wrote the snapshot.
        StorageError: The directory cannot be read.
    """
    directory = local_path(path)
    with reporting("read", directory):
        if not directory.is_dir():
            raise StoreNotFoundError(
                f"there is no snapshot at {str(directory)!r}; list_snapshots() shows those there "
                "are"
            )
        names = {entry.name for entry in directory.iterdir()}
        if MANIFEST_NAME not in names:
            raise SnapshotCorruptedError(
                f"{str(directory / MANIFEST_NAME)!r} is missing: the directory is no snapshot, or "
                f"a damaged one; {ADVICE}"
            )
        if not (directory / MANIFEST_NAME).is_file():  # opening a pipe would block
            raise SnapshotCorruptedError(
                f"{str(directory / MANIFEST_NAME)!r} is no regular file; {ADVICE}"
            )
        data = (directory / MANIFEST_NAME).read_bytes()
    manifest = parse_manifest(data, repr(str(directory / MANIFEST_NAME)))
    named_for = offset_from_name(directory.name)
    if named_for not in (None, manifest.offset):
        raise SnapshotCorruptedError(
            f"{str(directory)!r} is named for offset {named_for}, and its manifest says "
            f"{manifest.offset}; rename it, or use another snapshot"
        )
    expected = {MANIFEST_NAME, *(entry.name for entry in manifest.files)}
    if extra := sorted(names - expected):
        raise SnapshotCorruptedError(
            f"{str(directory / extra[0])!r} does not belong to the snapshot: the manifest does "
            "not name it; remove it if you know where it comes from"
        )
    files = LocalFiles(directory)
    for entry in manifest.files:
        files.check_size(entry)
    return Snapshot(files, manifest)


def _are_some(entry: FileEntry, numbers: Sequence[int]) -> bool:
    """Return whether *numbers* are some of the batches of a file, and can be read on their own."""
    placed = all(entry.batches[number].place is not None for number in numbers)
    return placed and 0 < len(numbers) < len(entry.batches)


def _check_rows(batch: pa.RecordBatch, entry: FileEntry, number: int, shown: str) -> None:
    if batch.num_rows != entry.batches[number].rows:
        raise SnapshotCorruptedError(
            f"batch {number} of {shown} has {batch.num_rows} rows, and the manifest "
            f"{entry.batches[number].rows}; {ADVICE}"
        )


def _no_arrow(shown: str, error: pa.ArrowInvalid) -> SnapshotCorruptedError:
    return SnapshotCorruptedError(f"{shown} is not an Arrow file: {error}; {ADVICE}")


def _selected(rows: pa.RecordBatch, wanted: KeySelection) -> pa.RecordBatch:
    """Return the *rows*, one or more in key order, with a key that is *wanted*."""
    if wanted.everything:
        return rows
    keys = rows.column("key")
    first, last = wanted.bounds
    if last is not None:
        rows = rows.slice(0, pc.sum(pc.less_equal(keys, pa.scalar(last, pa.binary()))).as_py())
    if first is not None:
        rows = rows.slice(pc.sum(pc.less(keys, pa.scalar(first, pa.binary()))).as_py())
    exact = wanted.stop is None and wanted.points is None
    return rows if exact else wanted.filter(rows)


def _check_order(
    batch: pa.RecordBatch, entry: BatchEntry, previous: pa.RecordBatch | None, where: str
) -> None:
    """Check that the rows ascend, also from the *previous* batch, within the manifest's range.

    Raises:
        SnapshotCorruptedError: They do not.
    """
    disorder = first_disorder(batch, previous)
    if disorder is not None:
        raise SnapshotCorruptedError(f"row {disorder} of {where} is out of order; {ADVICE}")
    first, last = batch.column("key")[0].as_py(), batch.column("key")[-1].as_py()
    between = KeySelection(first=entry.first_key, last=entry.last_key)
    if not (between.may_be_between(first, first) and between.may_be_between(last, last)):
        raise SnapshotCorruptedError(
            f"the keys of {where} are outside the range that the manifest gives; {ADVICE}"
        )


def _check_ends(batch: pa.RecordBatch, following: pa.RecordBatch | None, where: str) -> None:
    """Check that each version ends where the next one of its key starts.

    Raises:
        SnapshotCorruptedError: One does not.
    """
    if not end_validity(batch, following).equals(batch):
        raise SnapshotCorruptedError(
            f"a version in {where} does not end where the next one starts; {ADVICE}"
        )
