"""Engines that nobody closes, and that lose what was applied or no longer miss what is gone."""

import os
from contextlib import suppress
from pathlib import Path
from weakref import finalize

from statestores.errors import StoreCorruptedError
from statestores.files.directory_lock import DirectoryLock
from statestores.spi import Durability, EngineSnapshot, WriteBatch
from statestores_mutants.file_engine import CREATED_FILE, LOG_FILE, FileEngine, frame
from statestores_mutants.registry import mutant

_LONG = 1 << 20
"""A log of so many bytes is written anew by an engine that does so at all."""


class _TakingBack(FileEngine):
    """Cuts off what was applied since the opening, in processes that its mutants name."""

    in_children: bool

    def __init__(self, directory: Path, lock: DirectoryLock) -> None:
        super().__init__(directory, lock)
        place = (directory / LOG_FILE, self._end, os.getpid())
        self._unclosed = finalize(self, _take_back, *place, in_children=self.in_children)

    def close(self) -> None:
        self._unclosed.detach()
        super().close()


def _take_back(log: Path, end: int, process: int, *, in_children: bool) -> None:
    """Cut *log* at *end*."""
    if in_children == (os.getpid() != process):
        with suppress(FileNotFoundError):
            os.truncate(log, end)


@mutant("ENG-8")
class EndOfTheProcessTakesBack(_TakingBack):
    """What was applied since the opening is cut off when the process ends and nobody has closed.

    Imitates a connection that rolls back when it is collected; one that is killed cannot.
    """

    in_children = False


@mutant("ENG-37", "ENG-8")
class EndOfAChildTakesBack(_TakingBack):
    """A forked child that ends cuts off what its parent has applied.

    Imitates an exit handler that a child has inherited, and that does not ask whose it is.
    """

    in_children = True


@mutant("ENG-8", "ENG-18")
class CloseWritesALongLogAnew(FileEngine):
    """A long log is emptied at `close` and written anew, whether there is room for it or not.

    Imitates compaction in place: the only copy is gone when the disk turns out to be full.
    """

    def close(self) -> None:
        if self._log is not None and os.fstat(self._log).st_size > _LONG:
            content = frame(dict(self.scan(b"")))
            with suppress(OSError):
                (self.directory / LOG_FILE).write_bytes(content)
        super().close()


@mutant("ENG-10", "ENG-15")
class ClosingAgainLeavesAFile(FileEngine):
    """A `close` that finds the engine closed puts a note into the directory.

    Imitates a cleanup that is written to be repeated, in a directory that is somebody else's now.
    """

    def close(self) -> None:
        again = not self.is_open
        super().close()
        if again:
            with suppress(FileNotFoundError):
                (self.directory / "NOTE").touch()


@mutant("ENG-48")
class ReadersKeepTheNoteAway(FileEngine):
    """That there is a log is noted at the first batch of a life, and not if somebody reads then.

    Imitates a checkpoint that gives up beside a reader, and is taken for done.
    """

    _is_noted = False
    _is_read = False

    def open_log(self) -> int:
        descriptor = super().open_log()
        (self.directory / CREATED_FILE).unlink()
        return descriptor

    def snapshot(self) -> EngineSnapshot:
        self._is_read = True
        return super().snapshot()

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        super().apply(batch, durability)
        if not self._is_noted and not self._is_read:
            (self.directory / CREATED_FILE).touch()
        self._is_noted = True

    def close(self) -> None:
        if self.is_open:
            with suppress(OSError):
                (self.directory / CREATED_FILE).touch()
        super().close()


@mutant("ENG-14", "ENG-28", raises=ValueError)
class NoteIsReadUnchecked(FileEngine):
    """Where the log is missing, what another file says of it is taken for a number.

    Imitates a check that is made only after a loss, and that meets a second one.
    """

    def open_log(self) -> int:
        note = self.directory / CREATED_FILE
        if note.exists() and not (self.directory / LOG_FILE).exists() and int(note.read_text()):
            raise StoreCorruptedError(f"the log in {str(self.directory)!r} is missing")
        descriptor = super().open_log()
        with suppress(OSError):
            note.write_text("1")
        return descriptor
