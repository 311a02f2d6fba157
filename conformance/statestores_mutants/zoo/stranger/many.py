"""Engines that are right for few rows, short values and single scans.

A stranger wrote most of these down before he had seen the suite, and it passed them.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import cast
from weakref import ref

from statestores.files.directory_lock import DirectoryLock
from statestores.spi import Durability, EngineSnapshot, WriteBatch
from statestores_memory.snapshot import MemorySnapshot
from statestores_mutants.file_engine import Batch, FileEngine, checked
from statestores_mutants.registry import mutant

Pair = tuple[bytes, bytes]

_PAGE = 1_000
_CHUNK = 500
_BLOCK = 1_024
_LARGE_BYTES = 4 << 20
_TWO_BYTES = 0xFFFF
_LOGGED = 2_048
_RANGE = 64
_PLACES = 64


def _rest(
    pair: Pair, start: bytes, stop: bytes | None, *, reverse: bool
) -> tuple[bytes, bytes | None]:
    return (start, pair[0]) if reverse else (pair[0] + b"\x00", stop)


@mutant("ENG-20")
class LaterPagesAreLive(FileEngine):
    """A scan reads pages of a thousand rows, and all but the first from what is there by then.

    Imitates paging by the last key that was seen, as over HTTP.
    """

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Pair]:
        rows = super().scan(start, stop, reverse=reverse)
        page = list(islice(rows, _PAGE))
        return self._pages(page, start, stop, reverse=reverse)

    def _pages(
        self, page: list[Pair], start: bytes, stop: bytes | None, *, reverse: bool
    ) -> Iterator[Pair]:
        while True:
            for pair in page:
                self.check_open()
                yield pair
            self.check_open()
            if len(page) < _PAGE:
                return
            start, stop = _rest(page[-1], start, stop, reverse=reverse)
            page = list(islice(super().scan(start, stop, reverse=reverse), _PAGE))


@mutant("ENG-6", "ENG-20")
class RestOfAScanIsLive(FileEngine):
    """What `scan_ahead` leaves to be read is looked up when somebody reads it.

    Imitates a generator, whose first line runs at the first step.
    """

    def scan_ahead(
        self, start: bytes, stop: bytes | None, limit: int, *, reverse: bool = False
    ) -> tuple[Sequence[Pair], Iterator[Pair] | None]:
        ahead = list(islice(self.scan(start, stop, reverse=reverse), limit))
        if len(ahead) < limit:
            return ahead, None
        start, stop = _rest(ahead[-1], start, stop, reverse=reverse)
        return ahead, self._later(start, stop, reverse=reverse)

    def _later(self, start: bytes, stop: bytes | None, *, reverse: bool) -> Iterator[Pair]:
        yield from self.scan(start, stop, reverse=reverse)


class _AsksTheEngineForMany(MemorySnapshot):
    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        engine = cast("FileEngine", self._engine)
        return super().get_many(keys[:_CHUNK]) + engine.get_many(keys[_CHUNK:])


@mutant("ENG-9")
class ManyKeysAreAskedOfTheEngine(FileEngine):
    """`get_many` of a snapshot takes the keys beyond the first five hundred from the engine.

    Imitates a second query for what did not fit into the first, outside its transaction.
    """

    def snapshot(self) -> EngineSnapshot:
        return _AsksTheEngineForMany(self, self._content.copy())


@mutant("ENG-2", "ENG-25", "ENG-18")
class ShorterValueKeepsTheTail(FileEngine):
    """A value of 4 MiB or more that replaces a longer one has that one's end behind it.

    Imitates overflow pages that are written over and not cut off.
    """

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        changes = checked(batch)
        for key, value in changes.items():
            before = self.get(key) if value is not None and len(value) >= _LARGE_BYTES else None
            if before is not None and value is not None:
                changes[key] = value + before[len(value) :]
        super().apply(changes, durability)


@mutant("ENG-7", "ENG-8", "ENG-18", "ENG-27")
class ChangesAreCountedInTwoBytes(FileEngine):
    """Of a batch of more than 65,535 changes, the log has as many as the lower two bytes say.

    Imitates a header with a count of sixteen bits; until it is opened again, memory has them all.
    """

    def log(self, changes: Batch, durability: Durability) -> None:
        some = islice(changes.items(), len(changes) & _TWO_BYTES)
        super().log(changes if len(changes) <= _TWO_BYTES else dict(some), durability)


@mutant("ENG-8", "ENG-18", "ENG-25")
class LengthOfAKeyIsTwoBytes(FileEngine):
    """A key of exactly 64 KiB is logged as one of no bytes, and lost when the log is read.

    Imitates a length of sixteen bits, of which the highest is one short.
    """

    def log(self, changes: Batch, durability: Durability) -> None:
        short = {key: value for key, value in changes.items() if len(key) <= _TWO_BYTES}
        super().log(short, durability)


@mutant("ENG-8", "ENG-18", "ENG-27")
class OneBatchInThousandsIsNotLogged(FileEngine):
    """One batch in 2,048 is in memory alone.

    Imitates a switch of logs that a batch falls between.
    """

    def __init__(self, directory: Path, lock: DirectoryLock) -> None:
        self._logged = 0
        super().__init__(directory, lock)

    def log(self, changes: Batch, durability: Durability) -> None:
        self._logged += 1
        if self._logged % _LOGGED:
            super().log(changes, durability)


@mutant("ENG-7", "ENG-24")
class ManyDeletionsAreARange(FileEngine):
    """More than 64 deletions of one batch delete everything from the first to the last of them.

    Imitates `DeleteRange` in the place of many deletions, to spare tombstones.
    """

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        changes = checked(batch)
        gone = sorted(key for key, value in changes.items() if value is None)
        if len(gone) > _RANGE:
            between = [key for key, _ in self.scan(gone[0], gone[-1])]
            changes = dict.fromkeys(between) | changes
        super().apply(changes, durability)


@mutant("ENG-5", "ENG-6")
class BoundsBetweenBlocksSkipARow(FileEngine):
    """A range that begins between two blocks of 1,024 rows begins one row late.

    Imitates an index of the first key of each block, and a search in it that is one off.
    """

    def first(self, start: bytes, stop: bytes | None = None) -> Pair | None:
        return super().first(self._moved(start), stop)

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Pair]:
        return super().scan(self._moved(start), stop, reverse=reverse)

    def _moved(self, start: bytes) -> bytes:
        self.check_open()
        content = self._content
        place = content.bounds(start, None).start
        if not place or place % _BLOCK or place >= len(content.keys):
            return start
        return start if content.keys[place] == start else content.keys[place] + b"\x00"


class _Place:
    """One of the places for scans."""

    is_taken = False


def _until_taken(rows: Iterator[Pair], place: _Place) -> Iterator[Pair]:
    for pair in rows:
        if place.is_taken:
            return
        yield pair


@mutant("ENG-6", "ENG-20")
class ScansTakeEachOthersPlaces(FileEngine):
    """With 64 scans open, the next one takes the place of the first, which ends.

    Imitates a table of readers of a fixed size (LMDB has 126), and whoever finds it full.
    """

    def __init__(self, directory: Path, lock: DirectoryLock) -> None:
        super().__init__(directory, lock)
        self._places: list[ref[_Place]] = []

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Pair]:
        place = _Place()
        self._places = [each for each in self._places if each() is not None]
        if len(self._places) >= _PLACES and (first := self._places.pop(0)()) is not None:
            first.is_taken = True
        self._places.append(ref(place))
        return _until_taken(super().scan(start, stop, reverse=reverse), place)


@mutant("ENG-5", "ENG-11")
class EndIsReadInTwoSteps(FileEngine):
    """`first` finds the lowest key, and then asks for its value.

    Imitates an index and a table that are read one after the other.
    """

    def first(self, start: bytes, stop: bytes | None = None) -> Pair | None:
        found = super().first(start, stop)
        # Which is nothing by then, where the key was deleted in between.
        return found and (found[0], cast("bytes", self.get(found[0])))
