"""Engines that are right for small and single things: wrong at the edge of a chunk, page or batch.

Each of them once passed the suite, or is like one that did.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from os import PathLike
from pathlib import Path

from statestores.errors import InvalidArgumentError, StorageError
from statestores.files.directory_lock import DirectoryLock
from statestores.spi import Durability, EngineSnapshot
from statestores_memory.snapshot import MemorySnapshot
from statestores_mutants.file_engine import LOG_FILE, Batch, FileEngine, frame
from statestores_mutants.registry import mutant

Pair = tuple[bytes, bytes]

_CHUNK = 500
_PAGE = 256


@mutant("ENG-3")
class GetManyLosesTheEndOfAChunk(FileEngine):
    """`get_many` says of every five-hundredth key that it is missing.

    Imitates a loop over chunks that is one off; where every second key is missing, nobody sees it.
    """

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        found = super().get_many(keys)
        found[_CHUNK - 1 :: _CHUNK] = [None] * len(found[_CHUNK - 1 :: _CHUNK])
        return found


@mutant("ENG-6")
class PagesBeginBehindTheExtension(FileEngine):
    """A scan begins each page behind the last key of the one before it, extended by a zero byte.

    Imitates `WHERE key > ?` with a bound that already is the next possible key.
    """

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Pair]:
        found = super().scan(start, stop, reverse=reverse)
        return found if reverse else _without_extensions(found)


@mutant("ENG-6")
class ReversePagesEndBeforeTheExtended(FileEngine):
    """A reverse scan takes a key that the last key of a page extends for that key itself.

    Imitates a bound that is compared after its zero bytes at the end were stripped.
    """

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Pair]:
        found = super().scan(start, stop, reverse=reverse)
        return _without_extended(found) if reverse else found


class _SnapshotThatSeeksToTheEnd(MemorySnapshot):
    def last(self, start: bytes, stop: bytes | None = None) -> Pair | None:
        found = super().last(start)
        return found if found is None or stop is None or found[0] < stop else None


class _SnapshotThatAnswersOnce(MemorySnapshot):
    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        found = super().get_many(list(dict.fromkeys(keys)))
        return found + [None] * (len(keys) - len(found))


class _SnapshotWhoseScansEnd(MemorySnapshot):
    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Pair]:
        return self._until_closed(super().scan(start, stop, reverse=reverse))

    def _until_closed(self, pairs: Iterator[Pair]) -> Iterator[Pair]:
        for pair in pairs:
            yield pair
            if self._content is None:
                return


@mutant("ENG-5", "ENG-9")
class LastOfASnapshotIgnoresStop(FileEngine):
    """`last` of a snapshot looks for the highest key of all, and then whether it is in the range.

    Imitates reads that are written twice, of which one was never asked for a range.
    """

    def snapshot(self) -> EngineSnapshot:
        return _SnapshotThatSeeksToTheEnd(self, self._content.copy())


@mutant("ENG-3", "ENG-9")
class SnapshotAnswersARepeatedKeyOnce(FileEngine):
    """`get_many` of a snapshot goes through a dict of its keys; that of the engine does not.

    Imitates the same: two ways to read, of which one is tested.
    """

    def snapshot(self) -> EngineSnapshot:
        return _SnapshotThatAnswersOnce(self, self._content.copy())


@mutant("ENG-40")
class ScanOfAClosedSnapshotEnds(FileEngine):
    """A scan that was begun on a snapshot ends when that is closed, as if the data were over.

    Imitates a generator that asks `while not closed`.
    """

    def snapshot(self) -> EngineSnapshot:
        return _SnapshotWhoseScansEnd(self, self._content.copy())


@mutant("ENG-7", "ENG-16", "ENG-32")
class LargeBatchesAreTwo(FileEngine):
    """A batch of more than 1,000 changes is written as several.

    Imitates a limit on the size of a transaction, met by a loop.
    """

    def log(self, changes: Batch, durability: Durability) -> None:
        listed = list(changes.items())
        for start in range(0, max(len(listed), 1), 1_000):
            super().log(dict(listed[start : start + 1_000]), durability)


@mutant("ENG-8", "ENG-16", "ENG-28")
class FullDiskIsForgotten(FileEngine):
    """A batch that did not fit on the disk is acknowledged.

    Imitates `except OSError: log.warning(...)`.
    """

    def write(self, data: bytes) -> None:
        try:
            super().write(data)
        except StorageError:
            return


@mutant("ENG-8", "ENG-32")
class TornLogIsWrittenOn(FileEngine):
    """What a write that failed left in the log stays there, and the next batch comes behind it.

    Imitates a file that was opened to append, and a writer that never asks where it stands.
    """

    def write(self, data: bytes) -> None:
        assert self._log is not None
        end = os.fstat(self._log).st_size
        try:
            written = os.pwrite(self._log, data, end)
        except OSError as error:
            raise StorageError(f"cannot write the log: {error.strerror}") from error
        if written < len(data):
            raise StorageError(f"the log took {written} of {len(data)} bytes; is the disk full?")
        self._end = end + written


@mutant("ENG-8", "COM-12")
class FirstDurabilityIsKept(FileEngine):
    """Every batch has the durability of the first one since the engine was opened.

    Imitates write options that are made once, by whoever comes first.
    """

    _first: Durability | None = None

    def log(self, changes: Batch, durability: Durability) -> None:
        self._first = self._first or durability
        super().log(changes, self._first)


@mutant("ENG-41")
class CheckpointGoesIntoWhatIsThere(FileEngine):
    """A checkpoint is written into a directory that is there already.

    Imitates `mkdir -p`: files of two engines, or an engine and somebody's notes, lie together.
    """

    def checkpoint(self, path: str | PathLike[str]) -> None:
        self.check_open()
        Path(path).mkdir(parents=True, exist_ok=True)
        (Path(path) / LOG_FILE).write_bytes(frame(dict(self.scan(b""))))


@mutant("ENG-28")
class CheckpointRaisesWhatTheSystemRaises(FileEngine):
    """A checkpoint that cannot be written leaves as the operating system's error.

    Imitates a translation that is around the driver's call, and not around the directory before it.
    """

    def checkpoint(self, path: str | PathLike[str]) -> None:
        self.check_open()
        if Path(path).exists():
            raise InvalidArgumentError(f"there is something at {os.fspath(path)!r} already")
        Path(path).mkdir(parents=True)
        (Path(path) / LOG_FILE).write_bytes(frame(dict(self.scan(b""))))


@mutant("ENG-35")
class OrderIsCheckedWithinAChunk(FileEngine):
    """`ingest` compares the keys of each thousand, and not the last of them with the next.

    Imitates the loop over chunks that begins each time with nothing before it.
    """

    def ingest(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        self.check_open()
        listed = list(pairs)
        for place, ((key, _), (following, _)) in enumerate(pairwise(listed), start=1):
            if key >= following and place % 1_000:
                raise InvalidArgumentError(f"keys must ascend, got {following!r} after {key!r}")
        self.apply(dict(listed), Durability.POWER_LOSS)


@mutant("ENG-23", "ENG-8")
class OtherLivesAreNotWaitedFor(FileEngine):
    """A durable batch waits for the disk when this process has written, and else does not.

    Imitates a flag "something is not on the disk yet" that is false when a store is opened.
    """

    def __init__(self, directory: Path, lock: DirectoryLock) -> None:
        super().__init__(directory, lock)
        self._wrote = False

    def log(self, changes: Batch, durability: Durability) -> None:
        self._wrote = self._wrote or bool(changes)
        super().log(changes, durability if self._wrote else Durability.PROCESS_CRASH)


def _without_extensions(pairs: Iterator[Pair]) -> Iterator[Pair]:
    before: bytes | None = None
    for place, (key, value) in enumerate(pairs):
        if place % _PAGE or before is None or key != before + b"\x00":
            yield key, value
        before = key


def _without_extended(pairs: Iterator[Pair]) -> Iterator[Pair]:
    before: bytes | None = None
    for place, (key, value) in enumerate(pairs):
        if place % _PAGE or before is None or before != key + b"\x00":
            yield key, value
        before = key
