"""Stores that commit, roll back and close wrongly."""

from collections.abc import Mapping
from types import TracebackType

from statestores.errors import StateStoreError
from statestores.semantics.key_value.store import EngineKeyValueStore
from statestores.semantics.rows.closed_rows import ClosedRows
from statestores.semantics.rows.layout import DATA
from statestores.semantics.rows.write_buffer import WriteBuffer
from statestores.semantics.versioned.store import EngineVersionedStore
from statestores.spi import Durability, TopicPartition
from statestores_mutants.registry import mutant

Offsets = Mapping[TopicPartition, int | None]


@mutant("COM-4", "COM-1")
class EmptyCommitDropsPendingWrites(EngineKeyValueStore):
    """`commit({})` forgets what is pending.

    Imitates KAFKA-17411: an empty map of offsets was nobody's case.
    """

    def commit(self, offsets: Offsets, *, durability: Durability | None = None) -> None:
        if isinstance(offsets, dict) and not offsets:
            self.rollback()
        super().commit(offsets, durability=durability)


@mutant("COM-4", "COM-1")
class EmptyCommitDoesNothing(EngineVersionedStore):
    """`commit({})` returns at once; what was pending stays so.

    Imitates `if not offsets: return`, the other reading of KAFKA-17411.
    """

    def commit(self, offsets: Offsets, *, durability: Durability | None = None) -> None:
        self.check_open()
        if not isinstance(offsets, dict) or offsets:
            super().commit(offsets, durability=durability)


@mutant("COM-8")
class CloseCommits(EngineKeyValueStore):
    """`close` commits what is pending.

    Imitates stores that flush when they are closed, in the middle of a change too.
    """

    def close(self) -> None:
        if self.is_open:
            self.commit({})
        super().close()


@mutant("COM-8")
class EndOfABlockCommits(EngineVersionedStore):
    """A `with` block that ends without an exception commits.

    Imitates `sqlite3.Connection`, and what users of it expect.
    """

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None and self.is_open:
            self.commit({})
        super().__exit__(kind, error, traceback)


@mutant("COM-7")
class RollbackKeepsOneKey(EngineKeyValueStore):
    """The first write after a commit survives a rollback.

    Imitates an undo list that is off by one.
    """

    def rollback(self) -> None:
        kept = next(iter(self._rows.items()), None)
        super().rollback()
        if kept is not None:
            self._rows[kept[0]] = kept[1]


@mutant("COM-7")
class RollbackKeepsDeletions(EngineKeyValueStore):
    """A rollback forgets puts, and not deletions.

    Imitates a rollback that looks for values to restore (KAFKA-7895).
    """

    def rollback(self) -> None:
        deleted = [row for row, value in self._rows.items() if value is None]
        super().rollback()
        self._rows.update(dict.fromkeys(deleted))


@mutant("COM-7")
class RollbackKeepsThePosition(EngineKeyValueStore):
    """A rollback leaves the position where it was.

    Imitates two states of which one is forgotten: the position then runs ahead of the content.
    """

    def rollback(self) -> None:
        position = self._position
        super().rollback()
        self._position = position


@mutant("COM-1", "COM-7")
class WritesGoStraightThrough(EngineKeyValueStore):
    """A write goes to the engine at once; the commit only adds the offsets.

    Imitates Kafka's state stores before KIP-892 (KAFKA-14412), and most key-value wrappers.
    """

    def put(self, key: bytes, value: bytes | None) -> None:
        super().put(key, value)
        self._engine.apply({DATA + key: value}, Durability.PROCESS_CRASH)


@mutant("COM-9")
class FailedCommitLosesTheWrites(EngineKeyValueStore):
    """A commit that raises forgets what was pending.

    Imitates a buffer that is emptied first and written then.
    """

    def commit(self, offsets: Offsets, *, durability: Durability | None = None) -> None:
        try:
            super().commit(offsets, durability=durability)
        except StateStoreError:
            if self.is_open:
                self._buffer = WriteBuffer()
                self._rows = self._buffer.rows
            raise


@mutant("COM-9", "COM-19")
class BadOffsetsCommitTheWrites(EngineVersionedStore):
    """Offsets are judged when the writes have been committed.

    Imitates two steps in the wrong order.
    """

    def commit(self, offsets: Offsets, *, durability: Durability | None = None) -> None:
        super().commit({}, durability=durability)
        super().commit(offsets, durability=durability)


@mutant("COM-16")
class UncommittedBytesGrowForEver(EngineKeyValueStore):
    """`uncommitted_bytes` is not reset by a rollback.

    Imitates a counter that only the happy path clears.
    """

    def rollback(self) -> None:
        counted = self._uncommitted_bytes
        super().rollback()
        self._uncommitted_bytes = counted


@mutant("COM-25")
class DurabilityOfACommitIsIgnored(EngineKeyValueStore):
    """Every commit has the durability of the store, whatever it asks for.

    Imitates SPARK-56461 once more: a switch that is accepted and has no effect.
    """

    def commit(self, offsets: Offsets, *, durability: Durability | None = None) -> None:
        super().commit(offsets)


@mutant("COM-15")
class ClosedStoreTakesWrites(EngineKeyValueStore):
    """`put` on a closed store succeeds, and is forgotten.

    Imitates a buffer that does not know that its store is gone: data lost in silence.
    """

    def _close_pending(self, closed: ClosedRows) -> None:
        super()._close_pending(closed)
        self._rows = {}


@mutant("COM-18")
class TruncationKeepsOffsets(EngineKeyValueStore):
    """`truncate` deletes the content and leaves the offsets.

    Imitates a store that was wiped below its checkpoint: nothing is ever restored (KAFKA-20663).
    """

    def truncate(self) -> None:
        offsets = self.committed_offsets()
        super().truncate()
        self.commit(offsets)


@mutant("COM-18")
class TruncationIsPending(EngineKeyValueStore):
    """`truncate` deletes with the next commit.

    Imitates a loop over `delete`.
    """

    def truncate(self) -> None:
        self.check_open()
        self._forget_everything_pending()
        for key, _ in list(self.range()):
            self.put(key, None)


@mutant("COM-18", "VRS-3")
class TruncationKeepsStreamTime(EngineVersionedStore):
    """`truncate` leaves stream time where it was.

    Imitates state that is kept beside the rows: the new history is late before it begins.
    """

    def truncate(self) -> None:
        before = self._stream_time
        super().truncate()
        self._stream_time = before
