"""State roots in object stores, as the commands see them."""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from statestores.cli.facts import Facts, offsets_facts
from statestores.cli.output import Column
from statestores.object_log import ObjectLog
from statestores.reading.change_feed import described
from statestores.spi.specification import StoreSpecification
from statestores.state_root import StateRoot

PARTITION_COLUMNS = (
    Column("store", "store"),
    Column("partition", "partition"),
    Column("end_offset", "end offset"),
    Column("owned", "owned"),
    Column("entries", "not folded"),
    Column("segments", "segments"),
    Column("bytes", "bytes"),
)
"""What `info` shows of each partition."""


class ObjectPartition(NamedTuple):
    """A partition of a store in an object store."""

    specification: StoreSpecification[Any, Any]
    """What the store is."""

    log: ObjectLog
    """The log of the store."""

    number: int
    """The partition's number."""

    def changes(self, from_offset: int | None, to_offset: int | None) -> Iterator[pa.RecordBatch]:
        """Yield the changes of the partition, as bytes."""
        with self.log.reader(self.number) as reader:
            for frame in reader.read(from_offset, to_offset):
                yield described(frame, reader.store_kind, self.number)

    def facts(self) -> Facts:
        """Return what `info` says."""
        with self.log.reader(self.number) as reader:
            part = reader.view.parts[self.number]
            folded = sum(each.size for each in part.segments)
            return {
                "store": self.specification.name,
                "partition": self.number,
                "end_offset": part.end,
                "position": offsets_facts(part.position),
                "owned": part.grant is not None,
                "entries": len(part.entries),
                "segments": len(part.segments),
                "bytes": folded + sum(each.size for each in part.entries),
            }


def object_partitions(
    url: str, store: str | None, partition: int | None = None, *, every_store: bool = False
) -> list[ObjectPartition]:
    """Return the partitions of *store*, or the only store, in the root at *url*.

    Without *store*, *every_store* takes all of them.

    Raises:
        StateStoreError: There is no such root, store or partition.
    """
    root = StateRoot.open(url)
    if every_store and store is None:
        names = sorted(root.stores)
    else:
        names = [root.store(store).specification.name]
    found: list[ObjectPartition] = []
    for name in names:
        entry, log = root.store(name), root.object_log(name)
        if partition is not None:
            root.check_partition(name, partition)
        numbers = range(entry.partitions) if partition is None else (partition,)
        found += map(partial(ObjectPartition, entry.specification, log), numbers)
    return found
