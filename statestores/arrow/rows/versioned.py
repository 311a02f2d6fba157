"""The rows of versioned stores: the versions of each key, each with its end.

The latest of a key has one row in the engine, which is read by key, and those that it superseded
have one each in the history.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
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
from statestores.arrow.rows.tail import Tail, cast, concat, is_in, key_ranks
from statestores.arrow.rows.version_chains import (
    GONE,
    VERSION_STARTS,
    VERSIONS,
    beside_stored,
    versions_of,
)
from statestores.arrow.schemas import VERSIONED_ROWS
from statestores.semantics.every_kind.arguments import MAX_TIME_MS
from statestores.semantics.every_kind.sorted_rows import SortedRows
from statestores.semantics.rows.layout import DATA, HISTORY
from statestores.semantics.rows.progress import NO_STREAM_TIME
from statestores.semantics.versioned.rows import (
    DELETED,
)
from statestores.semantics.versioned.store import EngineVersionedStore


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
        super().__init__(keys or KeySelection(), VERSION_STARTS, VERSIONED_ROWS)
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
        return self._living(versions_of(changes)).select(self._schema.names)

    def _apply(self, rows: pa.RecordBatch, changes: pa.RecordBatch) -> pa.RecordBatch:
        if not changes.num_rows:
            return self._living(rows)
        if not rows.num_rows:
            return self._living(versions_of(changes))
        touched = is_in(rows.column("key"), changes.column("key"))
        mixed = rows.filter(touched).select(self._schema.names)
        versions = versions_of(concat([cast(mixed, self._schema), changes], self._schema))
        untouched = cast(rows.filter(pc.invert(touched)), VERSIONS)
        merged = self._living(concat([untouched, versions], VERSIONS))
        ranks = key_ranks(merged.column("key"))
        order = np.lexsort((merged.column("valid_from").to_numpy(), ranks))
        return merged.take(pa.array(order))

    def _living(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the *rows* that have not expired."""
        ends = rows.column("valid_to")
        horizon = pa.scalar(self.horizon_ms, pa.int64())
        return rows.filter(pc.or_kleene(pc.is_null(ends), pc.greater(ends, horizon)))


class VersionedEncoder(RowEncoder):
    """Encodes columns for one versioned store.

    A put is judged by the stream time of its moment, and replay judges by the same rule (COM-40).
    So changes begin at the store's stream time, and what came too late among them is left out as it
    was by the store that wrote them. What is left is encoded as content is.
    """

    runs = 2
    deletes = False  # a deletion is a version

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
        """Return the versions that *changes* bring, and those of the store that they end."""
        tail = VersionedTail(self._retention_ms, stream_time_ms=self._store.stream_time_ms)
        tail.add(changes)
        rows = tail.content() if is_empty else self._beside_stored(tail)
        latest, history = _encoded(rows)
        highest_ms = tail.stream_time_ms
        return SortedRows(
            # One namespace comes after the other, so together they are in order as well.
            rows=chain(latest.rows, history.rows),
            has_deletions=history.has_deletions,
            highest_ms=NO_STREAM_TIME if highest_ms is None else highest_ms,
            lowest_ms=history.lowest_ms,
            removals=0 if is_empty else rows.num_rows,
        )

    def _beside_stored(self, tail: VersionedTail) -> pa.RecordBatch:
        """Return the versions of *tail*, and those of the store whose ends they change."""
        changes = tail.folded()
        if not changes.num_rows:
            return concat([], VERSIONS)
        with self._store.view() as view:
            return beside_stored(view, changes, tail.horizon_ms)


def _encoded(rows: pa.RecordBatch) -> tuple[SortedRows, SortedRows]:
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
    are_gone = pc.equal(ends, GONE)
    history = _rows(ends, values)
    if has_deletions := bool(pc.any(are_gone).as_py()):
        history = pc.if_else(are_gone, pa.scalar(None, LARGE), history)
    lowest = pc.min(ends.filter(pc.invert(are_gone))).as_py()
    return (
        SortedRows(
            rows=pairs(
                joined(DATA, latest.column("key").cast(LARGE)),
                _rows(latest.column("valid_from"), latest.column("value")),
            )
        ),
        SortedRows(
            rows=pairs(history_keys.take(order), history.take(order)),
            has_deletions=has_deletions,
            lowest_ms=MAX_TIME_MS if lowest is None else lowest,
        ),
    )


def _rows(times: pa.Array, values: pa.Array) -> pa.Array:
    """Return *values* behind their headers: a time, and a bit for those that delete."""
    headers: npt.NDArray[np.uint64] = times.to_numpy().astype(np.uint64)
    # A bit that no int64 has: numpy 2.5 takes a Python number for one, and refuses it.
    deleted = pc.is_null(values).to_numpy(zero_copy_only=False)
    headers |= np.where(deleted, np.uint64(DELETED), np.uint64(0))
    return joined(b"", big_endian(pa.array(headers)), pc.fill_null(values.cast(LARGE), NO_BYTES))
