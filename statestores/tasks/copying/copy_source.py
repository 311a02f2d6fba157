"""What a copy of a partition has its rows from: a directory, or an object store."""

from statestores.state_root import StateRoot
from statestores.tasks.copying.directory_source import DirectorySource
from statestores.tasks.copying.object_source import ObjectSource
from statestores.tasks.copying.source import CopySource


def copy_source(root: StateRoot, name: str, partition: int) -> CopySource:
    """Return what a copy of *partition* of the store *name* has its rows from.

    Raises:
        StoreNotFoundError: There is no such store.
        InvalidArgumentError: It has no such partition.
    """
    root.check_partition(name, partition)
    if root.storage is not None:
        return ObjectSource(root.object_log(name), partition)
    specification = root.store(name).specification
    return DirectorySource(root.partition(name, partition), specification, partition)
