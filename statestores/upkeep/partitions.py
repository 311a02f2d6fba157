"""The partitions of a state root that upkeep is for, and the changelog of one to work on."""

from collections.abc import Iterator
from contextlib import contextmanager

from statestores.changelog import FileChangelog, changelog_partition
from statestores.staging.unfinished_write import finish_staged_writes, refuse_unfinished_write
from statestores.state_root import PartitionDirectory, StateRoot


def stores_and_partitions(
    root: StateRoot, store: str | None = None
) -> list[tuple[str, int, PartitionDirectory]]:
    """Return name, number and place of each partition of *store*, or of every store of *root*.

    Raises:
        StoreNotFoundError: There is no such store.
        CapabilityNotSupportedError: The root is in an object store.
    """
    names = sorted(root.stores) if store is None else [store]
    return [
        (name, number, root.partition(name, number))
        for name in names
        for number in range(root.store(name).partitions)
    ]


@contextmanager
def opened_changelog(root: StateRoot, store: str, partition: int) -> Iterator[FileChangelog]:
    """Open the changelog of one partition under its lock, with what staged writes have committed.

    Raises:
        StoreNotFoundError: There is none.
        StoreLockedError: Somebody has it open, or a write is being published.
        StoreReshardedError: The store has other partitions since *root* was opened.
        StateStoreError: It cannot be read or written.
    """
    specification = root.store(store).specification
    directory = root.partition(store, partition)
    finish_staged_writes(root, store)
    logged = changelog_partition(store, partition)
    with FileChangelog.open(directory.changelog, specification.kind, partition=logged) as log:
        root.check_current(store)
        refuse_unfinished_write(root.home(store), {partition: log.end_offset})
        yield log
