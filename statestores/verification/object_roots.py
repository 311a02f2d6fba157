"""Checks of a state root in an object store: its documents, every frame that counts, and the rows.

An owner may go on meanwhile: each partition is checked up to where it ended when its turn came.
"""

from collections.abc import Iterable, Iterator

from statestores.arrow.progress import Meter
from statestores.errors import StateStoreError
from statestores.partitioning import partitioner_by_name
from statestores.reading.partition_places import place_of, shown_place
from statestores.reading.partition_reader import PartitionReader
from statestores.state_root import StateRoot
from statestores.verification.findings import Finding, Status
from statestores.verification.placement import check_placement


def check_object_root(
    root: StateRoot, stores: Iterable[str] | None = None, *, meter: Meter
) -> Iterator[Finding]:
    """Check *stores* of *root*, by default all; yield a finding for each thing."""
    for name in sorted(root.stores) if stores is None else stores:
        store = _check_store(root, name)
        yield store
        if store.status is Status.OK:
            for number in range(root.store(name).partitions):
                yield from _check_partition(root, name, number, meter)


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
    place = place_of(root, name, number)
    path, reader = shown_place(place), PartitionReader(place, entry.specification)
    changes = 0
    try:
        end = reader.end_offset
        for batch in reader.changes(0, end, typed=False):
            changes += batch.num_rows
            meter.add(batch.num_rows, batch.nbytes)
    except StateStoreError as error:
        yield Finding("changelog", path, Status.DAMAGED, str(error))
        return
    words = f"{changes:,} changes before offset {end:,}"
    yield Finding("changelog", path, Status.OK, words)
    rows = reader.rows(columns=["key"], typed=False)
    try:
        yield from check_placement(rows, path, root, name, number)
    except StateStoreError as error:
        yield Finding("partition", path, Status.SKIPPED, f"the rows cannot be read: {error}")
