"""`join_as_of`: each row of a batch, with what a store held for its key at its time."""

from collections.abc import Callable
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from statestores.arrow.as_of.index import AsOfIndex, Found
from statestores.arrow.as_of.reads import find_as_of
from statestores.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    SerializationError,
)
from statestores.semantics.every_kind.arguments import check_time
from statestores.serdes.arrow_columns import map_chunks
from statestores.serdes.raw_serde import serde_or_raw
from statestores.spi.stores.versioned import ReadOnlyVersionedStore

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)

_HOW = ("left", "inner")
_TIME = pa.int64()
_IN_A_MILLISECOND = {"us": 1_000, "ns": 1_000_000}


def join_as_of(
    source: ReadOnlyVersionedStore[Any, Any] | AsOfIndex,
    batch: Rows,
    *,
    on: str,
    at: str,
    value_name: str = "value",
    valid_from_name: str = "valid_from",
    how: str = "left",
    max_age_ms: int | None = None,
) -> Rows:
    """Return the rows of *batch* in their order, with the value that their key had at their time.

    Two columns are added: the value, of the type of the store's value serde, and since when it is
    valid, int64 milliseconds. They are null where the key had no value then, where the time is
    outside the store's retention (VRS-9), and where key or time is null. A time before the
    epoch finds nothing.

    A time finer than a millisecond is rounded down. That is exact: versions start at whole
    milliseconds, so none of them starts between the time and the millisecond that it lies in.

    Args:
        source: A versioned store, typed or of bytes, with its uncommitted writes; a read-only
            facade, which sees one commit; or an `AsOfIndex`, for history without a store.
        batch: A record batch or a table; the result is of the same class.
        on: The column of keys, of the store's key serde's type in any of Arrow's layouts.
        at: The column of times: int64 milliseconds since the epoch, or a timestamp of any unit,
            with a time zone or without one, which then means UTC.
        value_name: The name of the column of values.
        valid_from_name: The name of the column that says since when.
        how: ``"left"`` keeps every row, ``"inner"`` those for which there is a value.
        max_age_ms: Take a value only if it has been valid for at most this long: 0 takes the
            versions that start at exactly that time.

    Raises:
        InvalidTypeError: *batch* is neither a batch nor a table, or *source* not versioned.
        InvalidArgumentError: A column is missing, there twice, or of another type; a name of the
            result is taken; *how* or *max_age_ms* is invalid.
        StoreClosedError: The store is closed.
        SerializationError: A value is not the serde's.

    >>> from statestores.opening import open_store
    >>> from statestores.spi import Versioned
    >>> rates = open_store("rates", Versioned("rates", history_retention_ms=1000), backend="memory")
    >>> rates.put_many([b"EUR", b"EUR"], [b"1.08", b"1.10"], [100, 200])
    2
    >>> trades = pa.record_batch({"currency": [b"EUR", b"EUR", b"USD"], "time": [150, 200, 200]})
    >>> joined = join_as_of(rates, trades, on="currency", at="time", value_name="rate")
    >>> joined.column("rate").to_pylist(), joined.column("valid_from").to_pylist()
    ([b'1.08', b'1.10', None], [100, 200, None])
    >>> rates.close()
    """
    if not isinstance(batch, pa.RecordBatch | pa.Table):
        raise InvalidTypeError(
            f"expected a pyarrow.RecordBatch or pyarrow.Table, got {type(batch).__name__}; "
            "make one with pyarrow.table(...)"
        )
    names = batch.schema.names
    _check_arguments(names, (on, at), (value_name, valid_from_name), how, max_age_ms)
    times = _milliseconds(_one_array(batch.column(at)), at)
    found = _find(source, batch, on, _from_epoch(times))
    values, starts = found.values, found.valid_from
    if max_age_ms is not None:
        is_fresh = pc.less_equal(pc.subtract(times, starts), max_age_ms)
        values = pc.if_else(is_fresh, values, pa.scalar(None, values.type))
        starts = pc.if_else(is_fresh, starts, pa.scalar(None, starts.type))
    joined = batch.append_column(value_name, values).append_column(valid_from_name, starts)
    if how == "inner":
        return joined.filter(starts.is_valid())
    return joined


