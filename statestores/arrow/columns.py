"""Whole Arrow columns into a store and out of it.

Keys and values are of the serdes' types on the Arrow side and are encoded as columns: a typed store
is bypassed, and its store of bytes is read and written.
"""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from statestores.arrow.progress import Meter, ProgressCallback
from statestores.arrow.schemas import TIMESTAMPED_ROWS, put_order
from statestores.arrow.store_of_bytes import check_owner, store_of_bytes
from statestores.arrow.time_travel import check_has_history
from statestores.arrow.typed_columns import encode_rows
from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.serdes.raw_serde import serde_or_raw
from statestores.spi.records import Changes
from statestores.spi.stores.key_value import KeyValueStore, ReadOnlyKeyValueStore
from statestores.spi.stores.session import SessionStore
from statestores.spi.stores.store import ReadOnlyStore, StateStore
from statestores.spi.stores.timestamped_key_value import (
    ReadOnlyTimestampedKeyValueStore,
    TimestampedKeyValueStore,
)
from statestores.spi.stores.versioned import ReadOnlyVersionedStore, VersionedStore
from statestores.spi.stores.window import WindowStore

LOAD_ROWS = 100_000
"""Rows that `bulk_load` puts between two commits."""


def get_many(
    store: ReadOnlyStore,
    keys: pa.Array | pa.ChunkedArray,
    as_of_ms: int | pa.Array | pa.ChunkedArray | None = None,
) -> pa.Array | pa.Table:
    """Return what *store* holds for each of *keys*, in their order, null where there is nothing.

    A key-value store gives an array of values. A timestamped one gives a table of ``value`` and
    ``timestamp``. A versioned store gives a table of ``value``, ``valid_from`` and ``valid_to``,
    as of one time, or as of a time for each key.

    Raises:
        StoreClosedError: The store is closed.
        InvalidArgumentError: A time is given and the store is a key-value store.
        InvalidTypeError: The store is of a kind that has no point reads by key.
        SerializationError: A key is not of the serde's type, or a value is not the serde's.
    """
    below: object = store_of_bytes(store)
    encoded = serde_or_raw(store.specification.key).encode_array(keys)
    decode = serde_or_raw(store.specification.value).decode_array
    if isinstance(below, ReadOnlyKeyValueStore):
        if as_of_ms is not None:
            check_has_history(store.specification)
        if isinstance(below, ReadOnlyTimestampedKeyValueStore):
            stamped = below.get_many(encoded)
            return pa.table(
                {
                    "value": decode(
                        pa.array([each and each.value for each in stamped], pa.binary())
                    ),
                    "timestamp": pa.array(
                        [each and each.timestamp_ms for each in stamped], pa.int64()
                    ),
                }
            )
        return decode(pa.array(below.get_many(encoded), pa.binary()))
    if not isinstance(below, ReadOnlyVersionedStore):
        raise _unknown_kind(store)
    found = below.get_many(encoded, as_of_ms)
    return pa.table(
        {
            "value": decode(pa.array([record and record.value for record in found], pa.binary())),
            "valid_from": pa.array(
                [record and record.valid_from_ms for record in found], pa.int64()
            ),
            "valid_to": pa.array([record and record.valid_to_ms for record in found], pa.int64()),
        }
    )


def put_many(store: StateStore, rows: pa.Table | pa.RecordBatch) -> int:
    """Put *rows* into *store*, in their order, as pending writes; return how many were accepted.

    The columns are ``key`` and ``value``, and the kind's times: ``timestamp``, ``valid_from``,
    ``window_start``, or ``session_start`` and ``session_end``. A null value deletes.
    All of *rows* is checked before the first is put.

    Raises:
        StoreClosedError: The store is closed.
        InvalidArgumentError: A column is missing, unknown, or of a type that cannot be taken.
        SerializationError: A key or value is not of the serde's type.
    """
    return put_encoded(store_of_bytes(store), encode_table(store, rows))


