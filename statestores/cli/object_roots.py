"""State roots in object stores, as the commands see them."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from statestores.arrow.snapshots.object_snapshots import ObjectSnapshots
from statestores.cli.columns import Column
from statestores.cli.facts import Facts, offsets_facts
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
    Column("snapshot", "newest snapshot"),
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
            snapshots = ObjectSnapshots(log=self.log, log_id=reader.log_id, partition=self.number)
            listed = snapshots.listed()
            return {
                "store": self.specification.name,
                "partition": self.number,
                "end_offset": part.end,
                "position": offsets_facts(part.position),
                "owned": part.grant is not None,
                "entries": len(part.entries),
                "segments": len(part.segments),
                "bytes": folded + sum(each.size for each in part.entries),
                "snapshot": listed[-1].offset if listed else None,
                "snapshots": [each.offset for each in listed],
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


def sizes_of_objects(
    url: str, store: str | None
) -> Iterator[tuple[str, int | None, dict[str, int]]]:
    """Yield the bytes of each partition, and of each store besides, by what they are of.

    Of every store in the root at *url*, or of *store*.

    Raises:
        StateStoreError: There is no such root or store, or it cannot be listed.
    """
    root = StateRoot.open(url)
    for name in sorted(root.stores) if store is None else [store]:
        log, entry = root.object_log(name), root.store(name)
        found: dict[int | None, Counter[str]] = {n: Counter() for n in range(entry.partitions)}
        for each in log.storage.list(f"{name}/"):
            own = each.name.removeprefix(f"{log.names.home}/").removeprefix(f"{name}/")
            partition, what = _belongs_to(own.split("/"))
            known = partition if partition in found else None
            found.setdefault(known, Counter())[what] += each.size
        for number, sizes in found.items():
            yield name, number, dict(sizes)


def _belongs_to(parts: list[str]) -> tuple[int | None, str]:
    """Return of which partition the object with these *parts* of a name is, and what it is of."""
    match parts:
        case ["own", number, _, _] | ["segments", _, number] if number.isdecimal():
            return int(number), "changelog"
        case ["snapshots", _, number, *_] if number.isdecimal():
            return int(number), "snapshots"
        case ["data", _, number] if number.isdecimal():
            return int(number), "staged"
    return None, "other"
