"""The rows of versioned stores: the versions of each key, each with its end.

The latest of a key has one row in the engine, which is read by key, and those that it superseded
have one each in the history.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from statestores.arrow.key_selection import KeySelection
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
from statestores.arrow.rows.tail import (
    KEY_FIELD,
    VALUE_FIELD,
    Tail,
    cast,
    concat,
    is_in,
    key_ranks,
)
from statestores.arrow.schemas import VERSIONED_ROWS
from statestores.semantics.arguments import MAX_TIME_MS
from statestores.semantics.layout import DATA, HISTORY
from statestores.semantics.progress import NO_STREAM_TIME
from statestores.semantics.sorted_rows import SortedRows
from statestores.semantics.versioned import EngineVersionedStore
from statestores.semantics.versioned_rows import DELETED

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


class VersionedEncoder(RowEncoder):
    """Encodes columns for one versioned store.

    A put is judged by the stream time of its moment, and replay judges by the same rule (COM-40).
    So changes begin at the store's stream time, and what came too late among them is left out as it
    was by the store that wrote them. What is left is encoded as content is.
    """

    runs = 2

    def __init__(self, store: EngineVersionedStore) -> None:
        """Encode for *store*."""
        self._store = store
        specification: Any = store.specification
        self._retention_ms: int = specification.history_retention_ms

    def content(self, pieces: Iterator[pa.RecordBatch]) -> Iterator[Iterable[SortedRows]]:
        """Yield a run of the latest rows, and one of the history."""
        rows = list(pieces)
        for run in _encoded(concat(rows, rows[0].schema)):
            yield (run,)

    def changes(self, changes: pa.RecordBatch, *, is_empty: bool) -> SortedRows:
        """Return what has an effect. Requires: *is_empty*."""
        tail = VersionedTail(self._retention_ms, stream_time_ms=self._store.stream_time_ms)
        tail.add(changes)
        rows = tail.content()
        runs = _encoded(rows)
        highest_ms = tail.stream_time_ms
        return SortedRows(
            # One namespace comes after the other, so together they are in order as well.
            rows=chain.from_iterable(run.rows for run in runs),
            highest_ms=NO_STREAM_TIME if highest_ms is None else highest_ms,
            lowest_ms=min(run.lowest_ms for run in runs),
        )


def _encoded(rows: pa.RecordBatch) -> Sequence[SortedRows]:
    """Return the latest rows, and the history, of versions with their ends."""
    is_latest = pc.is_null(rows.column("valid_to"))
    latest = rows.filter(is_latest)
    superseded = rows.filter(pc.invert(is_latest))
    # A marker repeats a latest deletion among the superseded versions, its end at its start.
    deleted = latest.filter(pc.is_null(latest.column("value")))
    keys = pa.concat_arrays([superseded.column("key"), deleted.column("key")])
    values = pa.concat_arrays([superseded.column("value"), deleted.column("value")])
    starts = pa.concat_arrays([superseded.column("valid_from"), deleted.column("valid_from")])
    ends = pa.concat_arrays([superseded.column("valid_to"), deleted.column("valid_from")])
    # The history of a key lies newest first.
    order = pa.array(np.lexsort((-starts.to_numpy(), key_ranks(keys))))
    history_keys = joined(
        HISTORY, escaped(keys), END_OF_KEY, big_endian(pc.subtract(MAX_TIME_MS, starts))
    )
    lowest = pc.min(ends).as_py()
    return (
        SortedRows(
            rows=pairs(
                joined(DATA, latest.column("key").cast(LARGE)),
                _rows(latest.column("valid_from"), latest.column("value")),
            )
        ),
        SortedRows(
            rows=pairs(history_keys.take(order), _rows(ends, values).take(order)),
            lowest_ms=MAX_TIME_MS if lowest is None else lowest,
        ),
    )


def _rows(times: pa.Array, values: pa.Array) -> pa.Array:
    """Return *values* behind their headers: a time, and a bit for those that delete."""
    headers: npt.NDArray[np.uint64] = times.to_numpy().astype(np.uint64)
    headers |= np.where(pc.is_null(values).to_numpy(zero_copy_only=False), DELETED, 0).astype(
        np.uint64
    )
    return joined(b"", big_endian(pa.array(headers)), pc.fill_null(values.cast(LARGE), NO_BYTES))
