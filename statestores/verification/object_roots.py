"""Checks of a state root in an object store: documents, frames that count, snapshots, and rows.

An owner may go on meanwhile: each partition is checked up to where it ended when its turn came.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from statestores.arrow.progress import Meter
from statestores.arrow.snapshots.choice import read_listed
from statestores.arrow.snapshots.reader import Snapshot
from statestores.errors import OffsetOutOfRangeError, StateStoreError
from statestores.partitioning import partitioner_by_name
from statestores.reading.partition_places import ObjectPartition, shown_place, snapshots_of
from statestores.reading.partition_reader import PartitionReader
from statestores.spi.specification import StoreSpecification
from statestores.state_root import StateRoot
from statestores.verification.beside_stores import check_beside_stores
from statestores.verification.files import unless_removed
from statestores.verification.findings import Finding, Status
from statestores.verification.placement import check_placement
from statestores.verification.replayed_content import difference_from_log, judged_for


def check_object_root(
    root: StateRoot, stores: Iterable[str] | None = None, *, meter: Meter
) -> Iterator[Finding]:
    """Check *stores* of *root*, by default all; yield a finding for each thing.

    What tasks, topologies and operators keep beside stores is looked at with all stores, not with
    some.
    """
    for name in sorted(root.stores) if stores is None else stores:
        store = _check_store(root, name)
        yield store
        if store.status is Status.OK:
            for number in range(root.store(name).partitions):
                yield from _check_partition(root, name, number, meter)
    if stores is None:
        yield from check_beside_stores(root)


def _check_store(root: StateRoot, name: str) -> Finding:
    """Check what the root says about a store, and the documents of its log."""
    log, entry = root.object_log(name), root.store(name)
    path = f"{log.storage.url}/{name}"
    try:
        partitioner_by_name(entry.specification.partitioner)
        view = log.view(range(entry.partitions))
    except StateStoreError as error:
        return Finding("store", path, Status.DAMAGED, str(error))
    owned = sum(part.grant is not None for part in view.parts.values())
    words = f"{entry.specification.kind}, partitions: {entry.partitions}, with an owner: {owned}"
    return Finding("store", path, Status.OK, words)


def _check_partition(root: StateRoot, name: str, number: int, meter: Meter) -> Iterator[Finding]:
    """Check every frame of a partition, and where the keys of its rows belong."""
    entry = root.store(name)
    place = ObjectPartition(root.object_log(name), number)
    path, reader = shown_place(place), PartitionReader(place, entry.specification)
    changes = 0
    try:
        end = reader.end_offset
        for batch in reader.changes(None, end, typed=False):
            changes += batch.num_rows
            meter.add(batch.num_rows, batch.nbytes)
    except StateStoreError as error:
        yield Finding("changelog", path, Status.DAMAGED, str(error))
        return
    words = f"{changes:,} changes before offset {end:,}"
    yield Finding("changelog", path, Status.OK, words)
    yield from _check_snapshots(place, entry.specification, meter)
    rows = reader.rows(columns=["key"], typed=False)
    try:
        yield from check_placement(rows, path, root, name, number)
    except StateStoreError as error:
        yield Finding("partition", path, Status.SKIPPED, f"the rows cannot be read: {error}")


def _check_snapshots(
    place: ObjectPartition, specification: StoreSpecification[Any, Any], meter: Meter
) -> Iterator[Finding]:
    """Check the snapshots at *place*, and compare them with the changelog there."""
    for listed in snapshots_of(place).listed():
        shown = str(listed.place)
        try:
            snapshot = read_listed(listed, lambda each: each.verify())
        except StateStoreError as error:
            yield Finding("snapshot", shown, Status.DAMAGED, str(error), error)
            continue
        if snapshot is None:
            continue  # removed since it was listed
        meter.add(snapshot.rows, snapshot.manifest.bytes)
        words = f"{snapshot.rows:,} rows at offset {snapshot.offset:,}"
        yield Finding("snapshot", shown, Status.OK, words)
        yield unless_removed(_compared(place, specification, snapshot), snapshot)


def _compared(
    place: ObjectPartition, specification: StoreSpecification[Any, Any], snapshot: Snapshot
) -> Finding:
    """Compare *snapshot* with the changes up to its offset, if all of them are there."""
    shown, offset = str(snapshot.place), snapshot.offset
    try:
        difference = difference_from_log(
            place,
            specification,
            snapshot.batches(),
            None,
            offset,
            "the snapshot",
            "the changelog",
            judged=judged_for(snapshot),
        )
    except OffsetOutOfRangeError as error:
        return Finding("content", shown, Status.SKIPPED, f"not compared: {error}")
    except StateStoreError as error:
        return Finding("content", shown, Status.DAMAGED, str(error), error)
    if difference is not None:
        return Finding("content", shown, Status.DAMAGED, difference)
    words = f"equals its changelog up to offset {offset:,}"
    return Finding("content", shown, Status.OK, words)
