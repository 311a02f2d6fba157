"""Engines that remember what they should not, or by the wrong name, and places that are not theirs.

A stranger wrote most of these down before he had seen the suite, and it passed them.
"""

import os
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import ClassVar

from statestores.errors import InvalidArgumentError
from statestores.files.directory_lock import DirectoryLock
from statestores.spi import Durability, EngineSnapshot, WriteBatch
from statestores_memory.snapshot import MemorySnapshot
from statestores_mutants.file_engine import LOG_FILE, Batch, FileEngine, frame
from statestores_mutants.registry import mutant
from statestores_mutants.zoo.engine.locks import NobodyLocks


class _Remembering(FileEngine):
    """Values that were read, by a name of the engine: what the mutants make of it is wrong."""

    _read: ClassVar[dict[object, dict[bytes, bytes]]] = {}

    def get(self, key: bytes) -> bytes | None:
        self.check_open()
        found = self._read.setdefault(self.place(), {})
        if key in found:
            return found[key]
        value = super().get(key)
        if value is not None:
            found[key] = value
        return value

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        super().apply(batch, durability)
        found = self._read.setdefault(self.place(), {})
        for key in batch:
            found.pop(key, None)

    def place(self) -> object:
        """Return under what the values are remembered."""
        raise NotImplementedError


@mutant("ENG-15")
class ReadsAreRememberedByPath(_Remembering):
    """Values that were read are remembered by the directory's path, for as long as the process.

    Imitates a block cache that is keyed by the names of files, which come again.
    """

    def place(self) -> object:
        return self.directory


@mutant("ENG-17")
class ReadsAreRememberedByKeyAlone(_Remembering):
    """Values that were read are remembered by their key, until an engine is closed.

    Imitates a cache in a module's variable.
    """

    def place(self) -> object:
        return None

    def close(self) -> None:
        super().close()
        self._read.clear()


class _Filling(MemorySnapshot):
    def get(self, key: bytes) -> bytes | None:
        value = super().get(key)
        if value is not None and isinstance(self._engine, SnapshotsFillTheCache):
            self._engine.seen[key] = value
        return value


@mutant("ENG-8", "ENG-9")
class SnapshotsFillTheCache(FileEngine):
    """What a snapshot has read is what the engine answers from then on.

    Imitates one cache for all versions of a row.
    """

    def __init__(self, directory: Path, lock: DirectoryLock) -> None:
        self.seen: dict[bytes, bytes] = {}
        super().__init__(directory, lock)

    def get(self, key: bytes) -> bytes | None:
        self.check_open()
        return self.seen[key] if key in self.seen else super().get(key)

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        super().apply(batch, durability)
        for key in batch:
            self.seen.pop(key, None)

    def snapshot(self) -> EngineSnapshot:
        return _Filling(self, self._content.copy())


@mutant("ENG-34", "ENG-8")
class AbsenceOutlivesAnIngestion(FileEngine):
    """A key that was asked for, and not there, is not there after it was ingested.

    Imitates a negative cache that batches clear, and files that are taken in do not.
    """

    def __init__(self, directory: Path, lock: DirectoryLock) -> None:
        self._absent: set[bytes] = set()
        self._ingests = False
        super().__init__(directory, lock)

    def get(self, key: bytes) -> bytes | None:
        self.check_open()
        value = None if key in self._absent else super().get(key)
        if value is None:
            self._absent.add(key)
        return value

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        super().apply(batch, durability)
        if not self._ingests:
            self._absent.difference_update(batch)

    def ingest(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        self._ingests = True
        try:
            super().ingest(pairs)
        finally:
            self._ingests = False


@mutant("ENG-34", "ENG-8")
class DeletionsHideWhatIsIngested(FileEngine):
    """A key that was deleted before it is ingested stays deleted.

    Imitates files that are taken in below every write, with a sequence number of nought.
    """

    def __init__(self, directory: Path, lock: DirectoryLock) -> None:
        self._deleted: set[bytes] = set()
        super().__init__(directory, lock)

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        super().apply(batch, durability)
        for key, value in batch.items():
            (self._deleted.add if value is None else self._deleted.discard)(key)

    def ingest(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        super().ingest(self._shown(pairs))

    def _shown(self, pairs: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        deleted = self._deleted.copy()
        return ((key, value) for key, value in pairs if key not in deleted)


@mutant("ENG-8", "ENG-18")
class KilledLifeIsReplayedAgain(FileEngine):
    """What the log had when it was opened is written behind it once more when it is closed.

    Imitates a log that a crash has left, which a recovery applies and forgets to remove.
    """

    def __init__(self, directory: Path, lock: DirectoryLock) -> None:
        super().__init__(directory, lock)
        self._left: Batch = dict(self.scan(b"")) if self._was_killed() else {}
        self._closed_file.unlink(missing_ok=True)

    @property
    def _closed_file(self) -> Path:
        return self.directory / "CLOSED"

    def _was_killed(self) -> bool:
        return self._end > 0 and not self._closed_file.exists()

    def close(self) -> None:
        if self._log is not None:
            if self._left:
                self.write(frame(self._left))
            self._closed_file.touch()
        super().close()


@mutant("ENG-1")
class LinksAreOtherDirectories(NobodyLocks):
    """Whoever comes by a link is let in while somebody is there by another name.

    Imitates a registry of open paths, whose names nobody has resolved.
    """

    @classmethod
    def acquire_lock(cls, directory: Path) -> DirectoryLock:
        if any(place.is_symlink() for place in (directory, *directory.parents)):
            return super().acquire_lock(directory)
        return DirectoryLock.acquire(directory)


@mutant("ENG-41")
class CheckpointFollowsALink(FileEngine):
    """A link that leads nowhere is followed, and the copy is made where it leads.

    Imitates `exists()`, which says that there is nothing.
    """

    def checkpoint(self, path: str | PathLike[str]) -> None:
        self.check_open()
        if Path(path).exists():
            raise InvalidArgumentError(f"there is something at {os.fspath(path)!r} already")
        super().checkpoint(Path(path).resolve() if Path(path).is_symlink() else path)


@mutant("ENG-49")
class RelativePathIsFollowed(FileEngine):
    """A batch is written to the file that the path of the opening leads to by then.

    Imitates a driver that opens its next file by the path that it was given.
    """

    def write(self, data: bytes) -> None:
        path = self.directory / LOG_FILE
        if self._log is not None and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            os.close(self._log)
            self._log, self._end = descriptor, 0
        super().write(data)
