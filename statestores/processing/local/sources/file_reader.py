"""Reading files one after the other, each from where the last commit has left it (PRC-60).

For each file the store has how many records were taken, and what tells whether it is still the
same file. A file is read in the order of names, and one that comes later after those before it.
"""

import time
from abc import abstractmethod
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import google_crc32c

from statestores.errors import ProcessingError, StateStoreError, StorageError, StoreCorruptedError
from statestores.processing.local.sources.file_set import FileSet, FoundFile
from statestores.processing.local.sources.source import Place, SourceOutput, SourceReader
from statestores.spi import KeyValueStore

LOOK_SECONDS = 1.0
"""How often a source looks for new files, and for files that have grown."""

PROOF_BYTES = 4096
"""Of how many bytes before the place that was reached the checksum has to match."""


@dataclass(slots=True)
class FileProgress:
    """How far one file has come; a row of the store."""

    next: int = 0
    """How many records were taken, bad ones included."""

    byte: int = 0
    """Up to where the file was read; of Parquet, its size."""

    checksum: int = 0
    """Of up to `PROOF_BYTES` bytes before that."""

    size: int = -1
    """The file's size when it had been read to its end."""

    mtime_ns: int = -1
    """When it had been written last, then."""

    given_up: list[int] | None = None
    """Size and times of a file that could not be read, and that the error policy skips."""

    def row(self) -> dict[str, Any]:
        """Return the row of the store."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def of(cls, row: Any) -> "FileProgress":
        """Return what a row says."""
        return cls() if row is None else cls(**row)


class FileReader(SourceReader):
    """Goes from file to file; what is in one is the subclass's affair."""

    def __init__(
        self, files: FileSet, store: KeyValueStore[str, Any], output: SourceOutput
    ) -> None:
        """Go on where *store* says."""
        self._files, self._store, self.output = files, store, output
        self._ahead: deque[FoundFile] = deque()
        self._current: FoundFile | None = None
        self._progress: dict[str, FileProgress] = {}
        self._changed: set[str] = set()
        self._done: dict[str, list[int]] = {}
        self._looked_at: float | None = None

    # What a kind of file does.

    @abstractmethod
    def open_file(self, file: FoundFile, progress: FileProgress) -> None:
        """Open *file* where *progress* says.

        Raises:
            StateStoreError, OSError: It cannot be read.
        """

    @abstractmethod
    def read_file(self, file: FoundFile, progress: FileProgress, limit: int) -> tuple[int, bool]:
        """Take up to *limit* records; return how many, and whether the file is read to its end.

        Raises:
            ProcessingError: A record is none, and the policy is to fail.
            StateStoreError, OSError: The file cannot be read on.
        """

    @abstractmethod
    def close_file(self) -> None:
        """Close what is open."""

    # From file to file.

    def read(self, limit: int) -> int:
        """Read on in the current file, or in the next that has something."""
        done = 0
        while done < limit and (self._current is not None or self._open_next()):
            file = self._current
            if file is None:
                break
            progress = self._progress_of(file.name)
            before = progress.next, progress.byte
            try:
                taken, is_over = self.read_file(file, progress, limit - done)
            except ProcessingError:
                raise
            except (StateStoreError, OSError) as error:
                self._give_up(file, error)
                continue
            done += taken
            if (progress.next, progress.byte) != before:
                self._changed.add(file.name)
            if is_over:
                progress.size, progress.mtime_ns = file.size, file.mtime_ns
                progress.given_up = None
                self._changed.add(file.name)
                self._done[file.name] = _stamp(file)
                self._close_current()
        return done

    @property
    def has_more(self) -> bool:
        """While a file is being read, or others wait, or nobody has looked."""
        return self._current is not None or bool(self._ahead) or self._looked_at is None

    def save(self) -> None:
        """Write the rows of the files that were read in."""
        for name in self._changed:
            self._store.put(name, self._progress[name].row())
        self._changed.clear()
        for name in self._done.keys() & self._progress.keys():
            del self._progress[name]  # its row has it, should it grow

    def close(self) -> None:
        """Close the file that is open."""
        self._close_current()

    def _open_next(self) -> bool:
        """Open the next file that has something to read; return whether there is one."""
        if not self._ahead:
            self._look()
        while self._ahead:
            file = self._ahead.popleft()
            progress = self._progress_of(file.name)
            try:
                self.open_file(file, progress)
            except (StateStoreError, OSError) as error:
                self._give_up(file, error)
                continue
            self._current = file
            return True
        return False

    def _look(self) -> None:
        now = time.monotonic()
        if self._looked_at is not None and now - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = now
        for file in self._files.look():
            if self._done.get(file.name) == _stamp(file):
                continue
            progress = self._progress_of(file.name)
            is_read = (progress.size, progress.mtime_ns) == (file.size, file.mtime_ns)
            if is_read or progress.given_up == _stamp(file):
                self._done[file.name] = _stamp(file)
                self._progress.pop(file.name)
            else:
                self._ahead.append(file)

    def _progress_of(self, name: str) -> FileProgress:
        progress = self._progress.get(name)
        if progress is None:
            progress = self._progress[name] = FileProgress.of(self._store.get(name))
        return progress

    def _give_up(self, file: FoundFile, error: Exception) -> None:
        """Leave *file* as it is until it changes, if the policy lets that be."""
        self._close_current()
        progress = self._progress_of(file.name)
        cause = error
        if isinstance(error, OSError) and not isinstance(error, StateStoreError):
            cause = StorageError(
                f"cannot read {str(file.path)!r}: {error.strerror or error}; check the file and "
                "its rights"
            )
            cause.__cause__ = error
        self.output.refuse_file(cause, Place(str(file.path), progress.next, name=file.name))
        progress.given_up = _stamp(file)
        self._changed.add(file.name)
        self._done[file.name] = _stamp(file)

    def _close_current(self) -> None:
        self._current = None
        self.close_file()


def _stamp(file: FoundFile) -> list[int]:
    return [file.size, file.mtime_ns, file.ctime_ns]


def proof_of(descriptor: Any, end: int) -> int:
    """Return the checksum of the bytes of an open file before *end*."""
    start = max(0, end - PROOF_BYTES)
    descriptor.seek(start)
    checksum: int = google_crc32c.value(descriptor.read(end - start))
    return checksum


def check_same(path: Path, descriptor: Any, progress: FileProgress, size: int) -> None:
    """Accept a file whose beginning is the one that was read.

    Raises:
        StoreCorruptedError: It has become shorter, or another one.
    """
    if size < progress.byte:
        raise StoreCorruptedError(
            f"{str(path)!r} has {size} bytes, and {progress.byte} of it have been read: it has "
            "shrunk, or is another file under this name; new files need new names"
        )
    if progress.byte and proof_of(descriptor, progress.byte) != progress.checksum:
        raise StoreCorruptedError(
            f"{str(path)!r} has changed before byte {progress.byte}, up to where it has been read; "
            "files may only grow, and new files need new names"
        )
