"""The tail of a window or session store: the last change of each window or session, by its time."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from statestores.arrow.key_selection import KeySelection
from statestores.arrow.schemas import row_schema
from statestores.arrow.tail import (
    KEY_FIELD,
    NO_STREAM_TIME,
    VALUE_FIELD,
    Tail,
    cast,
    concat,
    key_ranks,
)
from statestores.spi.session_specification import Session
from statestores.spi.window_specification import Window

_NO_NUMBER = -1


class RetainedTail(Tail):
    """The last change of each window or session; those that came too late are left out.

    A change is too late when its time is at or below the horizon of its moment: stream time, the
    highest time of an accepted change, minus the retention (WIN-3, SES-3).
    """

    def __init__(
        self,
        specification: Window[Any, Any] | Session[Any, Any],
        *,
        stream_time_ms: int | None = None,
        keys: KeySelection | None = None,
    ) -> None:
        """Begin at the stream time of the snapshot; keep the changes of *keys*."""
        rows = row_schema(specification.kind)
        numbers = [rows.field(place) for place in (2, 3)]
        changes = pa.schema([KEY_FIELD, VALUE_FIELD, *numbers])
        super().__init__(keys or KeySelection(), changes, rows)
        # All that tells two rows of a key apart; they expire by the first of it.
        self._order = [each.row_name for each in specification.kind.order]
        self._time = self._order[0]
        self._retention_ms = specification.retention_ms
        self._stream_time = NO_STREAM_TIME if stream_time_ms is None else stream_time_ms

    @property
    def stream_time_ms(self) -> int | None:
        """The highest time so far, of any key."""
        return None if self._stream_time == NO_STREAM_TIME else self._stream_time

    def add(self, changes: pa.RecordBatch) -> None:
        """Take the next changes of the log."""
        if not changes.num_rows:
            return
        times = changes.column(self._time).to_numpy()
        reached = np.maximum.accumulate(np.concatenate(([self._stream_time], times)))
        self._stream_time = int(reached[-1])
        # No refused change moves stream time, because each of them lies at or below it.
        accepted = times > reached[:-1] - self._retention_ms
        if not accepted.all():
            changes = changes.filter(pa.array(accepted))
        self._keep(changes.select(self._schema.names))

    def clear(self) -> None:
        """Forget everything so far, stream time included."""
        super().clear()
        self._stream_time = NO_STREAM_TIME

    def _folded_changes(self, changes: pa.RecordBatch) -> pa.RecordBatch:
        return self._visible(self._last(changes))

    def _apply(self, rows: pa.RecordBatch, changes: pa.RecordBatch) -> pa.RecordBatch:
        if changes.num_rows:
            rows = self._last(concat([cast(rows, self._schema), changes], self._schema))
        rows = self._visible(rows)
        return rows.filter(pc.is_valid(rows.column("value")))

    def _last(self, changes: pa.RecordBatch) -> pa.RecordBatch:
        """Return the last of *changes* of each window or session, in order."""
        first, second = (
            pc.fill_null(changes.column(name), _NO_NUMBER).to_numpy() for name in self._order
        )
        ranks = key_ranks(changes.column("key"))
        order = np.lexsort((second, first, ranks))  # stable
        ranks, first, second = ranks[order], first[order], second[order]
        next_differs = (
            (ranks[1:] != ranks[:-1]) | (first[1:] != first[:-1]) | (second[1:] != second[:-1])
        )
        return changes.take(pa.array(order[np.append(next_differs, values=True)]))

    def _visible(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the *rows* that have not expired."""
        horizon = pa.scalar(self._stream_time - self._retention_ms, pa.int64())
        return rows.filter(pc.greater(rows.column(self._time), horizon))
