"""Timestamped stores that lose timestamps or stream time, or take them for something else."""

from statestores.semantics.rows.layout import DATA, HISTORY
from statestores.semantics.rows.progress import NO_STREAM_TIME
from statestores.semantics.timestamped.content import pending_columns
from statestores.semantics.timestamped.store import EngineTimestampedKeyValueStore
from statestores.spi import Changes, TimestampedValue
from statestores.spi.stores.store import Values
from statestores.spi.values import as_list
from statestores_mutants.registry import mutant

Rows = dict[bytes, bytes | None]


@mutant("TKV-1")
class TimestampsAreLostByTheCommit(EngineTimestampedKeyValueStore):
    """Committed values have no timestamp.

    Imitates KAFKA-8455's family: a plain store under a timestamped facade.
    """

    def _pending_rows(self) -> Rows:
        batch = super()._pending_rows()
        return {
            key: b"\xff" * 8 + row[8:] if row is not None and DATA <= key < HISTORY else row
            for key, row in batch.items()
        }


@mutant("TKV-2")
class TheHighestTimestampWins(EngineTimestampedKeyValueStore):
    """A put with a lower timestamp than the stored one is ignored.

    Imitates last-write-wins by timestamp, which other stores have.
    """

    def put(self, key: bytes, value: bytes | None, timestamp_ms: int | None = None) -> None:
        if type(key) is bytes and type(value) is bytes and type(timestamp_ms) is int:
            present = self.get(key)
            if present is not None and (present.timestamp_ms or 0) > timestamp_ms >= 0:
                return
        super().put(key, value, timestamp_ms)


@mutant("TKV-4")
class DeletionsMoveStreamTime(EngineTimestampedKeyValueStore):
    """The timestamp that is given with a deletion moves stream time.

    Imitates a tombstone that is a put like any other.
    """

    def put(self, key: bytes, value: bytes | None, timestamp_ms: int | None = None) -> None:
        super().put(key, value, timestamp_ms)
        if value is None and timestamp_ms is not None:
            self._stream_time = max(self._stream_time, timestamp_ms)


@mutant("TKV-5")
class OverwrittenPutsMoveNoTimeInTheLog(EngineTimestampedKeyValueStore):
    """The changes of a commit lack the overwritten put that moved stream time the furthest.

    Imitates a change for each key: a replica's stream time stays behind, and so does its expiry.
    """

    def pending_changes(self) -> Changes:
        super().pending_changes()
        return pending_columns(self._rows, None)


@mutant("TKV-5")
class StreamTimeOfValuesIsLostAtReopening(EngineTimestampedKeyValueStore):
    """Reopened, a store has no stream time, and shows again what had expired.

    Imitates a clock that is kept in memory (Kafka's observed stream time).
    """

    def _read_committed(self) -> None:
        super()._read_committed()
        self._progress.stream_time_ms = NO_STREAM_TIME


@mutant("COM-20", "TKV-5")
class LoadingForgetsStreamTimeOfValues(EngineTimestampedKeyValueStore):
    """A load takes stream time from the rows, not from what it is told.

    Imitates an import of rows alone: the row that moved time furthest may have been overwritten.
    """

    def load(self, changes: Changes, *, stream_time_ms: int | None = None) -> None:
        super().load(changes)


@mutant("TKV-6")
class ValuesWithoutTimestampExpire(EngineTimestampedKeyValueStore):
    """A value that has no timestamp is taken for one of 1970.

    Imitates a default of 0, which is a time.
    """

    def get(self, key: bytes) -> TimestampedValue[bytes] | None:
        found = super().get(key)
        if found is None or found.timestamp_ms is not None:
            return found
        return None if self._expiry.horizon_ms(self._stream_time) >= 0 else found


@mutant("TKV-4", "TKV-5")
class HighestOfAColumnMovesStreamTime(EngineTimestampedKeyValueStore):
    """The highest timestamp of a column moves stream time, be it that of a deletion.

    Imitates a column that is looked at as a whole, where single puts look at their row.
    """

    def put_many(
        self,
        keys: Values[bytes],
        values: Values[bytes | None],
        timestamps_ms: Values[int | None] | None = None,
    ) -> None:
        times = None if timestamps_ms is None else as_list("timestamps_ms", timestamps_ms)
        super().put_many(keys, values, times)
        reached = [time_ms for time_ms in times or [] if time_ms is not None]
        self._stream_time = max([self._stream_time, *reached])
