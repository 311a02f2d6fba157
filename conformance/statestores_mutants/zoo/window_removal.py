"""Window stores whose commits remove other rows than those that have expired, or other amounts."""

from statestores.semantics.retained.column_rows import RetainedBatch
from statestores.semantics.retained.progress import RetainedProgress
from statestores.semantics.retained.rows import RetainedRows, index_above
from statestores.semantics.retained.window import EngineWindowStore
from statestores.spi.engine import EngineReader
from statestores_mutants.registry import mutant

Rows = RetainedBatch


class _Removal(RetainedProgress):
    """Removes expired rows in another way."""

    @classmethod
    def of(cls, progress: RetainedProgress) -> RetainedProgress:
        stored = ("stream_time_ms", "next_sequence", "cursor", "next_group", "gone")
        return cls(**{name: getattr(progress, name) for name in stored})


class _OtherRemoval(EngineWindowStore):
    removal: type[_Removal]

    def _read_committed(self) -> None:
        super()._read_committed()
        self._progress = self._next_progress = self.removal.of(self._progress)


class _OneTooMany(_Removal):
    def remove_expired(
        self, reader: EngineReader, rows: RetainedRows, batch: Rows, horizon_ms: int
    ) -> None:
        super().remove_expired(reader, rows, batch, horizon_ms + 1)


@mutant("WIN-8", "WIN-18")
class RemovalEatsAVisibleWindow(_OtherRemoval):
    """A commit removes the windows that start one millisecond above the horizon.

    Imitates a cleaner with its own idea of the bound (KAFKA-4851).
    """

    removal = _OneTooMany


class _Idle(_Removal):
    def remove_expired(
        self, reader: EngineReader, rows: RetainedRows, batch: Rows, horizon_ms: int
    ) -> None:
        """Do nothing."""


@mutant("WIN-18")
class WindowsAreNeverRemoved(_OtherRemoval):
    """Expired windows are hidden, and stay in the engine.

    Imitates FLINK-40354: a time to live that silently never cleans.
    """

    removal = _Idle


class _Thorough(_Removal):
    def remove_expired(
        self, reader: EngineReader, rows: RetainedRows, batch: Rows, horizon_ms: int
    ) -> None:
        reached: tuple[bytes, int] | None = None
        while reached != (self.cursor, self.gone):
            reached = self.cursor, self.gone
            super().remove_expired(reader, rows, batch, horizon_ms)


@mutant("WIN-19")
class OneCommitRemovesEverything(_OtherRemoval):
    """A commit removes whatever has expired, however much that is.

    Imitates segments that are dropped at once, after a leap of stream time.
    """

    removal = _Thorough


class _Impatient(_Removal):
    def remove_expired(
        self, reader: EngineReader, rows: RetainedRows, batch: Rows, horizon_ms: int
    ) -> None:
        before = self.cursor
        super().remove_expired(reader, rows, batch, horizon_ms)
        if self.cursor > before:
            self.cursor = max(self.cursor, index_above(horizon_ms))


@mutant("WIN-18", "WIN-20")
class RemovalSkipsItsBacklog(_OtherRemoval):
    """When a commit may not remove all that has expired, the rest is never looked at again.

    Imitates a cursor that is set to where it should be, not to where it is.
    """

    removal = _Impatient
