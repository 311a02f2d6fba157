"""The partitions of a state root that upkeep is for."""

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
