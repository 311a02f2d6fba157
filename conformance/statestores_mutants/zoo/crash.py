"""Engines that are right as long as nobody kills them."""

from statestores.semantics.rows.layout import OFFSETS
from statestores.spi import Durability, WriteBatch
from statestores_memory import MemoryEngine
from statestores_mutants.file_engine import Batch, FileEngine, checked, frame
from statestores_mutants.registry import mutant

_BUFFER_BYTES = 64 * 1024


@mutant("ENG-8", "COM-22", "ENG-36")
class BatchesWaitInABuffer(FileEngine):
    """A batch is acknowledged while it waits in a buffer of the process.

    Imitates a file object that nobody flushes (robinhood/faust #340: 299,356 of 300,000 counted).
    """

    _waiting = b""

    def write(self, data: bytes) -> None:
        self._waiting += data
        if len(self._waiting) > _BUFFER_BYTES:
            self._write_waiting()

    def close(self) -> None:
        if self.is_open:
            self._write_waiting()
        super().close()

    def _write_waiting(self) -> None:
        waiting, self._waiting = self._waiting, b""
        super().write(waiting)


@mutant("ENG-8", "COM-22", "ENG-27")
class LastBatchIsHeldBack(FileEngine):
    """A batch is written when the next one comes, or at `close`.

    Imitates group commit that acknowledges before the group is written.
    """

    _held: Batch | None = None

    def log(self, changes: Batch, durability: Durability) -> None:
        held, self._held = self._held, changes
        if held is not None:
            super().log(held, durability)

    def close(self) -> None:
        if self.is_open:
            self.log({}, Durability.PROCESS_CRASH)
        super().close()


@mutant("ENG-7", "COM-2")
class BatchIsTornIntoChanges(FileEngine):
    """Each change of a batch is written by itself.

    Imitates KAFKA-14491, and every store without a write batch (faust-streaming/faust #333).
    """

    def log(self, changes: Batch, durability: Durability) -> None:
        for key, value in changes.items():
            self.write(frame({key: value}))
        super().log({}, durability)


@mutant("COM-2", "ENG-7")
class OffsetsAreWrittenBeforeTheData(FileEngine):
    """The offsets of a batch are written first, then its other rows.

    Imitates a checkpoint that runs ahead: the records in between are lost for ever (KIP-1035).
    """

    def log(self, changes: Batch, durability: Durability) -> None:
        super().log({k: v for k, v in changes.items() if k[:1] == OFFSETS}, durability)
        super().log({k: v for k, v in changes.items() if k[:1] != OFFSETS}, durability)


@mutant("COM-2", "ENG-7")
class OffsetsAreWrittenAfterTheData(FileEngine):
    """The rows of a batch are written first, then its offsets.

    Imitates Kafka's `.checkpoint` beside the store: after a crash, records are counted twice.
    """

    def log(self, changes: Batch, durability: Durability) -> None:
        super().log({k: v for k, v in changes.items() if k[:1] != OFFSETS}, durability)
        super().log({k: v for k, v in changes.items() if k[:1] == OFFSETS}, durability)


@mutant("ENG-27", "COM-2", "COM-22", "ENG-8")
class SmallBatchesOvertakeLargeOnes(FileEngine):
    """A large batch is written after the next small one.

    Imitates writes that are queued by size: a hole before what was found.
    """

    _large: Batch | None = None

    def log(self, changes: Batch, durability: Durability) -> None:
        if self._large is None and len(changes) > 15:
            self._large = changes
            return
        super().log(changes, durability)
        self._write_large(durability)

    def close(self) -> None:
        if self.is_open:
            self._write_large(Durability.PROCESS_CRASH)
        super().close()

    def _write_large(self, durability: Durability) -> None:
        large, self._large = self._large, None
        if large is not None:
            super().log(large, durability)


@mutant("ENG-18", "COM-2", "ENG-8")
class EveryTenthDeletionIsLost(FileEngine):
    """One deletion in ten is not written down.

    Imitates a counter that wraps, or any rare mistake: no single test of deletions shows it.
    """

    _deletions = 0

    def log(self, changes: Batch, durability: Durability) -> None:
        kept = {}
        for key, value in changes.items():
            self._deletions += value is None
            if value is not None or self._deletions % 10:
                kept[key] = value
        super().log(kept, durability)


@mutant("ENG-16")
class FailedBatchIsAppliedInMemory(FileEngine):
    """A batch is applied in memory before it is known to be good.

    Imitates a memtable that is written before the log.
    """

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        self.check_open()
        for key in batch:
            MemoryEngine.apply(self, {key: batch[key]}, durability)
        self.log(checked(batch), durability)