def update_many(
    store: StateStore,
    keys: pa.Array | pa.ChunkedArray,
    function: Callable[[pa.Array, pa.Array | pa.Table], pa.Array | pa.ChunkedArray | pa.Table],
) -> int:
    """Put what *function* makes of the values of *keys*, as pending writes; return of how many.

    It is called once, with each key once, in the order in which they first occur, and what
    `get_many` gives for them: an array of values, or a table of ``value`` and ``timestamp``. It
    returns the same for what they are to have, null to delete (KVS-21).

    Raises:
        StoreClosedError: The store is closed.
        InvalidArgumentError: What *function* returned has another length or other columns.
        InvalidTypeError: The store is no key-value store.
        SerializationError: A key or value is not of the serde's type.
    """
    below: object = store_of_bytes(store)
    if not isinstance(below, KeyValueStore | TimestampedKeyValueStore):
        raise _unknown_kind(store)
    distinct = keys.unique()
    present = get_many(store, distinct)
    if not len(distinct):
        return 0
    updated: Any = function(distinct, present)
    columns = {"key": distinct}
    if isinstance(updated, pa.Table | pa.RecordBatch):
        columns.update({name: updated[name] for name in updated.column_names})
    else:
        columns["value"] = updated
    if any(len(column) != len(distinct) for column in columns.values()):
        raise InvalidArgumentError(
            f"the function was given {len(distinct)} keys, and has returned "
            f"{len(updated)} values; return one for each key, in their order, and null to delete"
        )
    return put_many(store, pa.table(columns))


def bulk_load(
    store: StateStore,
    rows: pa.Table | pa.RecordBatch,
    *,
    batch_rows: int = LOAD_ROWS,
    commit: Callable[[], None] | None = None,
    progress: ProgressCallback | None = None,
) -> int:
    """Put *rows* into *store* in the order that is fastest, and commit; return how many it took.

    Rows are sorted first, which for a key-value store costs a third of putting them as they come:
    by key, later rows of a key still winning. Where there is a retention they are sorted by time,
    so that none of them makes another one late. *commit* is called after every *batch_rows* rows;
    by default it commits without offsets, which leaves the rows out of a changelog: pass your own
    if there is one.

    Requires: nothing is pending in the store.

    Raises:
        StoreClosedError: The store is closed.
        InvalidArgumentError: A column is missing, unknown, or of a type that cannot be taken, or
            something is pending.
        SerializationError: A key or value is not of the serde's type.
    """
    if batch_rows < 1:
        raise InvalidArgumentError(f"batch_rows must be from 1, got {batch_rows!r}")
    if commit is None:
        check_owner(store)
    if store.has_pending_writes:
        raise InvalidArgumentError(
            f"{store.name!r} has pending writes, which the load would commit; commit or roll back"
        )
    below = store_of_bytes(store)
    encoded = encode_table(store, rows).combine_chunks()
    order = put_order(store.specification.kind) or "key"
    indices = pc.sort_indices(encoded, sort_keys=[(order, "ascending")])  # stable
    meter = Meter(progress, encoded.num_rows)
    accepted = 0
    for start in range(0, encoded.num_rows, batch_rows):
        batch = encoded.take(indices.slice(start, batch_rows))
        accepted += put_encoded(below, batch)
        if commit is None:
            store.commit({})
        else:
            commit()
        meter.add(batch.num_rows, batch.nbytes)
    return accepted


def encode_table(store: StateStore, rows: pa.Table | pa.RecordBatch) -> pa.Table:
    """Return *rows* as the store of bytes takes them."""
    batches = rows.to_batches() if isinstance(rows, pa.Table) else [rows]
    empty = pa.RecordBatch.from_pylist([], rows.schema)
    return pa.Table.from_batches(
        [encode_rows(batch, store.specification, typed=True) for batch in batches or [empty]]
    )


def put_encoded(store: object, rows: pa.Table) -> int:
    """Put encoded *rows* into a store of bytes; return how many were accepted."""
    if isinstance(store, KeyValueStore):
        store.put_many(rows["key"], rows["value"])
        return int(rows.num_rows)
    if isinstance(store, VersionedStore):
        return store.put_many(rows["key"], rows["value"], rows["valid_from"])
    if isinstance(store, TimestampedKeyValueStore):
        # As a change and not by `put_many`: a value without a timestamp must be possible.
        keys, values, timestamps = (rows[name].to_pylist() for name in TIMESTAMPED_ROWS.names)
        store.replay(Changes(keys, values, timestamps_ms=timestamps))
        return int(rows.num_rows)
    if isinstance(store, WindowStore):
        return store.put_many(rows["key"], rows["value"], rows["window_start"])
    if isinstance(store, SessionStore):
        return store.put_many(
            rows["key"], rows["session_start"], rows["session_end"], rows["value"]
        )
    raise InvalidTypeError(f"expected a store of a known kind, got {store!r}")


def _unknown_kind(store: object) -> InvalidTypeError:
    return InvalidTypeError(f"expected a key-value or a versioned store, got {store!r}")
