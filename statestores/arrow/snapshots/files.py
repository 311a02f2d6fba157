"""The data files of one snapshot, wherever they lie: given only if they are what they must be."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import google_crc32c
import pyarrow as pa

from statestores.arrow.file_access import checksum_of, reporting
from statestores.arrow.snapshots.checked_json import ADVICE
from statestores.arrow.snapshots.manifest import (
    BatchPlace,
    FileEntry,
)
from statestores.errors import CapabilityNotSupportedError, SnapshotCorruptedError


class SnapshotFiles(ABC):
    """The files of one snapshot. It holds nothing open between calls."""

    @property
    @abstractmethod
    def place(self) -> Path | str:
        """Where they lie: a directory, or a URL."""

    def shown(self, name: str) -> str:
        """Return the file *name* as messages show it."""
        return repr(f"{self.place}/{name}")

    @abstractmethod
    def is_there(self) -> bool:
        """Return whether there is still something at this place."""

    @abstractmethod
    def check_size(self, entry: FileEntry) -> None:
        """Accept a file of the size that *entry* says.

        Raises:
            SnapshotCorruptedError: It is missing, or has another size.
            StorageError: It cannot be looked at.
        """

    @abstractmethod
    def check_sum(self, entry: FileEntry) -> None:
        """Accept a file whose bytes have the sum that *entry* says.

        Raises:
            SnapshotCorruptedError: They have not, or it is missing.
            StorageError: It cannot be read.
        """

    @abstractmethod
    def open(self, entry: FileEntry) -> AbstractContextManager[pa.NativeFile]:
        """Give the file *entry*, whose sum has been checked, for reading.

        Raises:
            SnapshotCorruptedError, StorageError: As `check_sum`.
        """

    @abstractmethod
    def messages(
        self, entry: FileEntry, places: Sequence[tuple[int, BatchPlace]]
    ) -> Iterator[tuple[int, pa.Buffer]]:
        """Yield what is at *places*, each with its number; sums are not checked.

        Raises:
            SnapshotCorruptedError: The file is missing, or has another size.
            StorageError: It cannot be read.
        """


class LocalFiles(SnapshotFiles):
    """The files in a directory."""

    def __init__(self, directory: Path) -> None:
        """Read those in *directory*."""
        self._directory = directory

    @property
    def place(self) -> Path:
        return self._directory

    def is_there(self) -> bool:
        return self._directory.is_dir()

    def check_size(self, entry: FileEntry) -> None:
        path = self._directory / entry.name
        with reporting("read", path):
            try:
                size = path.stat().st_size
            except FileNotFoundError as error:
                raise missing(self.shown(entry.name)) from error
        check_size(size, entry.bytes, self.shown(entry.name))

    def check_sum(self, entry: FileEntry) -> None:
        self.check_size(entry)
        path = self._directory / entry.name
        with reporting("read", path):
            found = checksum_of(path)
        check_sum(found, entry.crc32c, self.shown(entry.name))

    @contextmanager
    def open(self, entry: FileEntry) -> Iterator[pa.NativeFile]:
        path = self._directory / entry.name
        with reporting("read", path), pa.OSFile(str(path), "rb") as file:
            yield file

    def messages(
        self, entry: FileEntry, places: Sequence[tuple[int, BatchPlace]]
    ) -> Iterator[tuple[int, pa.Buffer]]:
        self.check_size(entry)
        with self.open(entry) as file:
            for number, place in places:
                file.seek(place.at)
                yield number, file.read_buffer(place.bytes)


def path_of(place: Path | str) -> Path:
    """Return the directory *place*.

    Raises:
        CapabilityNotSupportedError: It is a URL.
    """
    if isinstance(place, str):
        raise CapabilityNotSupportedError(
            f"the snapshot {place!r} is in an object store, and no directory of this machine"
        )
    return place


def missing(shown: str) -> SnapshotCorruptedError:
    """Return the error for a file, *shown* so, that a manifest names and that is not there."""
    return SnapshotCorruptedError(f"{shown} is missing, and the manifest names it; {ADVICE}")


def check_size(size: int, wanted: int, shown: str) -> None:
    """Accept a file of *size* bytes where a manifest says *wanted*; *shown* names it.

    Raises:
        SnapshotCorruptedError: It has another size.
    """
    if size != wanted:
        raise SnapshotCorruptedError(
            f"{shown} has {size} bytes, and the manifest {wanted}: the file is "
            f"{'cut off' if size < wanted else 'too long'}; {ADVICE}"
        )


def check_sum(found: int, wanted: int, shown: str) -> None:
    """Accept a file with the CRC32C *found* where a manifest says *wanted*; *shown* names it.

    Raises:
        SnapshotCorruptedError: The manifest has another one.
    """
    if found != wanted:
        raise SnapshotCorruptedError(
            f"{shown} has the CRC32C {found:08x}, and the manifest {wanted:08x}: "
            f"the file is damaged; {ADVICE}"
        )


def check_message(number: int, message: pa.Buffer, place: BatchPlace, shown: str) -> None:
    """Accept the *message* of batch *number* at *place* of the file that *shown* names.

    Raises:
        SnapshotCorruptedError: Its sum is another one.
    """
    if google_crc32c.value(message) != place.crc32c:
        raise SnapshotCorruptedError(
            f"batch {number} of {shown} does not have the CRC32C of the "
            f"manifest: the file is damaged; {ADVICE}"
        )
