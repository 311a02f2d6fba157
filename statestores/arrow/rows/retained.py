"""The rows of window and session stores: the last change of each window or session, by its time.

Each has two rows in the engine: its own, in the order of keys, and one in the index by time.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from statestores.arrow.keys.key_selection import KeySelection
from statestores.arrow.rows.encoder import (
    END_OF_KEY,
    LARGE,
    NO_BYTES,
    RowEncoder,
    big_endian,
    escaped,
    joined,
    pairs,
)
from statestores.arrow.rows.tail import KEY_FIELD, VALUE_FIELD, Tail, cast, concat, key_ranks
from statestores.arrow.schemas import row_schema
from statestores.semantics.every_kind.arguments import MAX_TIME_MS
from statestores.semantics.every_kind.sorted_rows import SortedRows
from statestores.semantics.retained.progress import REMOVALS_PER_WRITE
from statestores.semantics.retained.store import EngineRetainedStore
from statestores.semantics.rows.layout import DATA, HISTORY
from statestores.semantics.rows.progress import NO_STREAM_TIME
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
        # All that tells two rows of a key apart; they expire by the first of these.
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
        # What is too late at its moment lies at or below the horizon of every later one, so it is
        # left out with what has expired; and stream time is above it.
        highest = pc.max(changes.column(self._time)).as_py()
        if highest is not None:
            self._stream_time = max(self._stream_time, highest)
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


class RetainedEncoder(RowEncoder):
    """Encodes columns for one window or session store.

    A put is judged by the stream time of its moment, and replay judges by the same rule. So changes
    begin at the store's stream time, and what came too late among them is left out as it was by
    the store that wrote them. What is left is encoded as content is.
    """

    runs = 2

    def __init__(self, store: EngineRetainedStore) -> None:
        """Encode for *store*."""
        self._store = store
        specification: Any = store.specification
        self._specification: Window[Any, Any] | Session[Any, Any] = specification
        self._time, self._number = "session_end", "session_start"
        if isinstance(specification, Window):
            self._time = "window_start"
            self._number = "sequence" if specification.retain_duplicates else ""

    def content(self, pieces: Iterator[pa.RecordBatch]) -> Iterator[Iterable[SortedRows]]:
        """Yield a run of the rows, and one of the index by time."""
        rows = list(pieces)
        for run in self._encoded(concat(rows, rows[0].schema)):
            yield (run,)

    def changes(self, changes: pa.RecordBatch, *, is_empty: bool) -> SortedRows:
        """Return what has an effect, deletions included where the store holds something."""
        tail = RetainedTail(self._specification, stream_time_ms=self._store.stream_time_ms)
        tail.add(changes)
        rows = tail.content() if is_empty else tail.folded()
        runs = self._encoded(rows) if rows.num_rows else ()
        highest_ms = tail.stream_time_ms
        return SortedRows(
            # One namespace comes after the other, so together they are in order as well.
            rows=chain.from_iterable(run.rows for run in runs),
            has_deletions=not is_empty and bool(rows.column("value").null_count),
            highest_ms=NO_STREAM_TIME if highest_ms is None else highest_ms,
            # Also above those of changes that came too late.
            next_number=_next_number(changes),
            removals=0 if is_empty else REMOVALS_PER_WRITE * rows.num_rows,
            lowest_ms=runs[0].lowest_ms if runs else MAX_TIME_MS,
        )

    def _encoded(self, rows: pa.RecordBatch) -> Sequence[SortedRows]:
        """Return the two runs of *rows*, of which there is one at least."""
        times = rows.column(self._time)
        keys, stamps = escaped(rows.column("key")), big_endian(times)
        numbers = [big_endian(rows.column(self._number))] if self._number else []
        by_key = joined(DATA, keys, END_OF_KEY, stamps, *numbers)
        # The rows are in the order of key, time and number: of equal times they stay so.
        order = pa.array(np.argsort(times.to_numpy(), kind="stable"))
        by_time = joined(HISTORY, stamps, keys, END_OF_KEY, *numbers).take(order)
        # Among changes there are deletions: of both rows, or of none.
        nothing = pc.if_else(pc.is_valid(rows.column("value")), NO_BYTES, pa.scalar(None, LARGE))
        return (
            SortedRows(
                rows=pairs(by_key, rows.column("value")),
                lowest_ms=pc.min(times).as_py(),
                next_number=_next_number(rows),
            ),
            SortedRows(rows=pairs(by_time, nothing.take(order))),
        )


def _next_number(rows: pa.RecordBatch) -> int:
    """Return a number above the sequences of *rows*."""
    if "sequence" not in rows.schema.names:
        return 0
    highest: int | None = pc.max(rows.column("sequence")).as_py()
    return 0 if highest is None else highest + 1
