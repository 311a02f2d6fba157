"""Versioned stores that keep their history too short or too long."""

from statestores.semantics.rows.commit_batch import CommitBatch
from statestores.semantics.rows.layout import DATA, HISTORY
from statestores.semantics.rows.progress import NO_STREAM_TIME, Progress
from statestores.semantics.rows.row_cache import DEFAULT_READ_CACHE_BYTES
from statestores.semantics.versioned.rows import read_latest
from statestores.semantics.versioned.store import EngineVersionedStore
from statestores.semantics.versioned.vacuum import Vacuum
from statestores.semantics.versioned.view import VersionedView
from statestores.spi import Durability, Engine, Versioned, VersionedRecord
from statestores.spi.engine import EngineReader
from statestores_mutants.registry import mutant

Record = VersionedRecord[bytes]
Rows = dict[bytes, bytes | None]


def _retention_of(
    store: EngineVersionedStore, specification: Versioned[bytes, bytes], difference_ms: int
) -> None:
    """Read and write with another retention than the one that is written down."""
    store._retention_ms = max(0, specification.history_retention_ms + difference_ms)  # noqa: SLF001


@mutant("VRS-11", "VRS-9", "VRS-2")
class HistoryEndsOneMillisecondEarly(EngineVersionedStore):
    """The horizon is one millisecond too high.

    Imitates `<=` in the place of `<`, at the edge where nobody looks.
    """

    def __init__(
        self, engine: Engine, specification: Versioned[bytes, bytes], durability: Durability
    ) -> None:
        super().__init__(engine, specification, durability)
        _retention_of(self, specification, -1)


@mutant("VRS-11", "VRS-9", "VRS-2", "VRS-29")
class HistoryEndsOneMillisecondLate(EngineVersionedStore):
    """The horizon is one millisecond too low.

    Imitates the same mistake on the other side.
    """

    def __init__(
        self, engine: Engine, specification: Versioned[bytes, bytes], durability: Durability
    ) -> None:
        super().__init__(engine, specification, durability)
        _retention_of(self, specification, 1)


@mutant("VRS-11")
class ExpiredVersionsShowUntilTheyAreRemoved(EngineVersionedStore):
    """A read returns a version below the horizon as long as it is stored.

    Imitates expiry by compaction: what a reader sees depends on when it ran (KAFKA-13499).
    """

    def _view(self) -> VersionedView:
        return VersionedView(self._engine, self._pending, self._stream_time, 2**62)


@mutant("VRS-30")
class TheLatestExpires(EngineVersionedStore):
    """The latest version of a key is not returned once it is below the horizon.

    Imitates a time to live, which is another thing (confluentinc/ksql #3519).
    """

    def get(self, key: bytes, as_of_ms: int | None = None) -> Record | None:
        record = super().get(key, as_of_ms)
        if record is None or record.valid_from_ms >= self._stream_time - self._retention_ms:
            return record
        return None if record.valid_to_ms is None else record


class _EatsTheLatest(Vacuum):
    def sweep(self, reader: EngineReader, rows: Rows, progress: Progress, horizon_ms: int) -> None:
        super().sweep(reader, rows, progress, horizon_ms)
        for row_key, row in reader.scan(DATA, HISTORY):
            if row_key not in rows and read_latest(row).valid_from_ms < horizon_ms:
                rows[row_key] = None


@mutant("VRS-30", "VRS-14")
class VacuumEatsTheLatest(EngineVersionedStore):
    """The vacuum removes whatever began below the horizon, the latest version too.

    Imitates quixio/quix-streams PR 1129: a sweep deleted a key that was still in use.
    """

    def __init__(
        self, engine: Engine, specification: Versioned[bytes, bytes], durability: Durability
    ) -> None:
        super().__init__(engine, specification, durability)
        self._vacuum = _EatsTheLatest(specification.history_retention_ms, DEFAULT_READ_CACHE_BYTES)


class _Idle(Vacuum):
    def sweep(self, reader: EngineReader, rows: Rows, progress: Progress, horizon_ms: int) -> None:
        """Do nothing."""


