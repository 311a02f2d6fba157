"""Whether each key lies in the partition to which the store's partitioner sends its reads (PAR-1).

A key elsewhere is no damage, and scans show it. But a read of that key through the state root, or
through a facade over partitions, looks in another one: where all the partitions are there it raises
an error, and in a process that does not have them all it finds nothing. So it is a failure; but not
in a store that nobody partitions (LAY-11).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from statestores.errors import InvalidArgumentError
from statestores.partitioning import Partitioner, partitioner_by_name, partitioner_names
from statestores.root_document import TOPOLOGY_NOTE, Placement, StoreEntry
from statestores.spi.specification import StoreSpecification
from statestores.state_root import StateRoot
from statestores.text.values import as_text
from statestores.verification.findings import Finding, Status


def check_placement(
    batches: Iterable[pa.RecordBatch],
    path: Path | str,
    root: StateRoot,
    store: str,
    number: int,
) -> Iterator[Finding]:
    """Check the column ``key`` of *batches*, the content of partition *number* of *store*.

    Yields nothing where there is one partition only, or the partitioner is not known here. A
    topology that an earlier release has run has not noted who places the keys of its stores: keys
    elsewhere are no failure there.
    """
    entry = root.store(store)
    specification, partitions = entry.specification, entry.partitions
    if partitions == 1:
        return
    if entry.placement is Placement.TASK:
        yield Finding("partition", path, Status.SKIPPED, "the task that writes a key places it")
        return
    for finding in _check(batches, path, specification, number, partitions):
        if finding.status is Status.MISPLACED and _is_unnoted(root, entry):
            words = (
                "an earlier release ran the topology, and did not note which stores it has that "
                "nobody partitions; run it once, which notes it, and verify again. This may be "
                f"one: {finding.detail}"
            )
            yield Finding("partition", path, Status.SKIPPED, words)
        else:
            yield finding


def _is_unnoted(root: StateRoot, entry: StoreEntry) -> bool:
    """Whether a topology owns the store, and has not noted who places its keys.

    In an object store every topology has noted it: no earlier release ran one there.
    """
    if entry.placement is not None or root.storage is not None:
        return False
    return (root.path / TOPOLOGY_NOTE).is_file()


def _check(
    batches: Iterable[pa.RecordBatch],
    path: Path | str,
    specification: StoreSpecification[Any, Any],
    number: int,
    partitions: int,
) -> Iterator[Finding]:
    try:
        partitioner = partitioner_by_name(specification.partitioner)
    except InvalidArgumentError:
        return  # the check of the store says so
    try:
        misplaced, rows = _misplaced(batches, partitioner, number, partitions)
    except InvalidArgumentError as error:  # of a key that the partitioner refuses
        words = f"{partitioner.name!r} knows no partition for a key here: {error}"
        yield Finding("partition", path, Status.MISPLACED, words)
        return
    if not misplaced.keys:
        words = f"{rows:,} rows, where {partitioner.name!r} looks for their keys"
        yield Finding("partition", path, Status.OK, words)
        return
    agreeing = " and ".join(map(repr, misplaced.partitioners))
    writer = f", where {agreeing} would put all of them" if agreeing else ""
    words = (
        f"{misplaced.keys:,} keys are here{writer}, and {partitioner.name!r}, the store's "
        f"partitioner, looks for them elsewhere, for {as_text(misplaced.first)!r} in "
        f"{misplaced.home}: a read of one key is an error or misses them, and scans do not; export "
        "the store, and import it into one whose specification names the partitioner that its "
        f"writers use, or read such a key with --partition {number}"
    )
    yield Finding("partition", path, Status.MISPLACED, words)


@dataclass(slots=True)
class _Misplaced:
    """The keys of a partition that belong in others."""

    partitioners: list[str]
    """The registered ones that put all of them here."""

    keys: int = 0
    """How many there are."""

    first: bytes = b""
    """The first of them."""

    home: int = 0
    """Where reads look for it."""

    last: bytes | None = None
    """The last one so far: further rows of it are not another key."""

    def add(self, keys: Any, homes: Any, number: int, partitions: int) -> None:
        """Count *keys*, rows in the order of their keys, which belong in *homes*."""
        if not self.keys:
            self.first, self.home = keys[0].as_py(), homes[0].as_py()
        self.keys += pc.count_distinct(keys).as_py() - (keys[0].as_py() == self.last)
        self.last = keys[-1].as_py()
        self.partitioners = [
            name for name in self.partitioners if _puts_all(name, keys, number, partitions)
        ]


def _misplaced(
    batches: Iterable[pa.RecordBatch], partitioner: Partitioner, number: int, partitions: int
) -> tuple[_Misplaced, int]:
    """Return the keys of *batches* that *partitioner* puts elsewhere, and how many rows there are.

    Raises:
        InvalidArgumentError: A key has no partition.
    """
    misplaced, rows = _Misplaced(partitioner_names()), 0
    for batch in batches:
        keys = batch.column("key")
        homes = partitioner.partition_array(keys, partitions)
        elsewhere = pc.not_equal(homes, number)
        rows += batch.num_rows
        if pc.any(elsewhere).as_py():
            misplaced.add(keys.filter(elsewhere), homes.filter(elsewhere), number, partitions)
    return misplaced, rows


def _puts_all(name: str, keys: Any, number: int, partitions: int) -> bool:
    try:
        places = partitioner_by_name(name).partition_array(keys, partitions)
    except InvalidArgumentError:
        return False  # one of them has no partition
    return bool(pc.all(pc.equal(places, number)).as_py())
