"""One partition's changes as the batches of a streaming query, with what they leave unsaid.

A changelog does not say which rows have expired, which puts came too late, or which keys a clear
has dropped: a store knows the rules, and Spark does not. So late puts are left out, and what a
clear or the retention takes away is deleted, row by row.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from statestores.arrow.rows.retained import RetainedTail
from statestores.arrow.rows.tail import KEY_FIELD, concat
from statestores.arrow.rows.versioned import VersionedTail
from statestores.arrow.schemas import put_order
from statestores.migration.spark.columns import SparkColumns
from statestores.reading.replay import Replay
from statestores.semantics.rows.progress import NO_STREAM_TIME
from statestores.spark_checkpoint import StateFileWriter
from statestores.spi.specification import StoreSpecification, TimestampedKeyValue

_NO_NUMBER = -1
_CLEAR = "clear"


class PartitionBatches:
    """Writes the changes of one partition, in the order of its log, and knows what is left."""

    def __init__(
        self,
        specification: StoreSpecification[Any, Any],
        columns: SparkColumns,
        replay: Replay,
    ) -> None:
        """Go on from the content of *replay*."""
        self._columns = columns
        self._replay = replay
        self._rows = _living_rows(specification, columns)
        self._order = put_order(specification.kind)
        self._has_history = specification.kind.has_history
        self._names = {each.name: each.row_name for each in specification.kind.numbers}
        self._retention_ms = getattr(specification, specification.kind.retention or "", 0)

    def write_content(self, output: StateFileWriter, *, begin: bool = False) -> None:
        """Write everything that there is now; *begin* says that the changes come after it."""
        for rows in self._replay.rows():
            output.add(self._columns.keys_of(rows), self._columns.values_of(rows))
            if begin and self._rows is not None:
                self._rows.begin_with(rows)

    def write_changes(self, output: StateFileWriter, changes: pa.RecordBatch) -> None:
        """Write the next *changes*, those of one frame of the log."""
        if _is_clear(changes):
            self._write_clear(output)
            return
        names = [self._names.get(name, name) for name in changes.schema.names]
        rows = pa.RecordBatch.from_arrays(changes.columns, names=names)
        accepted = self._accepted(rows)
        self._replay.tail.add(changes)
        if accepted is not None and not accepted.all():
            rows = rows.filter(pa.array(accepted))
        # A version without a value is a row as well: the key was deleted at that time.
        deleted = np.zeros(rows.num_rows, np.bool_)
        if not self._has_history and rows.column("value").null_count:
            deleted = rows.column("value").is_null().to_numpy(zero_copy_only=False)
        output.add(self._columns.keys_of(rows), self._columns.values_of(rows), deleted)
        if self._rows is not None:
            self._rows.change(rows, deleted)

    def end_batch(self, output: StateFileWriter) -> None:
        """Delete what has expired by now."""
        if self._rows is not None:
            for rows in self._rows.gone(self._replay.rows()):
                output.delete(self._columns.keys_of(rows), self._columns.values)

    def _write_clear(self, output: StateFileWriter) -> None:
        """Delete every row."""
        present = self._replay.rows() if self._rows is None else self._rows.drop()
        for rows in present:
            output.delete(self._columns.keys_of(rows), self._columns.values)
        self._replay.tail.clear()

    def _accepted(self, rows: pa.RecordBatch) -> npt.NDArray[np.bool_] | None:
        """Return which *rows* did not come too late; ``None`` for the kinds that accept all."""
        if self._order is None or not rows.num_rows:
            return None
        tail = self._replay.tail
        if not isinstance(tail, VersionedTail | RetainedTail):
            return None
        stream_time = NO_STREAM_TIME if tail.stream_time_ms is None else tail.stream_time_ms
        times = rows.column(self._order).to_numpy()
        reached = np.maximum.accumulate(np.concatenate(([stream_time], times)))
        lateness = reached[:-1] - times
        if self._has_history:
            return np.asarray(lateness <= self._retention_ms)
        return np.asarray(lateness < self._retention_ms)


def _living_rows(
    specification: StoreSpecification[Any, Any], columns: SparkColumns
) -> "_LivingRows | None":
    """Return what keeps account of the rows of a store whose rows expire."""
    expires = put_order(specification.kind) is not None
    if isinstance(specification, TimestampedKeyValue):
        expires = specification.ttl_ms is not None
    return _LivingRows(columns.keys.names) if expires else None


class _LivingRows:
    """The keys of the rows that Spark's state has: bytes and times of each, and no values."""

    def __init__(self, names: list[str]) -> None:
        numbers = [pa.field(name, pa.int64()) for name in names[1:]]
        self._schema = pa.schema([KEY_FIELD, *numbers])
        self._rows = concat([], self._schema)
        self._begun: list[pa.RecordBatch] = []
        self._changed: list[pa.RecordBatch] = []
        self._deleted: list[npt.NDArray[np.bool_]] = []

    def begin_with(self, rows: pa.RecordBatch) -> None:
        """Take rows that are there before the first change."""
        self._begun.append(self._keys(rows))

    def change(self, rows: pa.RecordBatch, deleted: npt.NDArray[np.bool_]) -> None:
        """Take the next changes, of which some are *deleted*."""
        self._changed.append(self._keys(rows))
        self._deleted.append(deleted)

    def drop(self) -> Iterator[pa.RecordBatch]:
        """Yield what is there, and forget it."""
        self._settle()
        yield self._rows
        self._rows = concat([], self._schema)

    def gone(self, content: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what is there and not in *content*, and keep what is in it."""
        self._settle()
        kept = concat([self._keys(rows) for rows in content], self._schema)
        expired = pc.invert(pc.is_in(_identities(self._rows), value_set=_identities(kept)))
        yield self._rows.filter(expired)
        self._rows = kept

    def _settle(self) -> None:
        """Apply the changes since the last time: the last one of each row counts."""
        if self._begun:
            self._rows = concat(self._begun, self._schema)
            self._begun = []
        if not self._changed:
            return
        changed = concat(self._changed, self._schema)
        deleted = np.concatenate(self._deleted)
        self._changed, self._deleted = [], []
        identities = _identities(changed)
        codes = identities.dictionary_encode()
        last = np.zeros(len(codes.dictionary), np.int64)
        np.maximum.at(last, codes.indices.to_numpy(), np.arange(len(changed)))
        put = changed.take(pa.array(last[~deleted[last]]))
        untouched = pc.invert(pc.is_in(_identities(self._rows), value_set=codes.dictionary))
        self._rows = concat([self._rows.filter(untouched), put], self._schema)

    def _keys(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        columns = [rows.column(field.name).cast(field.type) for field in self._schema]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _identities(rows: pa.RecordBatch) -> pa.Array:
    """Return bytes that are equal for equal keys and times, and only for them."""
    key, *numbers = rows.columns
    parts = [
        pa.Array.from_buffers(
            pa.large_binary(),
            len(column),
            [
                None,
                pa.py_buffer(np.arange(len(column) + 1, dtype=np.int64) * 8),
                pa.py_buffer(np.ascontiguousarray(pc.fill_null(column, _NO_NUMBER).to_numpy())),
            ],
        )
        for column in numbers
    ]
    return pc.binary_join_element_wise(key, *parts, pa.scalar(b"", pa.large_binary()))


def _is_clear(changes: pa.RecordBatch) -> bool:
    """Return whether *changes* say that everything before them is dropped; such come alone."""
    return changes.num_rows == 1 and bool(changes.column("operation")[0].as_py() == _CLEAR)
