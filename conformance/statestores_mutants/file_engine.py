"""A small sound engine that makes every promise: what the mutants are made of.

All content is in memory, as `statestores_memory` keeps it, and each batch is appended to one file
before it is applied. A frame is a header (the length of the body and its CRC, and a CRC of these
two) and a body of changes. A tail that is too short is torn; anything else that does not fit is
damage.
"""

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from os import PathLike
from pathlib import Path
from struct import Struct
from typing import ClassVar, Self
from zlib import crc32

from statestores.errors import (
    CommitInDoubtError,
    InvalidArgumentError,
    InvalidTypeError,
    StorageError,
    StoreCorruptedError,
)
from statestores.files.directory_lock import DirectoryLock
from statestores.files.plain_files import check_plain_files
from statestores.spi import Capabilities, Durability, WriteBatch, parse_options
from statestores_memory import MemoryEngine, MemoryOptions

LOG_FILE = "batches.log"
CREATED_FILE = "CREATED"
"""Made after the log, and empty: if it is there, a missing log is damage and not a new engine."""

Batch = dict[bytes, bytes | None]

_HEADER = Struct(">III")
_LENGTHS = Struct(">Ii")
_DELETED = -1


class FileEngine(MemoryEngine):
    """An ordered map in memory whose batches are logged in one file."""

    name: ClassVar[str] = "file"
    capabilities: ClassVar[Capabilities] = Capabilities(
        persistent=True,
        durable_commit=True,
        detects_corruption=True,
        native_checkpoint=True,
        bulk_ingest=True,
    )

    def __init__(self, directory: Path, lock: DirectoryLock) -> None:
        """Read the log in *directory*, which *lock* protects."""
        super().__init__()
        self.directory = directory
        self.directory_lock = lock
        self._log: int | None = self.open_log()
        try:
            self._end = self.load()
        except BaseException:
            os.close(self._log)
            raise

    @classmethod
    def open(cls, path: str | PathLike[str], options: Mapping[str, object] | None = None) -> Self:
        parse_options(MemoryOptions, options)
        check_plain_files(Path(path))
        lock = cls.acquire_lock(Path(path))
        try:
            return cls(Path(path), lock)
        except BaseException:
            lock.release()
            raise

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        self.check_open()
        changes = checked(batch)
        self.log(changes, durability)
        super().apply(changes, durability)

    def checkpoint(self, path: str | PathLike[str]) -> None:
        self.check_open()
        directory = Path(path)
        if os.path.lexists(directory):
            raise InvalidArgumentError(f"there is something at {str(directory)!r} already")
        try:
            directory.mkdir(parents=True)
            (directory / LOG_FILE).write_bytes(frame(dict(self.scan(b""))))
        except OSError as error:
            shutil.rmtree(directory, ignore_errors=True)
            raise StorageError(f"cannot write {str(directory)!r}: {error.strerror}") from error

    def ingest(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        self.check_open()
        listed = list(pairs)
        for (key, _), (following, _) in pairwise(listed):
            if key >= following:
                raise InvalidArgumentError(f"keys must ascend, got {following!r} after {key!r}")
        self.apply(dict(listed), Durability.POWER_LOSS)

    def close(self) -> None:
        super().close()
        if self._log is not None:
            descriptor, self._log = self._log, None
            os.close(descriptor)
        self.release_lock()

    # The steps that mutants change.

    @classmethod
    def acquire_lock(cls, directory: Path) -> DirectoryLock:
        """Lock *directory*."""
        return DirectoryLock.acquire(directory)

    def release_lock(self) -> None:
        """Give the lock up."""
        self.directory_lock.release()

    def open_log(self) -> int:
        """Open the log, creating it when it is missing."""
        path, created = self.directory / LOG_FILE, self.directory / CREATED_FILE
        if created.exists() and not path.exists():
            raise StoreCorruptedError(f"{str(path)!r} is missing; restore the engine")
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                created.touch()
            except OSError:
                os.close(descriptor)
                raise
        except OSError as error:
            raise StorageError(f"cannot open {str(path)!r}: {error.strerror}") from error
        return descriptor

    def load(self) -> int:
        """Apply the batches of the log, and return where the last whole one ends."""
        assert self._log is not None
        data = os.pread(self._log, os.fstat(self._log).st_size, 0)
        content: Batch = {}
        end = 0
        for place, changes in frames(data):
            content.update(changes)
            end = place
        super().apply(content, Durability.PROCESS_CRASH)
        return end

    def log(self, changes: Batch, durability: Durability) -> None:
        """Append *changes*, and wait for the disk when *durability* says so."""
        self.write(frame(changes) if changes else b"")
        if durability is Durability.POWER_LOSS:
            self.wait_for_the_disk()

    def write(self, data: bytes) -> None:
        """Write *data* behind the last whole batch; what a failure leaves there is overwritten."""
        assert self._log is not None
        try:
            if os.fstat(self._log).st_size > self._end:
                os.ftruncate(self._log, self._end)
            written = os.pwrite(self._log, data, self._end)
        except OSError as error:
            raise StorageError(f"cannot write the log: {error.strerror}") from error
        if written < len(data):
            raise StorageError(f"the log took {written} of {len(data)} bytes; is the disk full?")
        self._end += written

    def wait_for_the_disk(self) -> None:
        """Return when what was written is on the disk.

        Raises:
            CommitInDoubtError: Nobody knows whether it is.
        """
        assert self._log is not None
        try:
            os.fdatasync(self._log)
        except OSError as error:
            raise CommitInDoubtError(f"the log may be on the disk: {error.strerror}") from error


def checked(batch: WriteBatch) -> Batch:
    """Return a copy of *batch*, which can be neither changed nor broken any more."""
    changes = dict(batch)
    for key, value in changes.items():
        if type(key) is not bytes or (value is not None and type(value) is not bytes):
            raise InvalidTypeError(f"a change is of bytes, got {key!r}: {value!r}")
    return changes


def frame(changes: Mapping[bytes, bytes | None]) -> bytes:
    """Return *changes* as one frame of the log."""
    parts = []
    for key, value in changes.items():
        parts.append(_LENGTHS.pack(len(key), _DELETED if value is None else len(value)))
        parts += [key, value or b""]
    body = b"".join(parts)
    start = _HEADER.pack(len(body), crc32(body), 0)[:8]
    return start + crc32(start).to_bytes(4, "big") + body


def frames(data: bytes) -> Iterator[tuple[int, Batch]]:
    """Yield where each whole frame of *data* ends, and its changes.

    Raises:
        StoreCorruptedError: A frame is damaged, not merely cut off.
    """
    place = 0
    while len(data) - place >= _HEADER.size:
        length, expected, header = _HEADER.unpack_from(data, place)
        if crc32(data[place : place + 8]) != header:
            raise StoreCorruptedError(f"the header at byte {place} of the log is damaged")
        body = data[place + _HEADER.size : place + _HEADER.size + length]
        if len(body) < length:
            return  # torn by a crash
        if crc32(body) != expected:
            raise StoreCorruptedError(f"the batch at byte {place} of the log is damaged")
        place += _HEADER.size + length
        yield place, dict(changes_of(body))


def changes_of(body: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the changes of a frame's body; those that are whole, when it is cut off."""
    place = 0
    with contextlib.suppress(EOFError):
        while place < len(body):
            key_length, value_length = _LENGTHS.unpack(_exactly(body, place, _LENGTHS.size))
            place += _LENGTHS.size
            key = _exactly(body, place, key_length)
            place += key_length
            if value_length == _DELETED:
                yield key, None
                continue
            yield key, _exactly(body, place, value_length)
            place += value_length


def _exactly(body: bytes, start: int, length: int) -> bytes:
    if start + length > len(body):
        raise EOFError
    return body[start : start + length]
