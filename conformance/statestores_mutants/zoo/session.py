"""Session stores that find, keep, order or remove the wrong sessions."""

from collections.abc import Generator, Iterable, Iterator

from statestores.semantics.every_kind.arguments import check_key, check_session, check_value
from statestores.semantics.retained.session import EngineSessionStore
from statestores.semantics.rows.progress import NO_STREAM_TIME
from statestores.spi import Durability, Engine, Session, SessionRecord
from statestores_mutants.registry import mutant

Record = SessionRecord[bytes, bytes]
Records = Iterator[Record]
Opened = Generator[Record, None, None]
Rows = Iterable[tuple[bytes, bytes]]


class CalledPuts(EngineSessionStore):
    """A store whose puts call `_put_checked` and `_put`, and do not have them written out."""

    def put(self, key: bytes, start_ms: int, end_ms: int, value: bytes | None) -> bool:
        check_key(key)
        check_value(value)
        check_session(start_ms, end_ms)
        return self._put_checked(key, start_ms, end_ms, value)


@mutant("SES-3", "SES-8")
class SessionsEndOneMillisecondLate(EngineSessionStore):
    """A session that ends at the horizon is still visible.

    Imitates `<` in the place of `<=` where a put is judged.
    """

    def __init__(
        self, engine: Engine, specification: Session[bytes, bytes], durability: Durability
    ) -> None:
        super().__init__(engine, specification, durability)
        self._retention_ms += 1
        self._horizon -= 1


@mutant("SES-3", "SES-8")
class RetentionIsCountedFromTheStart(CalledPuts):
    """A session that began below the horizon is refused, however late it ends.

    Imitates KAFKA-8315's family: a record is late by the time of its beginning.
    """

    def _put_checked(self, key: bytes, start_ms: int, end_ms: int, value: bytes | None) -> bool:
        if start_ms <= max(self._horizon, 0) and self._stream_time != NO_STREAM_TIME:
            self.check_open()
            return False
        return super()._put_checked(key, start_ms, end_ms, value)


@mutant("SES-4")
class StreamTimeIsTheHighestStart(CalledPuts):
    """The start of a session moves stream time, not its end.

    Imitates a put that was written for windows.
    """

    def _put_checked(self, key: bytes, start_ms: int, end_ms: int, value: bytes | None) -> bool:
        before = self._stream_time
        accepted = super()._put_checked(key, start_ms, end_ms, value)
        if accepted:
            self._advance_stream_time(max(before, start_ms))
        return accepted


@mutant("SES-4")
class RemovalsMoveNoTime(EngineSessionStore):
    """The removal of a session leaves stream time where it is.

    Imitates `remove` as a method of its own, that forgot what `put` does.
    """

    def remove(self, key: bytes, start_ms: int, end_ms: int) -> bool:
        before = self._stream_time
        accepted = super().remove(key, start_ms, end_ms)
        self._advance_stream_time(before)
        return accepted


@mutant("SES-17")
class StreamTimeOfSessionsIsLostAtReopening(EngineSessionStore):
    """Reopened, a store has no stream time, and shows again what had expired.

    Imitates `observedStreamTime`, which Kafka's segments do not store.
    """

    def __init__(
        self, engine: Engine, specification: Session[bytes, bytes], durability: Durability
    ) -> None:
        super().__init__(engine, specification, durability)
        self._advance_stream_time(NO_STREAM_TIME)


@mutant("SES-5")
class RemovalForgetsTheOtherEnd(EngineSessionStore):
    """`remove` removes every session of the key with this start, whatever its end.

    Imitates a session that is known by its start, as a window is.
    """

    def remove(self, key: bytes, start_ms: int, end_ms: int) -> bool:
        accepted = super().remove(key, start_ms, end_ms)
        if accepted:
            for session in list(self.find_sessions(key, None, start_ms)):
                if session.start_ms == start_ms:
                    self.put(key, start_ms, session.end_ms, None)
        return accepted


@mutant("SES-2", "SES-7")
class PutsReplaceTheSessionOfTheirStart(CalledPuts):
    """A put replaces a session of the key with the same start and another end.

    Imitates a session that grows in place, which the caller is to remove himself.
    """

    def _put_checked(self, key: bytes, start_ms: int, end_ms: int, value: bytes | None) -> bool:
        accepted = super()._put_checked(key, start_ms, end_ms, value)
        if accepted and value is not None:
            for session in list(self.find_sessions(key, None, start_ms)):
                if session.start_ms == start_ms and session.end_ms != end_ms:
                    super()._put_checked(key, start_ms, session.end_ms, None)
        return accepted


@mutant("SES-7", "SES-2")
class ContainedSessionsAreSwallowed(CalledPuts):
    """A put removes the sessions of the key that lie within it.

    Imitates a store that merges: who merges is the caller, and he may not want to.
    """

    def _put_checked(self, key: bytes, start_ms: int, end_ms: int, value: bytes | None) -> bool:
        accepted = super()._put_checked(key, start_ms, end_ms, value)
        if accepted and value is not None:
            for session in list(self.find_sessions(key)):
                if start_ms < session.start_ms and session.end_ms < end_ms:
                    super()._put_checked(key, session.start_ms, session.end_ms, None)
        return accepted


