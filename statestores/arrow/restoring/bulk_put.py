"""A whole table as one commit, past the write buffer where the store's kind allows it."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from statestores.arrow.columns import encode_table, put_encoded
from statestores.arrow.encoded_changes import changes_from_encoded
from statestores.arrow.restoring.row_sink import LEAST_ROWS
from statestores.arrow.restoring.taking_back import take_back
from statestores.arrow.rows import encoder_of
from statestores.arrow.rows.encoder import LARGE
from statestores.arrow.rows.key_value import KeyValueEncoder
from statestores.arrow.store_of_bytes import check_owner, store_of_bytes
from statestores.errors import InvalidArgumentError
from statestores.semantics.every_kind.engine_store import EngineStore
from statestores.spi.durability import Durability
from statestores.spi.offsets import TopicPartition
from statestores.spi.stores.store import StateStore


def commit_many(
    store: StateStore,
    rows: pa.Table | pa.RecordBatch,
    offsets: Mapping[TopicPartition, int | None] | None = None,
    *,
    durability: Durability | None = None,
) -> int:
    """Commit *rows* and *offsets* together; return how many rows the store has accepted.

    The same as `put_many` and ``store.commit(offsets)``, all or nothing whatever dies in between
    (COM-1). From 65,536 rows on, key-value stores get them sorted and past the write buffer, with
    the offsets in the same batch or sorted file. Other kinds, whose rows depend on what is stored,
    and stores with a changelog, which must have the rows first, are put into and committed.

    Requires: nothing is pending in the store.

    Args:
        store: The store, typed or of bytes.
        rows: Columns as for `put_many`; later rows of a key win.
        offsets: As for ``commit``.
        durability: As for ``commit``. Sorted files are always durable as
            `Durability.POWER_LOSS`.

    Raises:
        StoreClosedError: The store is closed.
        InvalidArgumentError: A column is missing, unknown, or of a type that cannot be taken, or
            something is pending.
        SerializationError: A key or value is not of the serde's type.
        OffsetRegressionError: An offset is lower than the committed one.
        StorageError: The engine could not write; nothing is committed, unless it had taken the rows
            before it failed (COM-43).
    """
    check_owner(store)
    if store.has_pending_writes:
        raise InvalidArgumentError(
            f"{store.name!r} has pending writes, which would be committed; commit or roll back"
        )
    below: Any = store_of_bytes(store)
    encoded = encode_table(store, rows)
    encoder = encoder_of(below)
    if (
        not isinstance(encoder, KeyValueEncoder)
        or encoded.num_rows < LEAST_ROWS
        or not isinstance(below, EngineStore)
        or below.has_journal
    ):
        try:
            accepted = put_encoded(below, encoded)
            store.commit(offsets or {}, durability=durability)
        except BaseException as error:
            take_back(store, error)
            raise
        return accepted
    changes = pa.Table.from_batches(
        [changes_from_encoded(batch, store.specification) for batch in encoded.to_batches()]
    )
    wide = pa.schema(
        [
            field.with_type(LARGE) if pa.types.is_binary(field.type) else field
            for field in changes.schema
        ]
    )
    (batch,) = changes.cast(wide).combine_chunks().to_batches()
    below.commit_rows(encoder.changes(batch, is_empty=False), offsets or {}, durability=durability)
    return int(encoded.num_rows)
