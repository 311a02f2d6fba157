"""Versioned stores that write and read wrongly."""

from collections.abc import Iterator

from statestores.errors import InvalidArgumentError
from statestores.semantics.versioned.rows import versions_of, with_version
from statestores.semantics.versioned.store import EngineVersionedStore
from statestores.spi import PutResult, VersionedRecord
from statestores.spi.stores.store import Values
from statestores.spi.values import as_list
from statestores_mutants.registry import mutant

Record = VersionedRecord[bytes]
Records = Iterator[Record]


@mutant("VRS-9")
class AsOfExcludesItsTime(EngineVersionedStore):
    """A version is not yet valid at its own timestamp.

    Imitates `valid_from < as_of`.
    """

    def get(self, key: bytes, as_of_ms: int | None = None) -> Record | None:
        record = super().get(key, as_of_ms)
        if record is None or as_of_ms is None or record.valid_from_ms < as_of_ms or as_of_ms == 0:
            return record
        return super().get(key, as_of_ms - 1)


@mutant("VRS-9", "VRS-22")
class VersionIsValidAtItsEnd(EngineVersionedStore):
    """At the time of a deletion the version before it is still returned.

    Imitates validity that is closed at both ends (KIP-889's `validTo` was discussed so).
    """

    def get(self, key: bytes, as_of_ms: int | None = None) -> Record | None:
        record = super().get(key, as_of_ms)
        if record is not None or not as_of_ms:
            return record
        before = super().get(key, as_of_ms - 1)
        return before if before is not None and before.valid_to_ms == as_of_ms else None


@mutant("VRS-5")
class DeletionAtAnEqualTimestampIsLost(EngineVersionedStore):
    """A deletion at the timestamp of the latest version removes it and leaves nothing.

    Imitates Kafka's versioned store (VER-14): an older value that comes later is the latest again.
    """

    def put(self, key: bytes, value: bytes | None, timestamp_ms: int) -> PutResult:
        result = super().put(key, value, timestamp_ms)
        if value is not None and result.accepted and result.valid_to_ms in self._lost(key):
            versions = dict(versions_of(self._pending[key]))
            versions.pop(result.valid_to_ms or 0, None)
            self._pending[key] = versions
        return result

    def delete(self, key: bytes, timestamp_ms: int) -> Record | None:
        return super().delete(key, timestamp_ms)

    def _lost(self, key: bytes) -> list[int]:
        pending = versions_of(self._pending.get(key, {}))
        return [start for start, value in pending.items() if value is None]


@mutant("VRS-5")
class DeletionOfAnUnknownKeyIsLost(EngineVersionedStore):
    """A deletion of a key that has no version is not kept.

    Imitates "nothing to delete": an older value that comes later lives for ever.
    """

    def put(self, key: bytes, value: bytes | None, timestamp_ms: int) -> PutResult:
        if value is None and type(key) is bytes and type(timestamp_ms) is int and timestamp_ms >= 0:
            self.check_open()
            known = self._view().latest(key)
            if known is None and timestamp_ms >= self._stream_time - self._retention_ms:
                self._stream_time = max(self._stream_time, timestamp_ms)
                return PutResult(accepted=True, valid_to_ms=None)
        return super().put(key, value, timestamp_ms)


