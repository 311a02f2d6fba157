"""A snapshot and the changes after it, merged into the rows that a store would show.

This is the store's own rule of replay, over whole columns and without an engine, for readers that
must not take the writer's lock. The changes are taken in log order by a *tail*, which folds them
as it goes; then the rows of the snapshot stream through it. Memory is bounded by the keys (a
versioned store: versions) that changed and by the versions of these in the snapshot.

Invariant: a folded tail is in key order, a versioned one in time order within a key.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from statestores.arrow.key_selection import KeySelection
from statestores.arrow.row_batches import BATCH_BYTES, BATCH_ROWS
from statestores.arrow.schemas import KEY_VALUE_ROWS, VERSIONED_ROWS

Numbers = npt.NDArray[np.int64]

_FOLD_ROWS = 1 << 20
"""Changes are folded when there are so many, and as many as the fold holds."""

_NO_STREAM_TIME = -1  # below every time
_OFFSET_LIMIT = (1 << 31) - 1

# 64-bit offsets: a tail may hold more than the 2 GiB of an array with 32-bit ones.
_KEY = pa.field("key", pa.large_binary(), nullable=False)
_VALUE = pa.field("value", pa.large_binary())
_KEY_VALUE_CHANGES = pa.schema([_KEY, _VALUE])
_VERSIONED_CHANGES = pa.schema([_KEY, _VALUE, VERSIONED_ROWS.field("valid_from")])
_VERSIONS = _VERSIONED_CHANGES.append(VERSIONED_ROWS.field("valid_to"))


class Tail(ABC):
    """The changes after a snapshot, in log order."""

    def __init__(self, keys: KeySelection, changes: pa.Schema, rows: pa.Schema) -> None:
        """Keep the changes of *keys* only."""
        self._keys = keys
        self._schema = changes
        self._rows_schema = rows
        self._folded = _concat([], changes)
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._cleared = False

    @abstractmethod
    def add(self, changes: pa.RecordBatch) -> None:
        """Take the next changes of the log: ``key``, ``value``, and for versions ``timestamp``."""

    def clear(self) -> None:
        """Forget everything so far, the snapshot included: the log says that it was deleted."""
        self._folded = self._folded.slice(0, 0)
        self._pending = []
        self._pending_rows = 0
        self._cleared = True

    def merge(self, snapshot: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of *snapshot*, its keys selected already, as the changes leave them.

        In key order, and in batches of bounded size.
        """
        self._fold()
        done = 0
        held: list[pa.RecordBatch] = []
        keys = _SortedKeys(self._folded.column("key"))
        for batch in () if self._cleared else snapshot:
            if not batch.num_rows:
                continue
            last = batch.column("key")[-1].as_py()
            stop = keys.below(last, done)
            held.append(batch)
            if not keys.has(last, stop):
                rows, held = _concat(held, batch.schema), []
            elif held[0].column("key")[0].as_py() == last:
                continue
            else:
                # The last key has changed, and its rows may go on in the next batch.
                rows = _concat(held, batch.schema)
                others = pc.sum(pc.not_equal(rows.column("key"), last)).as_py()
                rows, held = rows.slice(0, others), [rows.slice(others)]
            yield from self._give(rows, self._folded.slice(done, stop - done))
            done = stop
        rest = self._folded.slice(done)
        yield from self._give(_concat(held, self._rows_schema), rest)

    def _give(self, rows: pa.RecordBatch, changes: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield *rows* with *changes*, of which no key appears before or after."""
        if rows.num_rows or changes.num_rows:
            yield from _pieces(self._apply(rows, changes), self._rows_schema)

    @abstractmethod
    def _apply(self, rows: pa.RecordBatch, changes: pa.RecordBatch) -> pa.RecordBatch:
        """Return *rows* with folded *changes*."""

    @abstractmethod
    def _folded_changes(self, changes: pa.RecordBatch) -> pa.RecordBatch:
        """Return what of *changes*, in log order, has an effect, in key order."""

    def _keep(self, changes: pa.RecordBatch) -> None:
        """Note *changes* whose keys are selected; fold when there are many."""
        selected = self._keys.filter(changes)
        if selected.num_rows:
            self._pending.append(_cast(selected, self._schema))
            self._pending_rows += selected.num_rows
        if self._pending_rows > max(_FOLD_ROWS, self._folded.num_rows):
            self._fold()

    def _fold(self) -> None:
        """Fold the pending changes into the others."""
        if self._pending:
            everything = _concat([self._folded, *self._pending], self._schema)
            self._folded = self._folded_changes(everything)
            self._pending = []
            self._pending_rows = 0


class KeyValueTail(Tail):
    """The last change of each key; a null value deletes it."""

    def __init__(self, keys: KeySelection | None = None) -> None:
        """Keep the changes of *keys*; without them, of all."""
        super().__init__(keys or KeySelection(), _KEY_VALUE_CHANGES, KEY_VALUE_ROWS)

    def add(self, changes: pa.RecordBatch) -> None:
        """Take the next changes of the log."""
        self._keep(changes.select(["key", "value"]))

    def _folded_changes(self, changes: pa.RecordBatch) -> pa.RecordBatch:
        ranks = _key_ranks(changes.column("key"))
        last = np.empty(int(ranks.max()) + 1, np.int64)
        last[ranks] = np.arange(len(ranks))  # of equal ranks the last assignment stays
        return changes.take(pa.array(last))

    def _apply(self, rows: pa.RecordBatch, changes: pa.RecordBatch) -> pa.RecordBatch:
        present = changes.filter(pc.is_valid(changes.column("value")))
        if not rows.num_rows:
            return present
        untouched = rows.filter(pc.invert(_is_in(rows.column("key"), changes.column("key"))))
        if not present.num_rows:
            return untouched
        merged = _concat([_cast(untouched, self._schema), present], self._schema)
        return merged.take(pc.sort_indices(merged.column("key")))


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
        self._stream_time = _NO_STREAM_TIME if stream_time_ms is None else stream_time_ms

    @property
    def stream_time_ms(self) -> int | None:
        """The highest timestamp so far, of any key."""
        return None if self._stream_time == _NO_STREAM_TIME else self._stream_time

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
        self._stream_time = _NO_STREAM_TIME

    def _folded_changes(self, changes: pa.RecordBatch) -> pa.RecordBatch:
        # What expires here ends even earlier beside the versions of the snapshot, and a version
        # of the snapshot that it would have ended is then expired as well.
        return self._living(_versions(changes)).select(self._schema.names)

    def _apply(self, rows: pa.RecordBatch, changes: pa.RecordBatch) -> pa.RecordBatch:
        if not changes.num_rows:
            return self._living(rows)
        if not rows.num_rows:
            return self._living(_versions(changes))
        touched = _is_in(rows.column("key"), changes.column("key"))
        mixed = rows.filter(touched).select(self._schema.names)
        versions = _versions(_concat([_cast(mixed, self._schema), changes], self._schema))
        untouched = _cast(rows.filter(pc.invert(touched)), _VERSIONS)
        merged = self._living(_concat([untouched, versions], _VERSIONS))
        ranks = _key_ranks(merged.column("key"))
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
    ranks = _key_ranks(changes.column("key"))
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


def _key_ranks(keys: pa.Array) -> Numbers:
    """Return for each of *keys* its place among the different ones, in the order of their bytes."""
    encoded = keys.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    of_each: Numbers = ranks[encoded.indices.to_numpy()]
    return of_each


def _is_in(keys: pa.Array, changed: pa.Array) -> pa.Array:
    """Return for each of *keys* whether it is among those that *changed*."""
    return pc.is_in(keys.cast(changed.type), value_set=changed)


def _cast(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return *rows* with the types of *schema*."""
    columns = [column.cast(field.type) for column, field in zip(rows.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _concat(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows of *batches* as one batch."""
    if len(batches) == 1:
        return batches[0]
    columns = [
        pa.concat_arrays([batch.column(number) for batch in batches])
        if batches
        else pa.array([], field.type)
        for number, field in enumerate(schema)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _pieces(rows: pa.RecordBatch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield *rows* in batches of bounded size with the types of *schema*."""
    size = max(1, min(BATCH_ROWS, rows.num_rows * BATCH_BYTES // max(rows.nbytes, 1)))
    addressable = rows.nbytes < _OFFSET_LIMIT
    for start in range(0, rows.num_rows, size):
        piece = rows.slice(start, size)
        if not addressable:
            piece = piece.take(pa.array(np.arange(piece.num_rows)))  # copied out of the large one
        yield _cast(piece, schema)


class _SortedKeys(Sequence[bytes]):
    """The sorted keys of a tail, to be searched without making a list of them."""

    def __init__(self, keys: pa.Array) -> None:
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    @overload
    def __getitem__(self, place: int) -> bytes: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[bytes]: ...
    def __getitem__(self, place: int | slice) -> bytes | Sequence[bytes]:
        found = self._keys[place]
        return _SortedKeys(found) if isinstance(place, slice) else bytes(found.as_py())

    def below(self, key: bytes, start: int) -> int:
        """Return how many keys are below *key*, the first *start* of them known to be."""
        return bisect_left(self, key, lo=start)

    def has(self, key: bytes, place: int) -> bool:
        """Return whether *key*, of which *place* keys are below, is there."""
        return place < len(self) and self[place] == key
