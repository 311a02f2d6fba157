"""Stores that are right for few rows and small numbers, and in which something comes late.

A stranger wrote most of these down before he had seen the suite, and it passed them.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

from statestores.semantics.key_value.store import EngineKeyValueStore
from statestores.semantics.retained.session import EngineSessionStore
from statestores.semantics.retained.window import EngineWindowStore
from statestores.semantics.rows.commit_batch import CommitBatch
from statestores.semantics.rows.layout import DATA, HISTORY
from statestores.semantics.rows.progress import Progress
from statestores.semantics.rows.row_cache import DEFAULT_READ_CACHE_BYTES
from statestores.semantics.versioned.rows import DELETED, key_of, start_of, unpack_header
from statestores.semantics.versioned.store import EngineVersionedStore
from statestores.semantics.versioned.vacuum import Vacuum
from statestores.spi import Changes, VersionedRecord
from statestores.spi.engine import EngineReader
from statestores.spi.stores.store import CommittedContent, Values
from statestores.spi.values import as_list
from statestores_mutants.registry import mutant

_MANY = 1_024
_SOME = 100
_FEW = 16
_LARGE_BYTES = 16 << 20
_FOUR_BYTES = 0xFFFF_FFFF

VersionRows = Iterator[tuple[bytes, VersionedRecord[bytes]]]


@mutant("KVS-3", "KVS-15")
class LongColumnsKeepTheFirst(EngineKeyValueStore):
    """Of equal keys in more than 1,024 rows, the first one counts.

    Imitates a bulk load that leaves out what it has seen.
    """

    def put_many(self, keys: Values[bytes], values: Values[bytes | None]) -> None:
        listed, others = as_list("keys", keys), as_list("values", values)
        if len(listed) == len(others) > _MANY:
            rows = dict(zip(listed[::-1], others[::-1], strict=True))
            listed, others = list(rows), list(rows.values())
        super().put_many(listed, others)


@mutant("KVS-3")
class ColumnsAreKept(EngineKeyValueStore):
    """`put_many` keeps the columns, and looks at them when somebody reads or commits.

    Imitates a zero-copy path: what the caller writes into his lists is what was put.
    """

    _columns: tuple[Any, Any] | None = None

    def put_many(self, keys: Values[bytes], values: Values[bytes | None]) -> None:
        self._columns = None
        super().put_many(as_list("keys", keys), as_list("values", values))
        if type(keys) is type(values) is list:
            self._columns = keys, values

    def _pending_rows(self) -> Any:
        if self._columns is not None:
            columns, self._columns = self._columns, None
            for key, value in zip(*columns, strict=False):
                self._rows[key] = value
        return super()._pending_rows()

    def _forget_pending(self, *, committed: bool) -> None:
        self._columns = None
        super()._forget_pending(committed=committed)


@mutant("COM-20", "COM-38")
class ContentLosesARowBehindLongValues(EngineKeyValueStore):
    """The row that comes after each 16 MiB of values is missing from committed content.

    Imitates a chunk that was full, and the row that no longer fitted into it.
    """

    def committed_content(self) -> CommittedContent:
        content = super().committed_content()
        return replace(content, changes=_without_some(content.changes))


def _without_some(chunks: Iterator[Changes]) -> Generator[Changes, None, None]:
    size = 0
    for chunk in chunks:
        keys, values = list(chunk.keys), list(chunk.values)
        if size > _LARGE_BYTES:
            keys, values, size = keys[1:], values[1:], 0
        size += sum(map(len, filter(None, values)))
        yield Changes(keys, values)


@mutant("KVS-12", "KVS-8")
class LateDeletionsOfAReverseScanAreIgnored(EngineKeyValueStore):
    """In reverse, a pending deletion behind the first hundred rows hides nothing.

    Imitates a merge whose second page is the table's alone.
    """

    def _scan(self, start: bytes, stop: bytes, *, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        found = super()._scan(start, stop, reverse=reverse)
        if reverse is not True or None not in self._rows.values():
            return found
        return self._haunted(found, start)

    def _haunted(
        self, found: Iterator[tuple[bytes, bytes]], start: bytes
    ) -> Iterator[tuple[bytes, bytes]]:
        last = None
        for last in islice(found, _SOME):
            yield last
        if last is None:
            return
        deleted = [key for key, value in self._rows.items() if value is None and key < last[0]]
        stored = {key: self._engine.get(DATA + key) for key in deleted if DATA + key >= start}
        ghosts = [(key, value) for key, value in stored.items() if value is not None]
        yield from sorted([*found, *ghosts], reverse=True)


@mutant("KVS-21")
class UpdatesComeInPieces(EngineKeyValueStore):
    """`update_many` calls its function once for each thousand keys.

    Imitates a batch size that was meant for reads.
    """

    def update_many(
        self,
        keys: Values[bytes],
        function: Callable[[list[bytes], list[bytes | None]], Values[bytes | None]],
    ) -> None:
        listed = list(dict.fromkeys(as_list("keys", keys)))
        for start in range(0, len(listed), 1_000):
            super().update_many(listed[start : start + 1_000], function)


@mutant("KVS-1", "COM-24", "COM-1")
class SameValueIsNotPutAgain(EngineKeyValueStore):
    """A put of the value that is committed is left out, though a deletion is pending.

    Imitates a store that spares writes which change nothing, and asks the table alone.
    """

    def put(self, key: bytes, value: bytes | None) -> None:
        is_deleted = type(key) is bytes and self._rows.get(key, value) is None
        if is_deleted and value is not None and self._engine.get(DATA + key) == value:
            return
        super().put(key, value)


@mutant("VRS-30")
class ReplacedDeletionExpires(EngineVersionedStore):
    """A value that replaces the deletion of its time expires as the deletion would have.

    Imitates a tombstone that is written down twice, and taken back once.
    """

    def _pending_rows(self) -> CommitBatch:
        rows = super()._pending_rows()
        if not isinstance(rows, dict):  # columns, which delete nothing
            return rows
        for row_key in [key for key, row in rows.items() if row is None and key >= HISTORY]:
            latest = rows.get(DATA + key_of(row_key))
            if latest is not None and unpack_header(latest)[0] == start_of(row_key) < DELETED:
                del rows[row_key]
        return rows


class _Eager(Vacuum):
    __slots__ = ()

    def sweep(
        self,
        reader: EngineReader,
        rows: dict[bytes, bytes | None],
        progress: Progress,
        horizon_ms: int,
    ) -> None:
        super().sweep(reader, rows, progress, horizon_ms + 1)


@mutant("VRS-11")
class VacuumTakesAMillisecondMore(EngineVersionedStore):
    """A version that ended one millisecond above the horizon is removed with the others.

    Imitates a comparison that is one off: whoever reads as of the horizon finds nothing.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._vacuum = _Eager(self._retention_ms, DEFAULT_READ_CACHE_BYTES)