@mutant("VRS-14")
class NothingIsEverRemoved(EngineVersionedStore):
    """Expired versions are hidden, and stay in the engine.

    Imitates FLINK-40354: a time to live that silently never cleans.
    """

    def __init__(
        self, engine: Engine, specification: Versioned[bytes, bytes], durability: Durability
    ) -> None:
        super().__init__(engine, specification, durability)
        self._vacuum = _Idle(specification.history_retention_ms, DEFAULT_READ_CACHE_BYTES)


class _Thorough(Vacuum):
    def sweep(self, reader: EngineReader, rows: Rows, progress: Progress, horizon_ms: int) -> None:
        if progress.floor_ms <= horizon_ms:
            self._due.forget()
            self.rate.grant(0, besides=10**9)
        super().sweep(reader, rows, progress, horizon_ms)
        self.rate.spend(rests=True)


@mutant("VRS-27")
class OneCommitPaysForTheBacklog(EngineVersionedStore):
    """A commit removes everything that has expired, however much that is.

    Imitates segments that are dropped at once: one commit in a thousand takes seconds.
    """

    def __init__(
        self, engine: Engine, specification: Versioned[bytes, bytes], durability: Durability
    ) -> None:
        super().__init__(engine, specification, durability)
        self._vacuum = _Thorough(specification.history_retention_ms, DEFAULT_READ_CACHE_BYTES)


@mutant("VRS-28", "COM-1")
class RemovalIsABatchOfItsOwn(EngineVersionedStore):
    """The vacuum applies its deletions before the commit's batch.

    Imitates a background job: SPARK-47036, compaction that raced with the commit.
    """

    def _pending_rows(self) -> CommitBatch:
        rows = super()._pending_rows()
        removed = [key for key, value in rows.items() if key[:1] == HISTORY and value is None]
        if removed:
            self._engine.apply(dict.fromkeys(removed), Durability.PROCESS_CRASH)
        return rows


@mutant("VRS-15", "VRS-14")
class VacuumBeginsAgainAtEachOpening(EngineVersionedStore):
    """Reopened, a store knows nothing of versions that were superseded before.

    Imitates progress that is kept in memory: a store that is opened often grows for ever.
    """

    def _read_committed(self) -> None:
        super()._read_committed()
        fresh = Progress(stream_time_ms=self._progress.stream_time_ms)
        self._progress = self._next_progress = fresh


@mutant("VRS-13", "VRS-3")
class StreamTimeIsLostAtReopening(EngineVersionedStore):
    """Reopened, a store has no stream time.

    Imitates Kafka's versioned store, whose observed stream time is not stored (VER-23).
    """

    def __init__(
        self, engine: Engine, specification: Versioned[bytes, bytes], durability: Durability
    ) -> None:
        super().__init__(engine, specification, durability)
        self._stream_time = NO_STREAM_TIME


@mutant("VRS-13", "VRS-3", "VRS-2")
class StreamTimeIsTheHighestVersion(EngineVersionedStore):
    """Reopened, a store takes the highest timestamp of a value for stream time.

    Imitates state that is rebuilt from what is left: deletions had moved time on.
    """

    def __init__(
        self, engine: Engine, specification: Versioned[bytes, bytes], durability: Durability
    ) -> None:
        super().__init__(engine, specification, durability)
        latest = [read_latest(row) for _, row in engine.scan(DATA, HISTORY)]
        starts = [version.valid_from_ms for version in latest if version.value is not None]
        self._stream_time = max(starts, default=NO_STREAM_TIME)


@mutant("VRS-29")
class NoRetentionIsEverlasting(EngineVersionedStore):
    """A retention of 0 means that history is kept for ever.

    Imitates configurations in which 0 is "no limit".
    """

    def __init__(
        self, engine: Engine, specification: Versioned[bytes, bytes], durability: Durability
    ) -> None:
        super().__init__(engine, specification, durability)
        self._retention_ms = specification.history_retention_ms or 2**62
