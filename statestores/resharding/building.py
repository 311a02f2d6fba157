"""One new partition, made of what each of the old ones has for it: a snapshot, and an empty log."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa

from statestores.arrow.keys.key_order import key_order
from statestores.arrow.progress import Meter
from statestores.arrow.row_batches import even_parts
from statestores.arrow.rows import tail_of
from statestores.arrow.rows.aligned import aligned
from statestores.arrow.rows.tail import concat
from statestores.arrow.schemas import row_schema
from statestores.arrow.snapshots.object_snapshots import BYTES_PER_OBJECT, ObjectSnapshots
from statestores.arrow.snapshots.snapshot import SnapshotContent, write_content
from statestores.changelog import FileChangelog, changelog_partition
from statestores.object_log import ObjectLog
from statestores.resharding.exchange import Exchange
from statestores.resharding.routing import PART_OF_MEMORY, Routed
from statestores.spi.offsets import Position
from statestores.spi.specification import StoreSpecification
from statestores.state_root import PartitionDirectory

_SMALLEST_OBJECT = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What a new partition has become."""

    path: Path
    """Where it is, of one in a directory: an attempt that is repeated, or overtaken, has a
    directory of its own."""

    rows: int
    """Rows of its snapshot."""

    bytes: int
    """Bytes of its snapshot."""

    expired: int
    """Rows that the old partitions had, and that have expired by the stream time of the new one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """What one task does: makes a new partition."""

    scratch: Path
    """Where one in a directory is made, on the file system on which it will lie."""

    number: int
    """Its number."""

    specification: StoreSpecification[Any, Any]
    """What the store is."""

    sources: tuple[Routed, ...]
    """The old partitions, split."""

    exchange: Exchange
    """Where their rows are."""

    memory_bytes: int
    """How much memory the rows may take, roughly."""

    offset: int
    """The offset at which the snapshot stands; the log begins after it."""

    position: Position
    """The input offsets that the rows reflect."""

    stream_time_ms: int | None
    """The stream time of the new partition."""

    objects: ObjectLog | None = None
    """The log of the new partitions in an object store; ``None`` for directories."""

    log_id: str = ""
    """The id of that log."""

    def __call__(self) -> Built:
        """Make the partition; all of it is on disk, or in the object store, then.

        Raises:
            StateStoreError: What is there for it cannot be read, or the partition not be written.
        """
        directory = PartitionDirectory(self.scratch / f"to-{self.number}-{uuid4().hex}")
        logged = changelog_partition(self.specification.name, self.number)
        tail = tail_of(self.specification, stream_time_ms=self.stream_time_ms)
        content = SnapshotContent(
            specification=self.specification,
            partition=logged,
            offsets={logged: self.offset},
            position=self.position,
            stream_time_ms=self.stream_time_ms,
            # Without changes the tail leaves out what has expired, and nothing else.
            parts=even_parts(tail.merge(self._merged())),
        )
        if self.objects is not None:
            snapshots = ObjectSnapshots(log=self.objects, log_id=self.log_id, partition=self.number)
            size = max(_SMALLEST_OBJECT, self.memory_bytes // PART_OF_MEMORY)
            written = snapshots.write(
                content, meter=Meter(None), bytes_per_file=min(BYTES_PER_OBJECT, size)
            )
        else:
            written = write_content(directory.snapshots, content, meter=Meter(None))
            FileChangelog.create(
                directory.changelog,
                self.specification.kind,
                first_offset=self.offset + 1,
                position=self.position,
                partition=logged,
            ).close()
        return Built(
            path=directory.path,
            rows=written.rows,
            bytes=written.bytes,
            # Not what was read: an attempt that comes again finds the snapshot there.
            expired=max(0, sum(each.rows_for(self.number) for each in self.sources) - written.rows),
        )

    def _merged(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all sources in key order; each key is in one of them."""
        schema = row_schema(self.specification.kind)
        streams = [
            each.batches(self.number, self.exchange)
            for each in self.sources
            if self.number in each.pieces
        ]
        if len(streams) == 1:
            yield from streams[0]
            return
        for step in aligned(streams):
            parts = [part for part in step if part]
            rows = concat([batch for part in parts for batch in part], schema)
            if len(parts) > 1:
                rows = rows.take(pa.array(key_order(rows.column("key")).rows))
            yield rows