@mutant("SRV-10")
class HistoriesForgetDeletedKeys(EngineVersionedStore):
    """`range_history` leaves out keys that have no value by now.

    Imitates a join with the latest values.
    """

    def range_history(self, *bounds: Any, reverse: bool = False, **times: Any) -> VersionRows:
        rows = super().range_history(*bounds, reverse=reverse, **times)
        deleted = {key for key in self._pending if self.get(key) is None}
        found = (row for row in self._engine.scan(DATA, HISTORY) if row[1][0] & 0x80)
        deleted |= {key[1:] for key, _ in found if self.get(key[1:]) is None}
        return (row for row in rows if row[0] not in deleted)


@mutant("SRV-10")
class HistoriesAreReversedByKeyAlone(EngineVersionedStore):
    """In reverse, `range_history` gives the keys from the last, and each oldest first.

    Imitates a loop over keys in reverse that calls what it has always called.
    """

    def range_history(self, *bounds: Any, reverse: bool = False, **times: Any) -> VersionRows:
        rows = super().range_history(*bounds, reverse=reverse, **times)
        return _turned(rows) if reverse is True else rows


def _turned(rows: VersionRows) -> VersionRows:
    for _, of_key in groupby(rows, key=itemgetter(0)):
        yield from reversed(list(of_key))


@mutant("VRS-23")
class ManyKeysAreReadAsOfNow(EngineVersionedStore):
    """`get_many` takes the keys beyond the first five hundred at no time.

    Imitates a parameter that the second of two queries does not get.
    """

    def get_many(
        self, keys: Values[bytes], as_of_ms: int | Values[int] | None = None
    ) -> list[VersionedRecord[bytes] | None]:
        listed = as_list("keys", keys)
        if not isinstance(as_of_ms, int) or len(listed) <= 500:
            return super().get_many(listed, as_of_ms)
        return super().get_many(listed[:500], as_of_ms) + super().get_many(listed[500:])


@mutant("WIN-8", "WIN-24")
class ManyFetchesSeeWhatHasExpired(EngineWindowStore):
    """`fetch_many` of more than a hundred pairs does not ask whether they are visible.

    Imitates a fast path, written once more, without the last of its conditions.
    """

    def fetch_many(self, keys: Values[bytes], starts_ms: int | Values[int]) -> list[bytes | None]:
        listed = as_list("keys", keys)
        horizon, self._horizon = self._horizon, -1 if len(listed) > _SOME else self._horizon
        try:
            return super().fetch_many(listed, starts_ms)
        finally:
            self._horizon = horizon


@mutant("WIN-9")
class ManyDuplicatesHideTheLast(EngineWindowStore):
    """Of more than sixteen duplicates, `fetch` returns the last of a whole page of them.

    Imitates a page that is looked into from its end, when it is full.
    """

    def fetch(self, key: bytes, start_ms: int) -> bytes | None:
        last = super().fetch(key, start_ms)
        if not self._has_number or last is None:
            return last
        values = [window.value for window in self.fetch_range(key, start_ms, start_ms)]
        return values[len(values) // _FEW * _FEW - 1] if len(values) > _FEW else last


@mutant("SES-2", "SES-9", "SES-10")
class LengthOfASessionIsFourBytes(EngineSessionStore):
    """A start is kept as its distance from the end, in four bytes.

    Imitates a column that was made smaller: 49 days of milliseconds fit.
    """

    def put(self, key: bytes, start_ms: int, end_ms: int, value: bytes | None) -> bool:
        return super().put(key, _shortened(start_ms, end_ms), end_ms, value)

    def fetch_session(self, key: bytes, start_ms: int, end_ms: int) -> bytes | None:
        return super().fetch_session(key, _shortened(start_ms, end_ms), end_ms)


def _shortened(start_ms: int, end_ms: int) -> int:
    if type(start_ms) is not int or type(end_ms) is not int or not 0 <= start_ms <= end_ms:
        return start_ms
    return end_ms - ((end_ms - start_ms) & _FOUR_BYTES) if end_ms < 1 << 63 else start_ms


@mutant("SES-6", "SES-10", "SES-16", "COM-24")
class BulkPutsLeaveWhatWasSearched(EngineSessionStore):
    """Sessions that were found are found again after `put_many` has put others.

    Imitates a cache that single puts refresh.
    """

    def put_many(
        self,
        keys: Values[bytes],
        starts_ms: Values[int],
        ends_ms: Values[int],
        values: Values[bytes | None],
    ) -> int:
        found = self._cache.by_key.copy()
        accepted = super().put_many(keys, starts_ms, ends_ms, values)
        self._cache.by_key.update(found)
        return accepted
