"""Opening a standby: the engine of a copy, in a directory of its own."""

from collections.abc import Mapping
from os import PathLike

from statestores.errors import InvalidArgumentError
from statestores.files.local_path import local_path
from statestores.logged_store.native_start import begin_from_native
from statestores.opening import BytesStore, open_bytes_store
from statestores.spi.durability import Durability
from statestores.state_root import StateRoot
from statestores.tasks.copying.copy_source import copy_source
from statestores.tasks.copying.object_source import ObjectSource
from statestores.tasks.standby import Standby, closed_on_failure


def open_standby(
    root: StateRoot | str | PathLike[str],
    name: str,
    partition: int,
    directory: str | PathLike[str],
    *,
    backend: str | None = None,
    options: Mapping[str, object] | None = None,
    durability: Durability = Durability.POWER_LOSS,
) -> Standby:
    """Open a copy of *partition* of the store *name*, whose engine lies in *directory*.

    Nothing is read yet: call `Standby.poll`, or `Standby.follow`. *durability* is that of the
    store's commits once it is promoted.

    Raises:
        StoreNotFoundError: There is no such state root or store.
        InvalidArgumentError: The store has no such partition, or *directory* is the active one's.
        StateStoreError: As `statestores.open_store`.
    """
    state = root if isinstance(root, StateRoot) else StateRoot.open(root)
    own = local_path(directory, "directory")
    if state.storage is None and own.resolve() == state.partition(name, partition).path.resolve():
        raise InvalidArgumentError(
            f"{str(own)!r} is where the active store of partition {partition} of {name!r} lies; "
            "give the standby a directory of its own"
        )
    source = copy_source(state, name, partition)
    specification = state.store(name).specification

    def open_copy() -> BytesStore:
        is_new_here = isinstance(source, ObjectSource) and not source.knows(own)
        if state.storage is None:
            begin_from_native(own, specification, state.partition(name, partition), backend)
        store = open_bytes_store(
            own,
            specification,
            backend=backend,
            options=options,
            durability=durability,
            restorable=True,
            deferring=isinstance(source, ObjectSource),
        )
        if isinstance(source, ObjectSource) and is_new_here:
            with closed_on_failure(store):
                source.note_in(own, store)
        return store

    return Standby(state, source, partition, own, open_copy)
