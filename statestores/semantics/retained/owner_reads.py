"""The reads of a window or session store by its owner: the engine's rows under the pending ones."""

from collections.abc import Iterable
from itertools import chain, repeat
from typing import Any

from statestores.semantics.every_kind.arguments import MAX_TIME_MS, check_reverse
from statestores.semantics.every_kind.timed_store import TimedStore
from statestores.semantics.retained.reads import (
    ROWS_AHEAD,
    RetainedReads,
    visible_times,
    without_expired,
)
from statestores.semantics.retained.rows import SUFFIX_BYTES, Row
from statestores.semantics.retained.rows_of_keys import PendingRow, RowsOfKeys, overlaid
from statestores.semantics.rows.layout import DATA
from statestores.semantics.rows.write_buffer import WriteBuffer, merge

ABSENT = object()
"""In place of a row that is not pending."""


class OwnerReads(RetainedReads, TimedStore):
    """What the owner of a store with a retention reads."""

    _buffer: WriteBuffer
    _pending: dict[bytes, bytes | None]
    """The rows of the buffer."""

    _of_keys: RowsOfKeys
    _horizon: int
    """The highest time that is no longer visible."""

    def _gather(self) -> None:
        """Have all pending writes among the pending rows, if a kind keeps some elsewhere."""

    @property
    def _owner(self) -> TimedStore:
        return self

    def _visible_value(self, data_key: bytes, time_ms: int) -> bytes | None:
        value = self._pending.get(data_key, ABSENT)
        if time_ms <= self._horizon:
            self._below_horizon += 1
            return None
        if value is ABSENT:
            self._engine_gets += 1
            return self._engine_get(data_key)
        return value  # type: ignore[return-value]  # a pending value, since it is not ABSENT

    def _visible_values(
        self, keys: list[bytes], data_keys: list[bytes], times_ms: list[int]
    ) -> list[bytes | None]:
        # A store that is closed refuses to say whether something is pending.
        found = self._known_values(keys, data_keys, times_ms)
        if found is None:
            self._engine_gets += len(data_keys)
            found = self._engine.get_many(data_keys)
        else:
            places = [place for place, each in enumerate(found) if each is ABSENT]
            self._engine_gets += len(places)
            stored = self._engine.get_many([data_keys[place] for place in places])
            for place, value in zip(places, stored, strict=True):
                found[place] = value
        values, hidden = without_expired(found, times_ms, self._horizon)
        self._below_horizon += hidden
        return values

    def _known_values(
        self,
        keys: list[bytes],  # for a kind that keeps some elsewhere
        data_keys: list[bytes],
        times_ms: list[int],  # likewise
    ) -> list[Any] | None:
        """Return the values of rows for which the engine need not be asked, `ABSENT` for others.

        ``None`` if it must be asked for all of them.
        """
        if not self._has_pending_writes():
            return None
        return list(map(self._pending.get, data_keys, repeat(ABSENT)))

    def _visible_rows(
        self,
        first_key: bytes | None,
        last_key: bytes | None,
        first_ms: int | None,
        last_ms: int | None,
        *,
        reverse: bool,
    ) -> Iterable[Row]:
        check_reverse(reverse)
        if not self._open:
            self.check_open()
        horizon = self._horizon
        times = low_ms, high_ms = visible_times(first_ms, last_ms, horizon)
        if high_ms <= horizon:
            self._below_horizon += 1
        self._gather()
        start, stop = self._rows.bounds(first_key, last_key, low_ms, high_ms)
        rows, _ = self._selected(
            self._engine,
            (start, stop),
            self._buffer.slice(start, stop, reverse=reverse) if self._pending else [],
            None if first_key is not None and first_key == last_key else times,
            reverse=reverse,
        )
        return rows

    def _visible_rows_of(
        self, key: bytes, first_ms: int | None, last_ms: int | None, *, reverse: bool
    ) -> Iterable[Row]:
        # `_visible_rows`, written out for one key: half of a short range is its calls.
        if reverse is not False:
            check_reverse(reverse)
        if not self._open:
            self.check_open()
        low_ms = self._horizon + 1
        if first_ms is not None and first_ms > low_ms:
            low_ms = first_ms
        elif low_ms < 0:
            low_ms = 0
        high_ms = MAX_TIME_MS if last_ms is None else last_ms
        if high_ms < low_ms:  # what was given is in order, so all of it is below the horizon
            self._below_horizon += 1
            return ()
        self._gather()
        prefix = DATA + key.replace(b"\x00", b"\x00\xff")
        start = prefix + low_ms.to_bytes(SUFFIX_BYTES)
        stop = prefix + (high_ms + 1).to_bytes(SUFFIX_BYTES)
        ahead, others = self._engine.scan_ahead(start, stop, ROWS_AHEAD, reverse=reverse)
        overlay: list[PendingRow] = []
        if self._pending:
            found = self._of_keys.slice(prefix, start, stop, reverse=reverse)
            if found is None:
                found = self._buffer.slice(start, stop, reverse=reverse)
            overlay = found
        if others is None:
            return overlaid(ahead, overlay, reverse=reverse) if overlay else ahead
        return merge(chain(ahead, others), overlay, reverse=reverse)
