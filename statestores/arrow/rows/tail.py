"""The changes after a snapshot, and the snapshot's rows as they leave them: what all kinds share.

Invariant: a folded tail is in key order, and within a key in the order of the kind.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from statestores.arrow.keys.key_order import Numbers, key_order
from statestores.arrow.keys.key_selection import KeySelection
from statestores.arrow.row_batches import BATCH_BYTES, BATCH_ROWS
from statestores.arrow.rows.aligned import aligned
from statestores.arrow.rows.spilled_runs import SpilledRuns

# 64-bit offsets: a tail may hold more than the 2 GiB of an array with 32-bit ones.
KEY_FIELD = pa.field("key", pa.large_binary(), nullable=False)
"""The keys of a tail."""

VALUE_FIELD = pa.field("value", pa.large_binary())
"""The values of a tail; null deletes."""

_FOLD_ROWS = 1 << 20
"""Changes are folded when there are this many, and as many as the fold holds."""

_OFFSET_LIMIT = (1 << 31) - 1
_JOINED_BYTES = 1 << 20
"""Changes of small commits are put together up to here before they are cast."""


class Tail(ABC):
    """The changes after a snapshot, in log order."""

    def __init__(self, keys: KeySelection, changes: pa.Schema, rows: pa.Schema) -> None:
        """Keep the changes of *keys* only."""
        self._keys = keys
        self._schema = changes
        self._rows_schema = rows
        self._folded = concat([], changes)
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._cleared = False
        self._runs: SpilledRuns | None = None

    def spill(self, runs: SpilledRuns) -> None:
        """Put into *runs* what is more than they allow to be held in memory."""
        self._runs = runs

    @abstractmethod
    def add(self, changes: pa.RecordBatch) -> None:
        """Take the next changes of the log, in the columns of its kind."""

    def clear(self) -> None:
        """Forget everything so far, the snapshot included: the log says that it was deleted."""
        self._folded = self._folded.slice(0, 0)
        self._forget_pending()
        self._cleared = True
        if self._runs is not None:
            self._runs.clear()

    def merge(self, snapshot: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of *snapshot*, its keys selected already, as the changes leave them.

        In key order, and in batches of bounded size.
        """
        self._fold()
        if self._runs is not None and self._runs.are_there:
            yield from self._merge_runs(self._runs, snapshot)
            return
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
                rows, held = concat(held, batch.schema), []
            elif held[0].column("key")[0].as_py() == last:
                continue
            else:
                # The last key has changed, and its rows may go on in the next batch.
                rows = concat(held, batch.schema)
                others = pc.sum(pc.not_equal(rows.column("key"), last)).as_py()
                rows, held = rows.slice(0, others), [rows.slice(others)]
            yield from self._give(rows, self._folded.slice(done, stop - done))
            done = stop
        rest = self._folded.slice(done)
        yield from self._give(concat(held, self._rows_schema), rest)

    def _merge_runs(
        self, runs: SpilledRuns, snapshot: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Yield what `merge` yields, the earlier changes being in *runs*."""
        streams = [
            iter(() if self._cleared else snapshot),
            *runs.streams(),
            runs.pieces(self._folded),
        ]
        for stored, *parts in aligned(streams):
            changes = [batch for part in parts for batch in part]
            folded = self._folded.slice(0, 0)
            if changes:
                folded = self._folded_changes(concat(changes, self._schema))
            yield from self._give(concat(stored, self._rows_schema), folded)

    def changes(self) -> Iterator[pa.RecordBatch]:
        """Yield the changes that have an effect, in key order, deletions included.

        In batches of bounded size.
        """
        self._fold()
        runs = self._runs
        if runs is None or not runs.are_there:
            for start in range(0, self._folded.num_rows, BATCH_ROWS):
                yield self._folded.slice(start, BATCH_ROWS)
            return
        for parts in aligned([*runs.streams(), runs.pieces(self._folded)]):
            changes = [batch for part in parts for batch in part]
            yield self._folded_changes(concat(changes, self._schema))

    def content(self) -> pa.RecordBatch:
        """Return the rows that the changes make of nothing, as `merge` gives them, in one batch."""
        self._fold()
        return self._apply(concat([], self._rows_schema), self._folded)

    def folded(self) -> pa.RecordBatch:
        """Return the changes that have an effect, in key order, deletions included."""
        self._fold()
        return self._folded

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
            self._pending.append(selected)
            self._pending_rows += selected.num_rows
            self._pending_bytes += selected.nbytes
        if self._pending_rows > max(_FOLD_ROWS, self._folded.num_rows):
            self._fold()
        if self._runs is not None and self._runs.is_full(self._pending_bytes + self._folded.nbytes):
            self._fold()
            self._folded = self._runs.take(self._folded)

    def _fold(self) -> None:
        """Fold the pending changes into the others."""
        if self._pending:
            pending = [cast(each, self._schema) for each in _joined(self._pending)]
            everything = concat([self._folded, *pending], self._schema)
            self._folded = self._folded_changes(everything)
            self._forget_pending()

    def _forget_pending(self) -> None:
        self._pending = []
        self._pending_rows = 0
        self._pending_bytes = 0


def key_ranks(keys: pa.Array) -> Numbers:
    """Return for each of *keys* its place among the different ones, in the order of their bytes."""
    order = key_order(keys)
    of_each: Numbers = np.empty(len(order.rows), np.int64)
    of_each[order.rows] = np.cumsum(order.is_last) - order.is_last
    return of_each


def is_in(keys: pa.Array, changed: pa.Array) -> pa.Array:
    """Return for each of *keys* whether it is among those that *changed*."""
    return pc.is_in(keys.cast(changed.type), value_set=changed)


def cast(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return *rows* with the types of *schema*."""
    columns = [column.cast(field.type) for column, field in zip(rows.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _joined(batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of *batches* in fewer ones: to cast one takes as long as to cast 1,000."""
    group: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        size += batch.nbytes
        if group and (size > _JOINED_BYTES or not batch.schema.equals(group[0].schema)):
            yield concat(group, group[0].schema)
            group, size = [], batch.nbytes
        group.append(batch)
    if group:
        yield concat(group, group[0].schema)


def concat(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
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
        yield cast(piece, schema)


class _SortedKeys:
    """The sorted keys of a tail, to be searched without making a list of them."""

    def __init__(self, keys: pa.Array) -> None:
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, place: int) -> bytes:
        return bytes(self._keys[place].as_py())

    def below(self, key: bytes, start: int) -> int:
        """Return how many keys are below *key*, the first *start* of them known to be."""
        return bisect_left(self, key, lo=start)

    def has(self, key: bytes, place: int) -> bool:
        """Return whether *key*, of which *place* keys are below, is there."""
        return place < len(self) and self[place] == key
