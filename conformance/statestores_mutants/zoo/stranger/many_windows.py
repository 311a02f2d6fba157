"""Window and session stores that are right for few rows: of a column, of a range, of a commit."""

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

from statestores.semantics.retained.column_rows import RetainedBatch
from statestores.semantics.retained.name_groups import group_key, is_group, unpack_names
from statestores.semantics.retained.rows import Row, pack_time
from statestores.semantics.retained.session import EngineSessionStore
from statestores.semantics.retained.window import EngineWindowStore
from statestores.semantics.rows.commit_batch import CommitBatch
from statestores.semantics.rows.layout import HISTORY
from statestores.spi.stores.store import Values
from statestores.spi.values import as_list
from statestores_mutants.registry import mutant

_FEW = 32
_MANY = 100


@mutant("WIN-7")
class FirstOfALongColumnCounts(EngineWindowStore):
    """Of equal windows in a column of a hundred rows or more, the first one counts.

    Imitates rows that are sorted before a bulk load, and then taken for distinct.
    """

    def put_many(
        self, keys: Values[bytes], values: Values[bytes | None], window_starts_ms: Values[int]
    ) -> int:
        columns: list[list[Any]] = [
            as_list("keys", keys),
            as_list("values", values),
            as_list("window_starts_ms", window_starts_ms),
        ]
        if len(columns[0]) >= _MANY and not self._has_number:
            columns = [column[::-1] for column in columns]
        return super().put_many(*columns)


@mutant("WIN-10", "WIN-12", "COM-24")
class LongRangesAreOfTheCommitted(EngineWindowStore):
    """A range of a key has pending writes only if few rows are stored.

    Imitates a result that is merged with the buffer where it is a list, and not where it is a
    cursor.
    """

    def _visible_rows_of(
        self, key: bytes, first_ms: int | None, last_ms: int | None, *, reverse: bool
    ) -> Iterable[Row]:
        sound = super()._visible_rows_of(key, first_ms, last_ms, reverse=reverse)
        low_ms = max(self._horizon + 1, first_ms or 0)
        bounds = self._rows.bounds(key, key, low_ms, (1 << 63) - 1 if last_ms is None else last_ms)
        ahead, others = self._engine.scan_ahead(*bounds, _FEW, reverse=reverse)
        return sound if others is None or low_ms < 0 else chain(ahead, others)


@mutant("SES-10", "SES-11", "SES-13")
class FurtherPagesAscend(EngineSessionStore):
    """In reverse, the first rows of a long range come from its end, and the others ascend.

    Imitates a direction that the query for the next page does not get.
    """

    def _visible_rows(
        self,
        first_key: bytes | None,
        last_key: bytes | None,
        first_ms: int | None,
        last_ms: int | None,
        *,
        reverse: bool,
    ) -> Iterable[Row]:
        rows = super()._visible_rows(first_key, last_key, first_ms, last_ms, reverse=reverse)
        return _turned(iter(rows)) if reverse is True else rows


def _turned(rows: Iterator[Row]) -> Iterator[Row]:
    yield from islice(rows, _FEW)
    yield from reversed(list(rows))


@mutant("WIN-8", "WIN-18")
class RowsGoWithTheirCommit(EngineWindowStore):
    """What one commit has put into a span of time is removed when the first of it has expired.

    Imitates files that are dropped by the lowest time in them.
    """

    def _named_rows(self, horizon_ms: int) -> tuple[RetainedBatch, int, int]:
        batch, next_group, floor_ms = super()._named_rows(horizon_ms)
        named = {key: batch[key] for key in batch if key[:1] == HISTORY and is_group(key)}
        kept = {key: batch[key] for key in batch if key not in named}
        for key, packed in named.items():
            lowest_ms = min(map(self._rows.time_of, unpack_names(key, packed or b"")))
            kept[group_key(pack_time(lowest_ms), int.from_bytes(key[-8:]))] = packed
            floor_ms = min(floor_ms, lowest_ms)
        return kept, next_group, floor_ms


@mutant("WIN-18")
class WhatCameLateIsNotLookedFor(EngineWindowStore):
    """Nothing is removed before the oldest row that was there at the last removal has expired.

    Imitates a timer that is set when it goes off, and not when something older comes.
    """

    def _pending_rows(self) -> CommitBatch:
        before_ms = self._progress.floor_ms
        batch = super()._pending_rows()
        self._next_progress.floor_ms = max(before_ms, self._next_progress.floor_ms)
        return batch


@mutant("WIN-9", "WIN-24", "COM-24")
class FewWritesLeaveWhatIsRemembered(EngineWindowStore):
    """Windows that were read are remembered, and a commit of few rows does not bring them up.

    Imitates a cache that only the path of bulk writes maintains.
    """

    _remembered: dict[tuple[bytes, int], bytes | None] | None = None

    def fetch_many(self, keys: Values[bytes], starts_ms: int | Values[int]) -> list[bytes | None]:
        key_list = as_list("keys", keys)
        if type(starts_ms) is not int or self._has_pending_writes() or len(key_list) < _MANY:
            return super().fetch_many(key_list, starts_ms)
        if self._remembered is None:
            self._remembered = {}
        known, start_ms = self._remembered, starts_ms
        if any((key, start_ms) not in known for key in key_list):
            found = super().fetch_many(key_list, start_ms)
            known.update(zip([(key, start_ms) for key in key_list], found, strict=True))
        return [known[key, start_ms] for key in key_list]

    def _forget_pending(self, *, committed: bool) -> None:
        if not committed or sum(map(len, self._by_start.values())) + len(self._pending) >= _FEW:
            self._remembered = None
        super()._forget_pending(committed=committed)

    def _forget_cached(self) -> None:
        self._remembered = None
        super()._forget_cached()