def _find(
    source: ReadOnlyVersionedStore[Any, Any] | AsOfIndex,
    batch: pa.RecordBatch | pa.Table,
    on: str,
    times: pa.Array,
) -> Found:
    """Return what is valid for each key of the column *on* at its time."""
    if isinstance(source, AsOfIndex):
        return source.find(_encoded(source.encode_keys, batch, on), times)
    if isinstance(source, ReadOnlyVersionedStore):
        encode = serde_or_raw(source.specification.key).encode_array
        return find_as_of(source, _encoded(encode, batch, on), times)
    raise InvalidTypeError(
        f"expected a versioned store or an AsOfIndex, got {type(source).__name__}; other stores "
        "hold no history"
    )


def _encoded(
    encode: Callable[[pa.Array], pa.Array], batch: pa.RecordBatch | pa.Table, on: str
) -> pa.Array:
    """Return the column *on* as the source's keys."""
    try:
        return encode(_one_array(batch.column(on)))
    except SerializationError as error:
        raise InvalidArgumentError(
            f"the column {on!r} of the type {batch.column(on).type} has no keys of the store: "
            f"{error}"
        ) from error


def _check_arguments(
    names: list[str],
    columns: tuple[str, str],
    added: tuple[str, str],
    how: str,
    max_age_ms: int | None,
) -> None:
    """Accept what a join can be made of.

    Raises:
        InvalidArgumentError: A column is missing or there twice, a name of the result is taken,
            or *how* or *max_age_ms* is invalid.
    """
    for name in columns:
        if names.count(name) != 1:
            raise InvalidArgumentError(
                f"the batch has {names.count(name)} columns {name!r}, expected one; it has "
                f"{', '.join(map(repr, names))}"
            )
    for name in added:
        if name in names or added.count(name) > 1:
            raise InvalidArgumentError(
                f"the result would have two columns {name!r}; choose another value_name or "
                "valid_from_name"
            )
    if how not in _HOW:
        raise InvalidArgumentError(f"how must be 'left' or 'inner', got {how!r}")
    if max_age_ms is not None:
        check_time("max_age_ms", max_age_ms)


def _one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return *column* as one array.

    Raises:
        InvalidArgumentError: It is too large for one.
    """
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    try:
        return column.unify_dictionaries().combine_chunks()
    except pa.ArrowInvalid as error:  # beyond 2 GiB
        raise InvalidArgumentError(
            f"a column of {column.nbytes} bytes is too large; join the table in slices"
        ) from error


def _milliseconds(column: pa.Array, name: str) -> pa.Array:
    """Return a column of times as int64 milliseconds, finer ones rounded down.

    Raises:
        InvalidArgumentError: It is of another type, or a time does not fit int64 milliseconds.
    """
    plain = map_chunks(lambda array: array, column, None)
    if pa.types.is_null(plain.type):
        return plain.cast(_TIME)
    try:
        if pa.types.is_integer(plain.type):
            return plain.cast(_TIME)
        if pa.types.is_timestamp(plain.type):
            if plain.type.unit in {"s", "ms"}:
                return plain.cast(pa.timestamp("ms", plain.type.tz)).cast(_TIME)
            absent = plain.is_null().to_numpy(zero_copy_only=False)
            fine = plain.cast(_TIME).fill_null(0).to_numpy()
            return pa.array(fine // _IN_A_MILLISECOND[plain.type.unit], mask=absent)
    except pa.ArrowInvalid as error:
        raise InvalidArgumentError(
            f"the column {name!r} of the type {column.type} has times that are no int64 "
            f"milliseconds: {error}"
        ) from error
    raise InvalidArgumentError(
        f"the column {name!r} must be int64 milliseconds or a timestamp, got {column.type}"
    )


def _from_epoch(times: pa.Array) -> pa.Array:
    """Return *times* with null for those before the epoch, when nothing can be valid."""
    return pc.if_else(pc.less(times, 0), pa.scalar(None, _TIME), times)
