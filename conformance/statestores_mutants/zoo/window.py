"""Window stores that show, keep, order or remove the wrong windows."""

from collections.abc import Generator, Iterable, Iterator

from statestores.semantics.every_kind.arguments import check_key, check_time, check_value
from statestores.semantics.retained.rows import Row
from statestores.semantics.retained.window import EngineWindowStore
from statestores.semantics.retained.window_reads import CommittedWindows, UncommittedWindows
from statestores.semantics.rows.progress import NO_STREAM_TIME
from statestores.spi import Durability, Engine, Isolation, ReadOnlyWindowStore, Window, WindowRecord
from statestores.spi.records import Changes
from statestores_mutants.registry import mutant

Facade = ReadOnlyWindowStore[bytes, bytes]
Record = WindowRecord[bytes, bytes]
Records = Iterator[Record]
Opened = Generator[Record, None, None]
Rows = dict[bytes, bytes | None]


def _retain(store: EngineWindowStore, retention_ms: int) -> None:
    """Let the owner reckon with another retention than the one that is written down."""
    store._retention_ms = retention_ms  # noqa: SLF001
    store._horizon = store._stream_time - retention_ms  # noqa: SLF001


class CalledPuts(EngineWindowStore):
    """A store whose puts call `_put_checked` and `_put`, and do not have them written out."""

    def put(self, key: bytes, value: bytes | None, window_start_ms: int) -> bool:
        check_key(key)
        check_value(value)
        check_time("window_start_ms", window_start_ms)
        return self._put_checked(key, value, window_start_ms)

    def _put_columns(
        self,
        keys: list[bytes],
        values: list[bytes | None],
        starts: list[int],
        distinct: set[int],
    ) -> int:
        return sum(map(self._put_checked, keys, values, starts))


class _OtherRetention(EngineWindowStore):
    def __init__(
        self, engine: Engine, specification: Window[bytes, bytes], durability: Durability
    ) -> None:
        super().__init__(engine, specification, durability)
        _retain(self, self._wrong_retention_ms(specification))

    def _wrong_retention_ms(self, specification: Window[bytes, bytes]) -> int:
        raise NotImplementedError


@mutant("WIN-3", "WIN-8")
class WindowsEndOneMillisecondLate(_OtherRetention):
    """A window that starts at the horizon is still visible.

    Imitates `<` in the place of `<=` where a put is judged.
    """

    def _wrong_retention_ms(self, specification: Window[bytes, bytes]) -> int:
        return specification.retention_ms + 1


@mutant("WIN-3", "WIN-8")
class WindowsEndOneMillisecondEarly(_OtherRetention):
    """A window that starts one millisecond above the horizon is gone.

    Imitates the same mistake on the other side.
    """

    def _wrong_retention_ms(self, specification: Window[bytes, bytes]) -> int:
        return specification.retention_ms - 1


@mutant("WIN-3", "WIN-8")
class RetentionIsCountedFromTheEnd(_OtherRetention):
    """A window expires when its end has reached the horizon, not its start.

    Imitates the grace period of Kafka's windowed aggregations, which is counted from the end.
    """

    def _wrong_retention_ms(self, specification: Window[bytes, bytes]) -> int:
        return specification.retention_ms + specification.window_size_ms


@mutant("WIN-4")
class StreamTimeFollowsTheLastPut(CalledPuts):
    """An accepted put of an older window moves stream time backward.

    Imitates `self._stream_time = time_ms` without the maximum.
    """

    def _put(self, data_key: bytes, value: bytes | None, time_ms: int, size: int) -> bool:
        accepted = super()._put(data_key, value, time_ms, size)
        if accepted:
            self._advance_stream_time(time_ms)
        return accepted


@mutant("WIN-4")
class DeletionsMoveNoTime(CalledPuts):
    """A put of `None` leaves stream time where it is.

    Imitates bookkeeping that sits behind `if value is None: return`.
    """

    def _put(self, data_key: bytes, value: bytes | None, time_ms: int, size: int) -> bool:
        before = self._stream_time
        accepted = super()._put(data_key, value, time_ms, size)
        if value is None:
            self._advance_stream_time(before)
        return accepted


