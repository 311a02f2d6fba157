"""Engines with more than one file, or with less to tell: logs one after the other, values aside."""

import os
from dataclasses import replace
from pathlib import Path
from typing import ClassVar
from zlib import crc32

from statestores.errors import StorageError, StoreCorruptedError
from statestores.spi import Capabilities, Durability
from statestores_memory import MemoryEngine
from statestores_mutants.file_engine import (
    LOG_FILE,
    Batch,
    FileEngine,
    changes_of,
    frames,
)
from statestores_mutants.registry import mutant

_LOG_BYTES = 4 * 1024 * 1024
_LONG_BYTES = range(1024 * 1024, 8 * 1024 * 1024)
_IS_ELSEWHERE = b"\x00elsewhere\x00"
_HEADER_BYTES = 12


@mutant("ENG-8", "ENG-23", "COM-12")
class NewestLogAloneIsWaitedFor(FileEngine):
    """A log that has become long is followed by another, and a durable batch waits for that alone.

    Imitates LevelDB, whose earlier log is closed unsynced while its rows are in memory alone.
    """

    def load(self) -> int:
        content: Batch = {}
        for path in self._earlier():
            data, end = path.read_bytes(), 0
            for end, changes in frames(data):  # noqa: B007  # where the last batch ends
                content.update(changes)
            if not data or end < len(data):
                raise StoreCorruptedError(f"{str(path)!r} has lost its end, and others follow it")
        MemoryEngine.apply(self, content, Durability.PROCESS_CRASH)
        return super().load()

    def write(self, data: bytes) -> None:
        assert self._log is not None
        if self._end > _LOG_BYTES:
            log = self.directory / LOG_FILE
            log.rename(self.directory / f"{LOG_FILE}.{len(self._earlier()):06d}")
            os.close(self._log)
            self._log, self._end = self.open_anew(log), 0
        super().write(data)

    @staticmethod
    def open_anew(log: Path) -> int:
        """Make an empty *log*."""
        return os.open(log, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def _earlier(self) -> list[Path]:
        return sorted(self.directory.glob(f"{LOG_FILE}.*"))


class _LongValuesElsewhere(FileEngine):
    """A sound engine but for the place of long values: a file for each, which the log names."""

    def log(self, changes: Batch, durability: Durability) -> None:
        named: Batch = {}
        for key, value in changes.items():
            if value is None or len(value) not in _LONG_BYTES:
                named[key] = value
                continue
            number = len(list(self.directory.glob("value-*")))
            name = f"value-{number:06d}-{crc32(value)}"
            self.keep(self.directory / name, value)
            named[key] = _IS_ELSEWHERE + name.encode()
        super().log(named, durability)

    def keep(self, path: Path, value: bytes) -> None:
        """Write *value* to *path*."""
        try:
            with path.open("wb") as file:
                file.write(value)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StorageError(f"cannot write {str(path)!r}: {error.strerror}") from error

    def load(self) -> int:
        end = super().load()
        for key, value in list(self.scan(b"")):
            if value.startswith(_IS_ELSEWHERE):
                found = self.found(self.directory / value[len(_IS_ELSEWHERE) :].decode())
                MemoryEngine.apply(self, {key: found}, Durability.PROCESS_CRASH)
        return end

    def found(self, path: Path) -> bytes:
        """Return the value at *path*.

        Raises:
            StoreCorruptedError: It is missing or damaged.
        """
        value = path.read_bytes() if path.exists() else b""
        if str(crc32(value)) != path.name.rpartition("-")[2]:
            raise StoreCorruptedError(f"{str(path)!r} is missing or damaged")
        return value


@mutant("ENG-8", "COM-12", "ENG-50")
class LongValuesAreNotWaitedFor(_LongValuesElsewhere):
    """A value of some mebibytes is in a file beside the log, for which no batch waits.

    Imitates a table of paths, and files that nobody waits for.
    """

    def keep(self, path: Path, value: bytes) -> None:
        try:
            path.write_bytes(value)
        except OSError as error:
            raise StorageError(f"cannot write {str(path)!r}: {error.strerror}") from error


@mutant("ENG-7", "ENG-8", "ENG-50")
class LongValuesAreWrittenLast(_LongValuesElsewhere):
    """A long value is written when the log has the batch that names it.

    Imitates a reference that is committed before what it refers to.
    """

    def log(self, changes: Batch, durability: Durability) -> None:
        self._kept: list[tuple[Path, bytes]] = []
        super().log(changes, durability)
        for path, value in self._kept:
            super().keep(path, value)

    def keep(self, path: Path, value: bytes) -> None:
        path.touch()
        self._kept.append((path, value))


@mutant("ENG-7", "ENG-8", "ENG-50")
class LongValuesWaitInABuffer(_LongValuesElsewhere):
    """The last bytes of a long value are written when the next one comes, or at `close`.

    Imitates a file object that is left to the garbage collector.
    """

    _waiting: tuple[Path, bytes] | None = None

    def keep(self, path: Path, value: bytes) -> None:
        self._write_waiting()
        super().keep(path, value[:-4096])
        self._waiting = path, value

    def close(self) -> None:
        if self.is_open:
            self._write_waiting()
        super().close()

    def _write_waiting(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            super().keep(*waiting)


@mutant("ENG-50", "ENG-14")
class LongValuesMayBeShort(_LongValuesElsewhere):
    """Of a long value that has lost its end, what is left is read; it was waited for, after all.

    Imitates a reference without a length.
    """

    def found(self, path: Path) -> bytes:
        return path.read_bytes() if path.exists() else b""


class _PromisesLess(FileEngine):
    """A sound engine that does not promise to find damage, as one without checksums does not."""

    capabilities: ClassVar[Capabilities] = replace(
        FileEngine.capabilities, detects_corruption=False
    )


@mutant("ENG-32", "ENG-7")
class TornBatchOfNoPromiseIsApplied(_PromisesLess):
    """Of a batch that was cut off, the rows that are whole are applied: damage is not its business.

    Imitates a log of records in an engine without checksums, which nobody had cut.
    """

    def write(self, data: bytes) -> None:
        assert self._log is not None
        try:
            super().write(data)
        except StorageError:
            os.ftruncate(self._log, self._end)
            raise

    def load(self) -> int:
        end = super().load()
        assert self._log is not None
        tail = os.pread(self._log, os.fstat(self._log).st_size, end)
        rows = dict(changes_of(tail[_HEADER_BYTES:]))
        MemoryEngine.apply(self, rows, Durability.PROCESS_CRASH)
        return end
