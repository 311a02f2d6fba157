"""The whole content of a partition from its files: a snapshot and the changes after it."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from statestores.arrow.rows import tail_of
from statestores.arrow.rows.tail import Tail
from statestores.arrow.snapshot_reader import Snapshot
from statestores.partition_reader import PartitionReader
from statestores.spi.specification import StoreSpecification

_CLEAR = "clear"


def read_tail(
    reader: PartitionReader,
    specification: StoreSpecification[Any, Any],
    snapshot: Snapshot | None,
    *,
    to_offset: int | None = None,
) -> Tail:
    """Return the changes after *snapshot* and before *to_offset*, to be merged with its rows.

    Raises:
        OffsetOutOfRangeError: The changelog does not begin where the snapshot ends, or before.
        ChangelogCorruptedError, StoreCorruptedError, StorageError: It cannot be read.
    """
    stream_time_ms = None if snapshot is None else snapshot.manifest.stream_time_ms
    tail = tail_of(specification, stream_time_ms=stream_time_ms)
    start = 0 if snapshot is None else snapshot.offset + 1
    end = reader.end_offset if to_offset is None else to_offset
    if end <= start:
        return tail  # the snapshot is all there is
    for changes in reader.changes(start, end, typed=False):
        if _is_clear(changes):
            tail.clear()
        else:
            tail.add(changes)
    return tail


def _is_clear(changes: pa.RecordBatch) -> bool:
    """Return whether *changes* say that everything before them is dropped; such come alone."""
    operations = changes.column("operation")
    return bool(pc.any(pc.equal(operations, _CLEAR)).as_py())
