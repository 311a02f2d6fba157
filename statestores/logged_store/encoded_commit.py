"""The commit of a store whose changes are encoded before it: for a record of it, and its changelog.

Requires: nothing is written to the store between `encoded_pending` and `commit_encoded`. Whoever
encodes commits next, or throws away what was encoded.
"""

from typing import Any

import pyarrow as pa

from statestores.changelog import FileChangelog, change_schema
from statestores.changelog.encoded_rows import EncodedChanges, encoded_changes, encoded_rows
from statestores.changelog.segments.memory_segment import DEFAULT_COMPRESSION
from statestores.logged_store.store import LoggedStore
from statestores.spi.offsets import Position


def encoded_pending(store: LoggedStore[Any]) -> EncodedChanges:
    """Return the pending changes of *store*, encoded as its changelog does.

    Raises:
        StoreClosedError: The store is closed.
    """
    log = store.changelog
    kind = log.store_kind
    compression = log.options.compression if isinstance(log, FileChangelog) else DEFAULT_COMPRESSION
    columns = store._bytes_store.pending_columns()  # noqa: SLF001  # of this package
    if columns is None:
        changes = store._bytes_store.pending_changes()  # noqa: SLF001  # likewise
        return EncodedChanges.of(encoded_changes(kind, changes, compression))
    batch = pa.RecordBatch.from_arrays(list(columns), schema=change_schema(kind))
    return EncodedChanges.of(encoded_rows(kind, batch, compression))


def commit_encoded(
    store: LoggedStore[Any], position: Position, changes: EncodedChanges
) -> int | None:
    """Commit *store* as `LoggedStore.commit` does, whose pending changes are *changes*.

    Raises:
        StateStoreError: See `LoggedStore.commit`.
    """
    return store._commit(position, None, changes)  # noqa: SLF001  # of this package
