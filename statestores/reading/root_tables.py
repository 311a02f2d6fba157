"""What a state root says of itself, as columns: its stores, partitions, snapshots and commits."""

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa

from statestores.reading.change_details import position_text
from statestores.reading.partition_reader import PartitionReader
from statestores.root_document import StoreEntry

_TIME = pa.timestamp("us", tz="UTC")
_PLACE = [("store", pa.string()), ("partition", pa.int32())]

TABLES: Final = {
    "stores": pa.schema(
        [
            ("store", pa.string()),
            ("kind", pa.string()),
            ("partitions", pa.int32()),
            ("key_serde", pa.string()),
            ("value_serde", pa.string()),
            ("partitioner", pa.string()),
            ("placement", pa.string()),
            ("description", pa.string()),
        ]
    ),
    "partitions": pa.schema(
        [
            *_PLACE,
            ("first_offset", pa.int64()),
            ("complete_from", pa.int64()),
            ("end_offset", pa.int64()),
            ("position", pa.string()),
            ("snapshot_offset", pa.int64()),
            ("snapshot_rows", pa.int64()),
        ]
    ),
    "snapshots": pa.schema(
        [
            *_PLACE,
            ("offset", pa.int64()),
            ("rows", pa.int64()),
            ("bytes", pa.int64()),
            ("created_at", _TIME),
            ("position", pa.string()),
            ("library_version", pa.string()),
        ]
    ),
    "commits": pa.schema(
        [
            *_PLACE,
            ("version", pa.int64()),
            ("first_offset", pa.int64()),
            ("changes", pa.int64()),
            ("operation", pa.string()),
            ("committed_at", _TIME),
            ("position", pa.string()),
        ]
    ),
}
"""The tables and their columns. Positions and descriptions are JSON; a version is an offset."""

_ROWS = 1_000

Row = dict[str, Any]


def store_rows(entry: StoreEntry) -> Iterator[Row]:
    """Yield the row of one store in the table ``stores``."""
    described = entry.specification.describe()
    yield {
        "store": entry.specification.name,
        "kind": described["kind"],
        "partitions": entry.partitions,
        "key_serde": described["key"],
        "value_serde": described["value"],
        "partitioner": described["partitioner"],
        "placement": None if entry.placement is None else entry.placement.value,
        "description": json.dumps(described, sort_keys=True),
    }


def _partition_rows(reader: PartitionReader) -> Iterator[Row]:
    beginning, newest = reader.beginning, reader.newest_snapshot()
    yield {
        "first_offset": beginning.offset,
        "complete_from": beginning.complete_from,
        "end_offset": reader.end_offset,
        "position": position_text(reader.position),
        "snapshot_offset": None if newest is None else newest.offset,
        "snapshot_rows": None if newest is None else newest.rows,
    }


def _snapshot_rows(reader: PartitionReader) -> Iterator[Row]:
    for manifest in reader.snapshots():
        yield {
            "offset": manifest.offset,
            "rows": manifest.rows,
            "bytes": manifest.bytes,
            "created_at": manifest.created_at_ms * 1_000,
            "position": position_text(manifest.position),
            "library_version": manifest.library_version,
        }


def _commit_rows(reader: PartitionReader) -> Iterator[Row]:
    for frame in reader.commits():
        yield {
            "version": frame.last_offset,
            "first_offset": frame.base_offset,
            "changes": frame.batch.num_rows,
            "operation": frame.kind.name.lower(),
            "committed_at": frame.appended_at_ms * 1_000,
            "position": position_text(frame.position),
        }


_OF_PARTITIONS: Final[dict[str, Callable[[PartitionReader], Iterator[Row]]]] = {
    "partitions": _partition_rows,
    "snapshots": _snapshot_rows,
    "commits": _commit_rows,
}


def partition_rows(table: str, reader: PartitionReader, store: str, number: int) -> Iterator[Row]:
    """Yield the rows of *table* that are of partition *number* of *store*.

    Raises:
        ChangelogCorruptedError, StoreCorruptedError, StorageError: It cannot be read.
    """
    for row in _OF_PARTITIONS[table](reader):
        yield {"store": store, "partition": number, **row}


def as_batches(table: str, rows: Iterator[Row]) -> Iterator[pa.RecordBatch]:
    """Yield *rows* as columns of *table*."""
    waiting: list[Row] = []
    for row in rows:
        waiting.append(row)
        if len(waiting) == _ROWS:
            yield pa.RecordBatch.from_pylist(waiting, schema=TABLES[table])
            waiting = []
    if waiting:
        yield pa.RecordBatch.from_pylist(waiting, schema=TABLES[table])