@mutant("SES-10")
class EarliestEndIsExclusive(EngineSessionStore):
    """`find_sessions` does not give a session that ends exactly at *earliest_end_ms*.

    Imitates `>` in the place of `>=`: an event at the gap's edge begins a session of its own.
    """

    def find_sessions(
        self,
        key: bytes,
        earliest_end_ms: int | None = None,
        latest_start_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Records:
        records = super().find_sessions(key, earliest_end_ms, latest_start_ms, reverse=reverse)
        return (record for record in records if record.end_ms != earliest_end_ms)


@mutant("SES-10")
class LatestStartIsExclusive(EngineSessionStore):
    """`find_sessions` does not give a session that starts exactly at *latest_start_ms*.

    Imitates the same mistake on the other side.
    """

    def find_sessions(
        self,
        key: bytes,
        earliest_end_ms: int | None = None,
        latest_start_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Records:
        records = super().find_sessions(key, earliest_end_ms, latest_start_ms, reverse=reverse)
        return (record for record in records if record.start_ms != latest_start_ms)


@mutant("SES-10")
class BoundsTheOtherWayFindNothing(EngineSessionStore):
    """`find_sessions` gives nothing when *earliest_end_ms* is the later of the two.

    Imitates a check for inverted ranges: here it asks for what contains a time.
    """

    def find_sessions(
        self,
        key: bytes,
        earliest_end_ms: int | None = None,
        latest_start_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Records:
        records = super().find_sessions(key, earliest_end_ms, latest_start_ms, reverse=reverse)
        if earliest_end_ms is None or latest_start_ms is None or earliest_end_ms <= latest_start_ms:
            return records
        return iter(())


@mutant("SES-11")
class KeysBetweenEndAtAnyTime(EngineSessionStore):
    """`find_all_sessions` minds *earliest_end_ms* at the first key only.

    Imitates bounds of composed keys without a filter (KAFKA-9648).
    """

    def find_all_sessions(
        self,
        earliest_end_ms: int | None = None,
        latest_start_ms: int | None = None,
        first_key: bytes | None = None,
        last_key: bytes | None = None,
        *,
        reverse: bool = False,
    ) -> Records:
        super().find_all_sessions(earliest_end_ms, latest_start_ms, first_key, last_key)
        low = 0 if earliest_end_ms is None else earliest_end_ms
        records = super().find_all_sessions(
            None, latest_start_ms, first_key, last_key, reverse=reverse
        )
        return (record for record in records if record.key != first_key or record.end_ms >= low)


@mutant("SES-12")
class FindingByEndGoesByStart(EngineSessionStore):
    """`find_sessions_by_end` gives the sessions that start within its times.

    Imitates a copy of the window store's `fetch_all`.
    """

    def find_sessions_by_end(
        self,
        first_ms: int | None = None,
        last_ms: int | None = None,
        first_key: bytes | None = None,
        last_key: bytes | None = None,
        *,
        reverse: bool = False,
    ) -> Records:
        super().find_sessions_by_end(first_ms, last_ms, first_key, last_key)
        low = 0 if first_ms is None else first_ms
        high = 2**63 if last_ms is None else last_ms
        records = super().find_sessions_by_end(None, None, first_key, last_key, reverse=reverse)
        return (record for record in records if low <= record.start_ms <= high)


@mutant("SES-13")
class SessionsAreInOrderOfStart(EngineSessionStore):
    """The sessions of a key are ordered by start, then by end.

    Imitates what everybody expects of sessions, and what Kafka's key layout does not give.
    """

    def find_sessions(
        self,
        key: bytes,
        earliest_end_ms: int | None = None,
        latest_start_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Records:
        records = super().find_sessions(key, earliest_end_ms, latest_start_ms, reverse=reverse)
        return _by_start(records, reverse=reverse)


def _by_start(records: Records, *, reverse: bool) -> Records:
    yield from sorted(records, key=lambda record: record.start_ms, reverse=reverse)


@mutant("SES-9", "SES-10")
class SessionsOfOneEventAreLost(EngineSessionStore):
    """A session that ends where it starts is not found.

    Imitates half-open sessions, in which one event has no length.
    """

    def _records(self, rows: Rows, latest_start_ms: int | None, key: bytes | None = None) -> Opened:
        records = super()._records(rows, latest_start_ms, key)
        return (record for record in records if record.start_ms < record.end_ms)


@mutant("SES-14")
class SessionIteratorsSeeTheHorizonMove(EngineSessionStore):
    """An iterator leaves out sessions that have expired since it was made.

    Imitates a lazy filter with the horizon of the moment.
    """

    def _records(self, rows: Rows, latest_start_ms: int | None, key: bytes | None = None) -> Opened:
        records = super()._records(rows, latest_start_ms, key)
        return (record for record in records if record.end_ms > self._horizon)
