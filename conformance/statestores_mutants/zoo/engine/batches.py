"""Engines that apply batches wrongly."""

import time
from collections.abc import Iterable

from statestores.errors import InvalidArgumentError, StorageError
from statestores.spi import Durability, WriteBatch
from statestores_memory import MemoryEngine
from statestores_memory.content import Content
from statestores_mutants.file_engine import Batch, FileEngine, checked, frame
from statestores_mutants.registry import mutant


@mutant("ENG-7")
class ForgetsDeletions(FileEngine):
    """A deletion that comes together with puts is left out.

    Imitates a batch writer that separates puts and deletions and loses one of the lists
    (KAFKA-7895: a restored tombstone was ignored).
    """

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        changes = checked(batch)
        if any(value is not None for value in changes.values()):
            changes = {key: value for key, value in changes.items() if value is not None}
        super().apply(changes, durability)


@mutant("ENG-18")
class DeletionsAreNotLogged(FileEngine):
    """A deletion takes effect, and is not written to the disk.

    Imitates a log format without tombstones: what was deleted is back after a restart.
    """

    def log(self, changes: Batch, durability: Durability) -> None:
        super().log({k: v for k, v in changes.items() if v is not None}, durability)


@mutant("ENG-7", "ENG-2")
class OverwritingIsIgnored(FileEngine):
    """A put of a key that is there changes nothing.

    Imitates `INSERT OR IGNORE`.
    """

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        changes = checked(batch)
        new = {k: v for k, v in changes.items() if v is None or self.get(k) is None}
        super().apply(new, durability)


@mutant("ENG-16")
class HalfABatchIsApplied(FileEngine):
    """A batch is applied change by change; when it breaks, what came before stays.

    Imitates KAFKA-14491: a versioned store could leave a write to several segments half done.
    """

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        for key, value in batch.items():
            super().apply({key: value}, durability)
        super().apply({}, durability)


@mutant("ENG-11")
class ReadersSeeHalfABatch(FileEngine):
    """A batch is durable as a whole, and becomes visible in two halves.

    Imitates a memtable that readers may look into while a batch is being inserted.
    """

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        self.check_open()
        changes = checked(batch)
        self.log(changes, durability)
        rows = list(changes.items())
        MemoryEngine.apply(self, dict(rows[: len(rows) // 2]), durability)
        time.sleep(0.0005)
        MemoryEngine.apply(self, dict(rows[len(rows) // 2 :]), durability)


@mutant("ENG-7")
class BatchIsAppliedLater(FileEngine):
    """A batch is kept as it was given, and merged by the next read.

    Imitates a lazy memtable: the caller still owns the mapping, and changes it.
    """

    _given: WriteBatch | None = None

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        with self._lock:
            self._readable()
        self.log(checked(batch), durability)
        self._given = batch

    def _readable(self) -> Content:
        content = super()._readable()
        if self._given is not None:
            given, self._given = self._given, None
            content = content.copy()
            content.update(given)
            self._content = content
        return content


@mutant("ENG-23")
class EmptyBatchIsRefused(FileEngine):
    """A batch without changes is an error.

    Imitates a driver's "nothing to write" (KAFKA-17411: what does an empty commit mean?).
    """

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        if not checked(batch):
            raise StorageError("there is nothing to write")
        super().apply(batch, durability)


@mutant("ENG-24")
class DeletingNothingIsRefused(FileEngine):
    """Deleting a key that is not there is an error.

    Imitates LMDB's MDB_NOTFOUND, passed on.
    """

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        for key, value in checked(batch).items():
            if value is None and self.get(key) is None:
                raise StorageError(f"there is no {key!r}")
        super().apply(batch, durability)


@mutant("ENG-8")
class PointReadsAreCached(FileEngine):
    """`get` answers from a cache that a batch does not clear.

    Imitates a read cache in front of a store that is written past it.
    """

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]  # those of `FileEngine`
        self._cache: Batch = {}

    def get(self, key: bytes) -> bytes | None:
        if key not in self._cache:
            self._cache[key] = super().get(key)
        self.check_open()
        return self._cache[key]


@mutant("ENG-35")
class IngestTakesAnyOrder(FileEngine):
    """`ingest` sorts keys that do not ascend, and takes the last of equal ones.

    Imitates a helpful bulk loader: the mistake of the caller stays unseen.
    """

    def ingest(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        self.check_open()
        self.apply(dict(sorted(pairs)), Durability.POWER_LOSS)


@mutant("ENG-34", "ENG-35")
class IngestLoadsUpToTheFailure(FileEngine):
    """`ingest` applies pairs as they come, and stops where they break off.

    Imitates a bulk load in batches.
    """

    def ingest(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        self.check_open()
        before = b""
        for key, value in pairs:
            if key <= before:
                raise InvalidArgumentError(f"keys must ascend, got {key!r} after {before!r}")
            self.apply({key: value}, Durability.PROCESS_CRASH)
            before = key


@mutant("ENG-16", "ENG-34")
class IngestFailsWhenItIsDone(FileEngine):
    """`ingest` writes a note when the pairs are in, and without room for it says that it failed.

    Imitates our own RocksDB engine, which noted the sequence numbers of an ingestion in the log.
    """

    def ingest(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        super().ingest(pairs)
        self.write(frame({}))


@mutant("ENG-34")
class IngestLosesToWhatIsStored(FileEngine):
    """`ingest` keeps the stored value of a key.

    Imitates a sorted file that goes in at the bottom level, below what is there
    (RocksDB's `ingest_behind`).
    """

    def ingest(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        super().ingest(pair for pair in list(pairs) if self.get(pair[0]) is None)
