"""Opening a partition whose changelog is in an object store, and its engine on a local disk."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from os import PathLike
from typing import Any, NamedTuple

from statestores.arrow.progress import ProgressCallback
from statestores.arrow.restoring.restore import RestoreReport, restore
from statestores.changelog import ChangelogOptions, changelog_partition
from statestores.files.local_path import local_path
from statestores.files.log_origin import LogOrigin, note_origin, read_origin
from statestores.object_log import ObjectChangelog, ObjectChangelogReader
from statestores.object_log.changelog import check_committed
from statestores.opening import BytesStore, open_bytes_store
from statestores.spi.durability import Durability
from statestores.spi.offsets import TopicPartition
from statestores.spi.specification import StoreSpecification
from statestores.state_root import StateRoot


class OpenedInObjects(NamedTuple):
    """A store that has everything its changelog holds."""

    store: BytesStore
    """The store."""

    changelog: ObjectChangelog
    """The changelog, taken over."""

    restored: RestoreReport
    """What had to be done."""


def open_in_objects(
    root: StateRoot,
    specification: StoreSpecification[Any, Any],
    partition: int,
    *,
    directory: str | PathLike[str],
    backend: str | None,
    options: Mapping[str, object] | None,
    durability: Durability,
    changelog_options: ChangelogOptions,
    progress: ProgressCallback | None,
) -> OpenedInObjects:
    """Open *partition* of *root* with the engine in the local *directory*.

    What can go wrong on this machine goes wrong before anybody is fenced (OBJ-10).

    Raises:
        StateStoreError: As `statestores.logged_store.open_logged_store`.
    """
    with _ready(root, specification, partition, directory, backend, options, durability) as ready:
        changelog = ready.on_failure.enter_context(
            ObjectChangelog.take_over(
                ready.reader, changelog_options, committed_offset=ready.committed
            )
        )
        store, logged = ready.store, ready.logged
        restored = restore(store, changelog=changelog, partition=logged, progress=progress)
        changelog.forget_read()
        ready.on_failure.pop_all()
    return OpenedInObjects(store, changelog, restored)


def restore_from_objects(
    root: StateRoot,
    specification: StoreSpecification[Any, Any],
    partition: int,
    *,
    directory: str | PathLike[str],
    backend: str | None,
    options: Mapping[str, object] | None,
    progress: ProgressCallback | None,
) -> RestoreReport:
    """Bring the engine in the local *directory* up to what *partition* of *root* has by now.

    Nobody is fenced: whoever has the partition goes on, and this engine is a copy to begin with.

    Raises:
        StateStoreError: As `statestores.logged_store.open_logged_store`.
    """
    durability = Durability.POWER_LOSS
    with _ready(root, specification, partition, directory, backend, options, durability) as ready:
        check_committed(ready.reader, ready.committed)
        return restore(
            ready.store, changelog=ready.reader, partition=ready.logged, progress=progress
        )


class _Ready(NamedTuple):
    """An engine on this machine that may take what the log of its partition has."""

    store: BytesStore
    reader: ObjectChangelogReader
    logged: TopicPartition
    committed: int | None
    on_failure: ExitStack


@contextmanager
def _ready(
    root: StateRoot,
    specification: StoreSpecification[Any, Any],
    partition: int,
    directory: str | PathLike[str],
    backend: str | None,
    options: Mapping[str, object] | None,
    durability: Durability,
) -> Iterator[_Ready]:
    """Open the engine in *directory*, and the log for reading; close both, unless they are kept."""
    name = specification.name
    root.check_partition(name, partition)
    logged = changelog_partition(name, partition)
    with ExitStack() as on_failure:
        reader = on_failure.enter_context(root.object_log(name).reader(partition))
        origin = LogOrigin(log=reader.log_id, partition=partition)
        local = local_path(directory, "directory")
        known = read_origin(local, origin)
        store = open_bytes_store(
            directory,
            specification,
            backend=backend,
            options=options,
            durability=durability,
            restorable=True,
        )
        on_failure.enter_context(store)
        committed = store.committed_offset(logged)
        if not known:
            note_origin(local, origin, committed)
        yield _Ready(store, reader, logged, committed, on_failure)