@mutant("WIN-3")
class RefusedPutsAreChanges(CalledPuts):
    """A put that is not accepted is among the pending changes all the same.

    Imitates a log that is written before the put is judged: replicas see what the store refused.
    """

    def _put(self, data_key: bytes, value: bytes | None, time_ms: int, size: int) -> bool:
        accepted = super()._put(data_key, value, time_ms, size)
        if not accepted:
            self._pending[data_key] = value
        return accepted


@mutant("WIN-17", "WIN-21", "WIN-6")
class SequencesBeginAgainAtReopening(EngineWindowStore):
    """Reopened, a store numbers its duplicates from 0 again and replaces older ones.

    Imitates Kafka's `seqnum`, a field in memory (KAFKA-10494).
    """

    def __init__(
        self, engine: Engine, specification: Window[bytes, bytes], durability: Durability
    ) -> None:
        super().__init__(engine, specification, durability)
        self._next_sequence = 0


@mutant("WIN-21")
class SequencesIgnoreWhatWasReplayed(EngineWindowStore):
    """A value that is put after a replay takes a number that was replayed.

    Imitates a restore that fills the store behind the counter's back.
    """

    def _take_note_of(self, numbers: list[int]) -> None:
        """Do not."""


@mutant("WIN-17")
class StreamTimeOfWindowsIsLostAtReopening(EngineWindowStore):
    """Reopened, a store has no stream time, and shows again what had expired.

    Imitates `observedStreamTime`, which Kafka's segments do not store.
    """

    def __init__(
        self, engine: Engine, specification: Window[bytes, bytes], durability: Durability
    ) -> None:
        super().__init__(engine, specification, durability)
        self._advance_stream_time(NO_STREAM_TIME)


@mutant("COM-20", "WIN-8")
class LoadingForgetsStreamTimeOfWindows(EngineWindowStore):
    """A load takes stream time from the rows, not from what it is told.

    Imitates an import of rows alone: what moved time furthest may have been deleted.
    """

    def load(self, changes: Changes, *, stream_time_ms: int | None = None) -> None:
        super().load(changes)


@mutant("WIN-15")
class WindowsEndInclusively(EngineWindowStore):
    """The end of a returned window is its last millisecond.

    Imitates the two meanings that ends of windows have within Kafka itself.
    """

    def _records(self, rows: Iterable[Row], key: bytes | None = None) -> Opened:
        for record in super()._records(rows, key):
            yield record._replace(end_ms=record.end_ms - 1)