@mutant("VRS-22")
class VersionsEndOneMillisecondEarly(EngineVersionedStore):
    """`valid_to_ms` is the last millisecond of a version.

    Imitates the inclusive end of another API.
    """

    def history(
        self,
        key: bytes,
        first_ms: int | None = None,
        last_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Records:
        records = super().history(key, first_ms, last_ms, reverse=reverse)
        return (
            Record(record.value, record.valid_from_ms, (record.valid_to_ms or 0) - 1)
            if record.valid_to_ms
            else record
            for record in records
        )


@mutant("VRS-22", "VRS-9")
class EndOfAVersionIsUnknown(EngineVersionedStore):
    """A version as of a time comes without its end.

    Imitates an answer that drops `validTo`, as typed facades did in Kafka Streams.
    """

    def get(self, key: bytes, as_of_ms: int | None = None) -> Record | None:
        record = super().get(key, as_of_ms)
        return None if record is None else Record(record.value, record.valid_from_ms, None)


@mutant("VRS-2")
class LatePutsAreAccepted(EngineVersionedStore):
    """A put below the horizon is taken.

    Imitates a retention that is only applied by the vacuum (KAFKA-13499).
    """

    def put(self, key: bytes, value: bytes | None, timestamp_ms: int) -> PutResult:
        kept, self._retention_ms = self._retention_ms, 2**62
        try:
            return super().put(key, value, timestamp_ms)
        finally:
            self._retention_ms = kept


@mutant("VRS-2")
class PutAtTheHorizonIsRefused(EngineVersionedStore):
    """A put exactly at the horizon is too late.

    Imitates `<=` in the place of `<`.
    """

    def put(self, key: bytes, value: bytes | None, timestamp_ms: int) -> PutResult:
        horizon = self._stream_time - self._retention_ms
        if timestamp_ms == horizon < self._stream_time:
            self.check_open()
            return PutResult(accepted=False, valid_to_ms=None)
        return super().put(key, value, timestamp_ms)


@mutant("VRS-6", "VRS-8")
class LastPutIsTheLatest(EngineVersionedStore):
    """`get` returns what was put last, whatever its timestamp.

    Imitates a key-value store with a timestamp beside the value.
    """

    def put(self, key: bytes, value: bytes | None, timestamp_ms: int) -> PutResult:
        result = super().put(key, value, timestamp_ms)
        if result.accepted and value is not None:
            self.__dict__.setdefault("_last", {})[key] = Record(value, timestamp_ms, None)
        return result

    def get(self, key: bytes, as_of_ms: int | None = None) -> Record | None:
        found = super().get(key, as_of_ms)
        last: dict[bytes, Record] = self.__dict__.get("_last", {})
        return last.get(key, found) if as_of_ms is None and found is not None else found


@mutant("VRS-1")
class EndOfAPutIsNotSaid(EngineVersionedStore):
    """The result of an out-of-order put has no end.

    Imitates sentinels: Kafka's `PUT_RETURN_CODE_VALID_TO_UNDEFINED` for two different answers.
    """

    def put(self, key: bytes, value: bytes | None, timestamp_ms: int) -> PutResult:
        result = super().put(key, value, timestamp_ms)
        return PutResult(accepted=result.accepted, valid_to_ms=None)


@mutant("VRS-4")
class EqualTimestampsKeepTheFirst(EngineVersionedStore):
    """A put at a timestamp that the key has in this commit already is ignored.

    Imitates `setdefault`.
    """

    def put(self, key: bytes, value: bytes | None, timestamp_ms: int) -> PutResult:
        before = dict(versions_of(self._pending.get(key) or {}))
        result = super().put(key, value, timestamp_ms)
        if result.accepted and timestamp_ms in before:
            self._pending[key] = with_version(
                self._pending[key], timestamp_ms, before[timestamp_ms]
            )
        return result


@mutant("VRS-3")
class StreamTimeIsOfTheLastPut(EngineVersionedStore):
    """Stream time is the timestamp of the last put accepted.

    Imitates an assignment without `max`: out-of-order records turn the horizon back.
    """

    def put(self, key: bytes, value: bytes | None, timestamp_ms: int) -> PutResult:
        result = super().put(key, value, timestamp_ms)
        if result.accepted:
            self._stream_time = timestamp_ms
        return result


@mutant("VRS-3", "COM-7")
class RollbackKeepsStreamTime(EngineVersionedStore):
    """A rollback leaves stream time where the forgotten writes had moved it.

    Imitates state beside the rows: the records come again, and are late.
    """

    def rollback(self) -> None:
        before = self._stream_time
        super().rollback()
        self._stream_time = before


@mutant("VRS-7")
class DeleteReturnsTheLatest(EngineVersionedStore):
    """`delete` returns the latest version, not the one valid at its time.

    Imitates `delete` of a key-value store.
    """

    def delete(self, key: bytes, timestamp_ms: int) -> Record | None:
        latest = self.get(key)
        accepted = timestamp_ms >= self._stream_time - self._retention_ms
        super().delete(key, timestamp_ms)
        return latest if accepted else None


@mutant("VRS-10")
class HistoryMissesTheVersionBefore(EngineVersionedStore):
    """`history` leaves out the version that began before the range and was still valid in it.

    Imitates `WHERE valid_from BETWEEN first AND last`, and Kafka's query over segments.
    """

    def history(
        self,
        key: bytes,
        first_ms: int | None = None,
        last_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Records:
        records = super().history(key, first_ms, last_ms, reverse=reverse)
        return (record for record in records if record.valid_from_ms >= (first_ms or 0))


@mutant("VRS-10")
class HistoryMissesItsLastMillisecond(EngineVersionedStore):
    """`history` leaves out the version that begins at `last_ms`.

    Imitates a half-open range of times.
    """

    def history(
        self,
        key: bytes,
        first_ms: int | None = None,
        last_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Records:
        records = super().history(key, first_ms, last_ms, reverse=reverse)
        return (record for record in records if record.valid_from_ms != last_ms)


@mutant("VRS-10")
class HistoryIsNewestFirst(EngineVersionedStore):
    """`history` begins with the newest version.

    Imitates Kafka's order, which depends on the store's layout unless one asks.
    """

    def history(
        self,
        key: bytes,
        first_ms: int | None = None,
        last_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Records:
        return super().history(key, first_ms, last_ms, reverse=not reverse)


@mutant("VRS-16")
class InvertedTimesAreTurnedRound(EngineVersionedStore):
    """An inverted range of times is read as the range between.

    Imitates helpfulness: the mistake of the caller stays unseen.
    """

    def history(
        self,
        key: bytes,
        first_ms: int | None = None,
        last_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Records:
        try:
            return super().history(key, first_ms, last_ms, reverse=reverse)
        except InvalidArgumentError:
            return super().history(key, last_ms, first_ms, reverse=reverse)


@mutant("VRS-23")
class GetManyIsInTimeOrder(EngineVersionedStore):
    """`get_many` with a time for each key answers in the order of the times.

    Imitates a join that sorts both sides.
    """

    def get_many(
        self, keys: Values[bytes], as_of_ms: int | Values[int] | None = None
    ) -> list[Record | None]:
        listed = as_list("keys", keys)
        if as_of_ms is None or isinstance(as_of_ms, int):
            return super().get_many(listed, as_of_ms)
        times = as_list("as_of_ms", as_of_ms)
        found = super().get_many(listed, times)
        return [record for _, record in sorted(zip(times, found, strict=True), key=lambda r: r[0])]


@mutant("VRS-12")
class ScanShowsDeletedKeys(EngineVersionedStore):
    """A scan as of a time gives deleted keys too, with an empty value.

    Imitates tombstones that nobody filters.
    """

    def scan_as_of(
        self,
        as_of_ms: int | None = None,
        first: bytes | None = None,
        last: bytes | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[tuple[bytes, Record]]:
        pairs = list(super().scan_as_of(as_of_ms, first, last, reverse=reverse))
        found = {key for key, _ in pairs}
        for key, waiting in self._pending.items():
            inside = (first is None or key >= first) and (last is None or key <= last)
            if inside and key not in found and None in versions_of(waiting).values():
                pairs.append((key, Record(b"", 0, None)))
        pairs.sort(key=lambda pair: pair[0], reverse=reverse)
        return self.while_open(iter(pairs))


@mutant("VRS-12", "VRS-8")
class ScanIsOfNow(EngineVersionedStore):
    """A scan gives the latest version of the keys that had one at the time.

    Imitates an index for keys and a read of the present.
    """

    def scan_as_of(
        self,
        as_of_ms: int | None = None,
        first: bytes | None = None,
        last: bytes | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[tuple[bytes, Record]]:
        pairs = list(super().scan_as_of(as_of_ms, first, last, reverse=reverse))
        now = [(key, self.get(key) or record) for key, record in pairs]
        return self.while_open(iter(now))


@mutant("VRS-25")
class HistorySeesLaterWrites(EngineVersionedStore):
    """`history` takes its view when it is stepped first.

    Imitates a Python generator.
    """

    def history(
        self,
        key: bytes,
        first_ms: int | None = None,
        last_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Records:
        super().history(key, first_ms, last_ms, reverse=reverse)  # judges the arguments
        return self._later(key, first_ms, last_ms, reverse=reverse)

    def _later(
        self, key: bytes, first_ms: int | None, last_ms: int | None, *, reverse: bool
    ) -> Records:
        yield from super().history(key, first_ms, last_ms, reverse=reverse)


@mutant("VRS-17")
class HistoryIsOfTheCommitted(EngineVersionedStore):
    """`history` does not see pending versions of a key that has committed ones.

    Imitates a range query that goes past the buffer.
    """

    def history(
        self,
        key: bytes,
        first_ms: int | None = None,
        last_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Records:
        records = super().history(key, first_ms, last_ms, reverse=reverse)
        committed = list(
            self.read_only().history(key, first_ms, last_ms, reverse=reverse),
        )
        return self.while_open(iter(committed)) if committed else records
