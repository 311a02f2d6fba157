"""The rows of key-value stores: the last change of each key, with a timestamp or without."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from statestores.arrow.keys.key_order import key_order
from statestores.arrow.keys.key_selection import KeySelection
from statestores.arrow.rows.encoder import LARGE, RowEncoder, big_endian, joined, pairs
from statestores.arrow.rows.tail import KEY_FIELD, VALUE_FIELD, Tail, cast, concat, is_in
from statestores.arrow.schemas import KEY_VALUE_ROWS, TIMESTAMPED_ROWS
from statestores.semantics.every_kind.arguments import MAX_TIME_MS
from statestores.semantics.every_kind.sorted_rows import SortedRows
from statestores.semantics.rows.layout import DATA
from statestores.semantics.rows.progress import NO_STREAM_TIME
from statestores.semantics.timestamped.expiry import Expiry
from statestores.semantics.timestamped.rows import NO_TIMESTAMP
from statestores.spi.specification import TimestampedKeyValue

_CHANGES = pa.schema([KEY_FIELD, VALUE_FIELD])
_TIMESTAMPED_CHANGES = _CHANGES.append(TIMESTAMPED_ROWS.field("timestamp"))


class KeyValueTail(Tail):
    """The last change of each key; a null value deletes it."""

    def __init__(
        self,
        keys: KeySelection | None = None,
        *,
        changes: pa.Schema = _CHANGES,
        rows: pa.Schema = KEY_VALUE_ROWS,
    ) -> None:
        """Keep the changes of *keys*; without them, of all."""
        super().__init__(keys or KeySelection(), changes, rows)

    def add(self, changes: pa.RecordBatch) -> None:
        """Take the next changes of the log."""
        self._keep(changes.select(self._schema.names))

    def _folded_changes(self, changes: pa.RecordBatch) -> pa.RecordBatch:
        order = key_order(changes.column("key"))
        return changes.take(pa.array(order.rows[order.is_last]))

    def _apply(self, rows: pa.RecordBatch, changes: pa.RecordBatch) -> pa.RecordBatch:
        present = changes.filter(pc.is_valid(changes.column("value")))
        if not rows.num_rows:
            return present
        untouched = rows.filter(pc.invert(is_in(rows.column("key"), changes.column("key"))))
        if not present.num_rows:
            return untouched
        merged = concat([cast(untouched, self._schema), present], self._schema)
        return merged.take(pa.array(key_order(merged.column("key")).rows))


class TimestampedTail(KeyValueTail):
    """The same with a timestamp for each value; what has expired is not shown (TTL-2)."""

    def __init__(
        self,
        specification: TimestampedKeyValue[Any, Any],
        *,
        stream_time_ms: int | None = None,
        keys: KeySelection | None = None,
    ) -> None:
        """Begin at the stream time of the snapshot; keep the changes of *keys*."""
        super().__init__(keys, changes=_TIMESTAMPED_CHANGES, rows=TIMESTAMPED_ROWS)
        self._expiry = Expiry(specification, None)
        self._expires = specification.ttl_ms is not None
        self._stream_time = NO_STREAM_TIME if stream_time_ms is None else stream_time_ms

    @property
    def stream_time_ms(self) -> int | None:
        """The highest timestamp so far, of any key."""
        return None if self._stream_time == NO_STREAM_TIME else self._stream_time

    def add(self, changes: pa.RecordBatch) -> None:
        """Take the next changes of the log; their highest timestamp moves stream time."""
        put = changes.column("timestamp").filter(pc.is_valid(changes.column("value")))
        highest = pc.max(put).as_py()
        if highest is not None:
            self._stream_time = max(self._stream_time, highest)
        super().add(changes)

    def clear(self) -> None:
        """Forget everything so far, stream time included."""
        super().clear()
        self._stream_time = NO_STREAM_TIME

    def _apply(self, rows: pa.RecordBatch, changes: pa.RecordBatch) -> pa.RecordBatch:
        merged = super()._apply(rows, changes)
        if not self._expires:
            return merged
        horizon = pa.scalar(self._expiry.horizon_ms(self._stream_time), pa.int64())
        times = merged.column("timestamp")
        return merged.filter(pc.or_kleene(pc.is_null(times), pc.greater(times, horizon)))


class KeyValueEncoder(RowEncoder):
    """Encodes columns for a key-value store, of which each row is one of the engine."""

    folds = True

    def content(self, pieces: Iterator[pa.RecordBatch]) -> Iterator[Iterable[SortedRows]]:
        """Yield one run: content is in the order of keys, and each piece goes as it comes."""
        yield (self.changes(piece, is_empty=True) for piece in pieces)

    def changes(self, changes: pa.RecordBatch, *, is_empty: bool) -> SortedRows:
        """Return the last of *changes* of each key; nothing in the store matters to them."""
        last = _last_of_each_key(changes, is_empty=is_empty)
        values = last.column("value")
        return SortedRows(
            rows=pairs(last.column("key"), values, namespace=DATA),
            has_deletions=bool(values.null_count),
        )

    def fold(self, changes: pa.RecordBatch, *, is_empty: bool) -> tuple[pa.RecordBatch, int]:
        """Return the last of *changes* of each key."""
        return _last_of_each_key(changes, is_empty=is_empty), NO_STREAM_TIME


class TimestampedEncoder(KeyValueEncoder):
    """The same with the header of a timestamp before each value."""

    def changes(self, changes: pa.RecordBatch, *, is_empty: bool) -> SortedRows:
        """Return the same; a change that another one overwrites moves stream time too."""
        highest = _bound(pc.max, changes, NO_STREAM_TIME)
        last = _last_of_each_key(changes, is_empty=is_empty)
        values = last.column("value")
        headers = big_endian(pc.fill_null(last.column("timestamp"), NO_TIMESTAMP))
        rows = joined(b"", headers, values.cast(LARGE))
        return SortedRows(
            rows=pairs(last.column("key"), rows, namespace=DATA),
            has_deletions=bool(values.null_count),
            highest_ms=highest,
            lowest_ms=_bound(pc.min, last, MAX_TIME_MS),
        )

    def fold(self, changes: pa.RecordBatch, *, is_empty: bool) -> tuple[pa.RecordBatch, int]:
        """Return the last of *changes* of each key, and the highest timestamp of all of them."""
        highest = _bound(pc.max, changes, NO_STREAM_TIME)
        return _last_of_each_key(changes, is_empty=is_empty), highest


def _bound(bound: Callable[[pa.Array], pa.Scalar], changes: pa.RecordBatch, default: int) -> int:
    """Return a bound of the timestamps that *changes* put."""
    put = changes.column("timestamp").filter(pc.is_valid(changes.column("value")))
    found = bound(put).as_py()
    return default if found is None else int(found)


def _last_of_each_key(changes: pa.RecordBatch, *, is_empty: bool) -> pa.RecordBatch:
    """Return the last of *changes* of each key, in the order of keys."""
    order = key_order(changes.column("key"))
    if not order.is_last.all() or (order.rows[1:] < order.rows[:-1]).any():
        changes = changes.take(pa.array(order.rows[order.is_last]))
    if is_empty and changes.column("value").null_count:
        changes = changes.filter(pc.is_valid(changes.column("value")))
    return changes
