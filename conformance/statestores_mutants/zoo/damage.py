"""Engines that pass damaged files on as data, or make them worse."""

import os
from zlib import crc32

from statestores.errors import StoreCorruptedError
from statestores.spi import Durability
from statestores_memory import MemoryEngine
from statestores_mutants.file_engine import Batch, FileEngine, changes_of, frames
from statestores_mutants.registry import mutant

_HEADER_BYTES = 12


class _OwnLoading(FileEngine):
    """A sound engine whose mutants read the log in another way."""

    def read(self) -> bytes:
        """Return the whole log."""
        assert self._log is not None
        return os.pread(self._log, os.fstat(self._log).st_size, 0)

    def take(self, content: Batch) -> None:
        """Have *content*."""
        MemoryEngine.apply(self, content, Durability.PROCESS_CRASH)


def _bodies(data: bytes) -> list[tuple[int, bytes, bool]]:
    """Return end, body and soundness of the frames of *data*, whatever is wrong with them."""
    found = []
    place = 0
    while len(data) - place >= _HEADER_BYTES:
        length = int.from_bytes(data[place : place + 4], "big")
        expected = int.from_bytes(data[place + 4 : place + 8], "big")
        body = data[place + _HEADER_BYTES : place + _HEADER_BYTES + length]
        place += _HEADER_BYTES + length
        found.append((min(place, len(data)), body, crc32(body) == expected))
    return found


@mutant("ENG-14")
class ChecksumsAreNotVerified(_OwnLoading):
    """The checksums are written, and nobody compares them.

    Imitates a snapshot that is loaded without its checksum (SPARK-21696, SPARK-56461).
    """

    def load(self) -> int:
        content: Batch = {}
        end = 0
        for place, body, _ in _bodies(self.read()):
            content.update(changes_of(body))
            end = place
        self.take(content)
        return end


@mutant("ENG-14")
class OnlyWhatWasClosedIsVerified(_OwnLoading):
    """The sum of the whole log is kept when the engine is closed; without one, nothing is compared.

    Imitates a seal on a file: it is the best check of all, and after a crash there is none.
    """

    def load(self) -> int:
        data, seal = self.read(), self.directory / "SEAL"
        content: Batch = {}
        for _, body, _ in _bodies(data):
            content.update(changes_of(body))
        if seal.exists():
            if seal.read_bytes() != b"%d" % crc32(data):
                raise StoreCorruptedError(f"the log in {str(self.directory)!r} is damaged")
            seal.unlink()
        self.take(content)
        return len(data)

    def close(self) -> None:
        if self.is_open:
            (self.directory / "SEAL").write_bytes(b"%d" % crc32(self.read()))
        super().close()


@mutant("ENG-14", "ENG-27")
class DamagedBatchesAreSkipped(_OwnLoading):
    """A batch whose checksum is wrong is left out, and the later ones are applied.

    Imitates RocksDB's `kSkipAnyCorruptedRecords`: a state that never existed.
    """

    def load(self) -> int:
        content: Batch = {}
        end = 0
        for place, body, sound in _bodies(self.read()):
            content.update(changes_of(body) if sound else ())
            end = place
        self.take(content)
        return end


@mutant("ENG-14", "ENG-31")
class DamageIsWipedAway(_OwnLoading):
    """An engine that cannot be read is opened empty.

    Imitates the only cure that users were given (faust-streaming/faust #432), done unasked.
    """

    def load(self) -> int:
        try:
            return super().load()
        except StoreCorruptedError:
            assert self._log is not None
            os.ftruncate(self._log, 0)
            return 0


@mutant("ENG-31")
class DamageIsCutOffBeforeItIsReported(_OwnLoading):
    """The opening that finds damage raises, and has shortened the file before.

    Imitates repair on open: who wants to rescue the data comes too late.
    """

    def load(self) -> int:
        end = 0
        try:
            for place, _ in frames(self.read()):
                end = place
        except StoreCorruptedError:
            assert self._log is not None
            os.ftruncate(self._log, end)
            raise
        return super().load()


@mutant("ENG-32", "ENG-7")
class TornBatchIsAppliedInPart(_OwnLoading):
    """Of a batch that was cut off, the changes that are whole are applied.

    Imitates a log of records and not of batches (SPARK-21696: a partial file read as complete).
    """

    def load(self) -> int:
        super().load()
        data = self.read()
        if tail := [body for end, body, sound in _bodies(data) if not sound and end == len(data)]:
            self.take(dict(changes_of(tail[0])))
        return len(data)


@mutant("ENG-14")
class MissingLogIsAnEmptyEngine(FileEngine):
    """An engine whose log was removed opens empty.

    Imitates `O_CREAT` without asking whether there was something before.
    """

    def open_log(self) -> int:
        (self.directory / "CREATED").unlink(missing_ok=True)
        return super().open_log()


@mutant("ENG-14", "ENG-32")
class DamageEndsTheLog(_OwnLoading):
    """Reading stops at the first damaged batch, wherever it is, and opens with what came before.

    Imitates a recovery that takes all damage for a torn tail.
    """

    def load(self) -> int:
        content: Batch = {}
        end = 0
        try:
            for place, changes in frames(self.read()):
                content.update(changes)
                end = place
        except StoreCorruptedError:
            pass
        self.take(content)
        return end
