"""Of which backend an engine is made anew: that of what is left of it, or of its neighbours.

An application that names its backend refuses an engine of another one. So what is made for it while
it is stopped is of the backend that it had, as far as anything here says which that was.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from statestores.arrow.snapshots.directory import list_snapshots
from statestores.arrow.snapshots.native_part import read_native
from statestores.errors import StateStoreError
from statestores.files.durable_json import ENGINE_FILE
from statestores.opening import backend_of
from statestores.registry import load_recorded_backend
from statestores.state_root import StateRoot
from statestores.tasks.local_directory import LocalDirectory


def backends_of_new_engines(
    root: StateRoot, local: LocalDirectory, wanted: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], str | None]:
    """Return the backend of each engine of *wanted*, by store and partition, that is not there.

    It is that of the store's other engines in *local* or in *root*, or of the native part of its
    newest snapshot, or else that of the engines of other stores; ``None`` if nothing says so.

    Raises:
        UnknownBackendError, MissingDriverError: That backend cannot be used here.
    """
    return {
        (store, number): next(_of_neighbours(root, local, store, number), None)
        for store, number in wanted
        if _named(local.partition(store, number)) is None
    }


def _of_neighbours(
    root: StateRoot, local: LocalDirectory, store: str, number: int
) -> Iterator[str]:
    """Yield backends of engines that are near to that of partition *number*, the nearest first."""
    places = [local] if root.storage is not None else [local, LocalDirectory(root.path)]
    others = [name for name in sorted(root.stores) if name != store]
    for near in ([store], others):
        for name in near:
            for place in places:
                for other in range(root.store(name).partitions):
                    directory = place.partition(name, other)
                    backend = _named(directory)
                    if backend is not None:
                        load_recorded_backend(backend, directory / ENGINE_FILE)
                        yield backend
        if near == [store] and root.storage is None:
            yield from _of_native_part(root.partition(store, number).snapshots)


def _named(directory: Path) -> str | None:
    """Return the backend that the engine in *directory* names, if it says one."""
    try:
        return backend_of(directory)
    except StateStoreError:
        return None  # whoever opens that engine is told


def _of_native_part(snapshots: Path) -> Iterator[str]:
    """Yield the backend of the native part of the newest of *snapshots*, if it has one."""
    path = max(list_snapshots(snapshots).items(), default=(0, None))[1]
    if path is None:
        return
    try:
        part = read_native(path)
    except StateStoreError:
        return  # the restore tells of it, and reads the snapshot's columns
    if part is not None:
        load_recorded_backend(part.manifest.backend, path)
        yield part.manifest.backend