@mutant("WIN-10")
class FetchedRangeExcludesItsEnd(EngineWindowStore):
    """`fetch_range` does not give the window that starts at *last_ms*.

    Imitates half-open ranges under an inclusive name.
    """

    def fetch_range(
        self,
        key: bytes,
        first_ms: int | None = None,
        last_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Records:
        records = super().fetch_range(key, first_ms, last_ms, reverse=reverse)
        return (record for record in records if record.start_ms != last_ms)


@mutant("WIN-11")
class KeysBetweenHaveAnyTime(EngineWindowStore):
    """`fetch_all` minds its times at the first and the last key only.

    Imitates bounds of composed keys without a filter: KAFKA-9648 and others before it.
    """

    def fetch_all(
        self,
        first_ms: int | None = None,
        last_ms: int | None = None,
        first_key: bytes | None = None,
        last_key: bytes | None = None,
        *,
        reverse: bool = False,
    ) -> Records:
        super().fetch_all(first_ms, last_ms, first_key, last_key)  # refuses what it does
        low = 0 if first_ms is None else first_ms
        high = 2**63 if last_ms is None else last_ms
        records = super().fetch_all(None, None, first_key, last_key, reverse=reverse)
        return (
            record
            for record in records
            if (record.key != first_key or low <= record.start_ms)
            and (record.key != last_key or record.start_ms <= high)
        )


@mutant("WIN-12")
class FetchAllIsInOrderOfTime(EngineWindowStore):
    """`fetch_all` orders by start and then by key.

    Imitates Kafka's segments: its order depends on where a segment ends.
    """

    def fetch_all(
        self,
        first_ms: int | None = None,
        last_ms: int | None = None,
        first_key: bytes | None = None,
        last_key: bytes | None = None,
        *,
        reverse: bool = False,
    ) -> Records:
        records = super().fetch_all(first_ms, last_ms, first_key, last_key, reverse=reverse)
        return _by_start(records, reverse=reverse)


def _by_start(records: Records, *, reverse: bool) -> Records:
    yield from sorted(records, key=lambda record: record.start_ms, reverse=reverse)


@mutant("WIN-12")
class DuplicatesAreNotReversed(EngineWindowStore):
    """With `reverse=True`, the duplicates of a window come in the order of their puts.

    Imitates lists of values under one key, which a reverse iterator does not turn round.
    """

    def fetch_range(
        self,
        key: bytes,
        first_ms: int | None = None,
        last_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Records:
        records = super().fetch_range(key, first_ms, last_ms, reverse=reverse)
        return _window_by_window(records) if reverse else records


def _window_by_window(records: Records) -> Records:
    together: list[Record] = []
    for record in records:
        if together and together[0].start_ms != record.start_ms:
            yield from reversed(together)
            together = []
        together.append(record)
    yield from reversed(together)


@mutant("WIN-9")
class FetchGivesTheFirstDuplicate(EngineWindowStore):
    """`fetch` returns the duplicate that was put first.

    Imitates a seek to the beginning of the window's rows.
    """

    def fetch(self, key: bytes, start_ms: int) -> bytes | None:
        found = super().fetch(key, start_ms)
        if found is None or not self._rows.has_number:
            return found
        return next(self.fetch_range(key, start_ms, start_ms)).value


@mutant("WIN-8", "WIN-3")
class FetchShowsWhatIsStillStored(EngineWindowStore):
    """`fetch` returns an expired window until it is removed.

    Imitates expiry by segments (KAFKA-10322): reads see what the cleaner has not reached.
    """

    def fetch(self, key: bytes, start_ms: int) -> bytes | None:
        found = super().fetch(key, start_ms)
        if found is not None or self._rows.has_number:
            return found
        self._gather()
        data_key = self._rows.data_key(key, start_ms)
        if data_key in self._pending:
            return self._pending[data_key]
        return self._engine.get(data_key)


class _AheadOfItsContent(CommittedWindows):
    @property
    def _retention_ms(self) -> int:
        owner = self._store
        assert isinstance(owner, EngineWindowStore)
        committed = owner._progress.stream_time_ms  # noqa: SLF001
        return self._written_ms - (owner._stream_time - committed)  # noqa: SLF001

    @_retention_ms.setter
    def _retention_ms(self, retention_ms: int) -> None:
        self._written_ms = retention_ms


@mutant("WIN-8", "ROF-2")
class CommittedFacadesJudgeByPendingTime(EngineWindowStore):
    """A committed facade hides windows by the stream time of pending puts.

    Imitates one field in memory that owner and readers share.
    """

    def read_only(self, isolation: Isolation | str = Isolation.READ_COMMITTED) -> Facade:
        facade = super().read_only(isolation)
        if isinstance(facade, UncommittedWindows):
            return facade
        return _AheadOfItsContent(self, self._engine, self._rows, self._window)


@mutant("WIN-13")
class IteratorsLoseWhatExpiresMeanwhile(EngineWindowStore):
    """An iterator leaves out windows that have expired since it was made.

    Imitates a lazy filter with the horizon of the moment.
    """

    def _records(self, rows: Iterable[Row], key: bytes | None = None) -> Opened:
        return (record for record in super()._records(rows, key) if record.start_ms > self._horizon)


@mutant("WIN-6")
class DeletionsReachDuplicates(CalledPuts):
    """In a store that retains duplicates a put of `None` deletes the first value of the window.

    Imitates `put(null)` on a store that has no single value to delete.
    """

    def _put_checked(self, key: bytes, value: bytes | None, start_ms: int) -> bool:
        if value is None and self._rows.has_number:
            for data_key, _ in self._visible_rows(key, key, start_ms, start_ms, reverse=False):
                return self._put(data_key, None, start_ms, len(key) + self._times_bytes)
        return super()._put_checked(key, value, start_ms)
