"""The tail of a versioned store: the versions put since a snapshot, each with its end."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from statestores.arrow.key_selection import KeySelection
from statestores.arrow.schemas import VERSIONED_ROWS
from statestores.arrow.tail import (
    KEY_FIELD,
    NO_STREAM_TIME,
    VALUE_FIELD,
    Tail,
    cast,
    concat,
    is_in,
    key_ranks,
)

_VERSIONED_CHANGES = pa.schema([KEY_FIELD, VALUE_FIELD, VERSIONED_ROWS.field("valid_from")])
_VERSIONS = _VERSIONED_CHANGES.append(VERSIONED_ROWS.field("valid_to"))


class VersionedTail(Tail):
    """The versions put since a snapshot, those that came too late left out."""

    def __init__(
        self,
        history_retention_ms: int,
        *,
        stream_time_ms: int | None = None,
        keys: KeySelection | None = None,
    ) -> None:
        """Begin at the stream time of the snapshot; keep the changes of *keys*."""
        super().__init__(keys or KeySelection(), _VERSIONED_CHANGES, VERSIONED_ROWS)
        self._retention_ms = history_retention_ms
        self._stream_time = NO_STREAM_TIME if stream_time_ms is None else stream_time_ms

    @property
    def stream_time_ms(self) -> int | None:
        """The highest timestamp so far, of any key."""
        return None if self._stream_time == NO_STREAM_TIME else self._stream_time

    @property
    def horizon_ms(self) -> int:
        """Stream time minus the history retention."""
        return self._stream_time - self._retention_ms

    def add(self, changes: pa.RecordBatch) -> None:
        """Take the next changes of the log; a put below the horizon of its moment is refused."""
        if not changes.num_rows:
            return
        times = changes.column("timestamp").to_numpy()
        reached = np.maximum.accumulate(np.concatenate(([self._stream_time], times)))
        self._stream_time = int(reached[-1])
        # No refused put moves stream time, because each of them lies below it.
        accepted = times >= reached[:-1] - self._retention_ms
        if not accepted.all():
            changes = changes.filter(pa.array(accepted))
        columns = [changes.column(name) for name in ("key", "value", "timestamp")]
        self._keep(pa.RecordBatch.from_arrays(columns, names=self._schema.names))

    def clear(self) -> None:
        """Forget everything so far, stream time included."""
        super().clear()
        self._stream_time = NO_STREAM_TIME

    def _folded_changes(self, changes: pa.RecordBatch) -> pa.RecordBatch:
        # What expires here ends even earlier beside the versions of the snapshot, and a version
        # of the snapshot that it would have ended is then expired as well.
        return self._living(_versions(changes)).select(self._schema.names)

    def _apply(self, rows: pa.RecordBatch, changes: pa.RecordBatch) -> pa.RecordBatch:
        if not changes.num_rows:
            return self._living(rows)
        if not rows.num_rows:
            return self._living(_versions(changes))
        touched = is_in(rows.column("key"), changes.column("key"))
        mixed = rows.filter(touched).select(self._schema.names)
        versions = _versions(concat([cast(mixed, self._schema), changes], self._schema))
        untouched = cast(rows.filter(pc.invert(touched)), _VERSIONS)
        merged = self._living(concat([untouched, versions], _VERSIONS))
        ranks = key_ranks(merged.column("key"))
        order = np.lexsort((merged.column("valid_from").to_numpy(), ranks))
        return merged.take(pa.array(order))

    def _living(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the *rows* that have not expired."""
        ends = rows.column("valid_to")
        horizon = pa.scalar(self.horizon_ms, pa.int64())
        return rows.filter(pc.or_kleene(pc.is_null(ends), pc.greater(ends, horizon)))


def _versions(changes: pa.RecordBatch) -> pa.RecordBatch:
    """Return *changes*, in log order, in key and time order, each with its end.

    Of equal key and start the last one counts.
    """
    ranks = key_ranks(changes.column("key"))
    starts = changes.column("valid_from").to_numpy()
    order = np.lexsort((starts, ranks))
    ranks, starts = ranks[order], starts[order]
    same_key = ranks[1:] == ranks[:-1]
    counts = np.append(~same_key | (starts[1:] != starts[:-1]), values=True)
    order, ranks, starts = order[counts], ranks[counts], starts[counts]
    latest = np.append(ranks[1:] != ranks[:-1], values=True)
    rows = changes.take(pa.array(order))
    ends = pa.array(np.append(starts[1:], 0), pa.int64(), mask=latest)
    return pa.RecordBatch.from_arrays([*rows.columns, ends], schema=_VERSIONS)
