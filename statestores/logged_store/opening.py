"""Opening one partition of a logged store, whatever its root lies in, and however it died."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, TypeAlias, TypedDict, TypeVar, Unpack, overload

from statestores.arrow.progress import ProgressCallback
from statestores.changelog import ChangelogOptions
from statestores.errors import (
    InvalidArgumentError,
)
from statestores.logged_store.catching_up import join_changelog
from statestores.logged_store.native_start import open_restorable
from statestores.logged_store.object_opening import open_in_objects
from statestores.logged_store.store import LoggedStore
from statestores.reading.unfinished_imports import refuse_unimported
from statestores.semantics.every_kind.arguments import check_store_name
from statestores.semantics.every_kind.self_description import check_description
from statestores.spi.durability import Durability
from statestores.spi.session_specification import Session
from statestores.spi.specification import (
    KeyValue,
    StoreSpecification,
    TimestampedKeyValue,
    Versioned,
)
from statestores.spi.stores.key_value import KeyValueStore
from statestores.spi.stores.session import SessionStore
from statestores.spi.stores.timestamped_key_value import TimestampedKeyValueStore
from statestores.spi.stores.versioned import VersionedStore
from statestores.spi.stores.window import WindowStore
from statestores.spi.window_specification import Window
from statestores.staging.recorded_commits import has_recorded_commit, refuse_recorded_commits
from statestores.staging.unfinished_write import finish_staged_writes
from statestores.state_root import StateRoot
from statestores.storage import is_storage_url

K = TypeVar("K")
V = TypeVar("V")

AnyRoot: TypeAlias = StateRoot | str | PathLike[str]
"""A state root, its path, or its URL."""


class LoggedStoreOptions(TypedDict, total=False):
    """How a store is opened; see `open_logged_store`."""

    backend: str | None
    options: Mapping[str, object] | None
    durability: Durability
    changelog_options: ChangelogOptions | None
    directory: str | PathLike[str] | None
    storage_options: Mapping[str, object] | None
    progress: ProgressCallback | None


@overload
def open_logged_store(
    root: AnyRoot,
    name: TimestampedKeyValue[K, V],
    partition: int = ...,
    **how: Unpack[LoggedStoreOptions],
) -> LoggedStore[TimestampedKeyValueStore[K, V]]: ...
@overload
def open_logged_store(
    root: AnyRoot, name: KeyValue[K, V], partition: int = ..., **how: Unpack[LoggedStoreOptions]
) -> LoggedStore[KeyValueStore[K, V]]: ...
@overload
def open_logged_store(
    root: AnyRoot, name: Versioned[K, V], partition: int = ..., **how: Unpack[LoggedStoreOptions]
) -> LoggedStore[VersionedStore[K, V]]: ...
@overload
def open_logged_store(
    root: AnyRoot, name: Window[K, V], partition: int = ..., **how: Unpack[LoggedStoreOptions]
) -> LoggedStore[WindowStore[K, V]]: ...
@overload
def open_logged_store(
    root: AnyRoot, name: Session[K, V], partition: int = ..., **how: Unpack[LoggedStoreOptions]
) -> LoggedStore[SessionStore[K, V]]: ...
@overload
def open_logged_store(
    root: AnyRoot, name: str, partition: int = ..., **how: Unpack[LoggedStoreOptions]
) -> LoggedStore[Any]: ...
def open_logged_store(
    root: AnyRoot,
    name: str | StoreSpecification[Any, Any],
    partition: int | None = None,
    *,
    backend: str | None = None,
    options: Mapping[str, object] | None = None,
    durability: Durability = Durability.POWER_LOSS,
    changelog_options: ChangelogOptions | None = None,
    directory: str | PathLike[str] | None = None,
    storage_options: Mapping[str, object] | None = None,
    progress: ProgressCallback | None = None,
) -> LoggedStore[Any]:
    """Open *partition* of the store *name* of a state root, and bring it up to its changelog.

    What the changelog has beyond the store's committed offset is replayed; a store that is new,
    or older than the changelog's beginning, is loaded from the newest valid snapshot first. A write
    by Spark that was committed but not finished is now finished. While a task that has died has
    recorded a commit of the store, it can be read and snapshots of it be written, and no commit is
    made (TSK-24).

    In a root that is the URL of an object store (docs/object-stores.md), opening takes the
    partition over: whoever has it open is fenced, and its next commit raises `FencedError`.

    Args:
        root: The state root, its path, or its URL. The store has been added to it before.
        name: The store's name; or its specification, by which a type checker knows the store.
        partition: The partition's number, from 0; a store of one partition needs none.
        backend: The backend; by default the one that the partition has.
        options: The backend's own options.
        durability: What each commit's append survives, and so the commit.
        changelog_options: How the changelog is written.
        directory: Where the engine lies, when it is not beside its changelog: a local disk. With
            an object store it must be given.
        storage_options: How the object store of a URL is reached (`StateRoot.open`).
        progress: Told how far replaying has come.

    Raises:
        StoreNotFoundError: There is no such state root or store.
        StoreLockedError: Another process has the partition open, or writes the store.
        CommitConflictError: Another writer has meanwhile died in the middle; open again.
        FencedError: Another process has taken the partition over at the same time.
        InvalidArgumentError: There is no directory for the engine of a root in an object store. The
            store has several partitions and none is named, or not the one that is.
        StoreMismatchError: The store's changelog is gone, or the store is another one, or other
            than the specification says; or an import has begun to bring it, and has not (MIG-21).
        ChangelogCorruptedError: The changelog is damaged, or ends before the store.
        OffsetOutOfRangeError: The changelog begins after what the store and the snapshots have.
        SnapshotCorruptedError: It begins after what the usable snapshots have.
        StoreCorruptedError, UnsupportedFormatError, StorageError: A file cannot be read.
    """
    wanted = name if isinstance(name, StoreSpecification) else None
    name = name.name if isinstance(name, StoreSpecification) else name
    check_store_name(name)
    if directory is None and (
        is_storage_url(root) or (isinstance(root, StateRoot) and root.storage is not None)
    ):
        raise InvalidArgumentError(
            f"the engine of {name!r} lies on a local disk, and its changelog in an object store; "
            "give open_logged_store() a directory of this machine for it, one for each partition"
        )
    if not isinstance(root, StateRoot):
        state = StateRoot.open(root, storage_options=storage_options)
    elif storage_options is None:
        state = root
    else:
        raise InvalidArgumentError(
            "storage_options are for the URL of a state root, and this one is open already"
        )
    entry = state.store(name)
    specification = entry.specification
    if wanted is not None:
        check_description(specification.describe(), wanted, wanted.changeable)
        if wanted.value is not None and wanted.value.name != specification.describe()["value"]:
            # A later schema of the values: the root has it before any partition does.
            evolved = replace(specification, value=wanted.value)
            entry = state.add_store(evolved, partitions=entry.partitions)
            specification = entry.specification
    if partition is None:
        partition = entry.only_partition()
    if state.storage is not None and directory is not None:
        return open_in_objects(
            state,
            specification,
            partition,
            directory=directory,
            backend=backend,
            options=options,
            durability=durability,
            changelog_options=changelog_options,
            progress=progress,
        )
    source = state.partition(name, partition)
    refuse_unimported(source.path.parent, partition)
    finish_staged_writes(state, name)
    store = open_restorable(
        source.path if directory is None else directory,
        specification,
        source,
        backend=backend,
        options=options,
        durability=durability,
    )
    try:
        opened = join_changelog(
            store, state, partition, changelog_options=changelog_options, progress=progress
        )
    except BaseException:
        store.close()
        raise
    try:
        _let_records_come_first(opened, state)
    except BaseException:
        opened.close()
        raise
    return opened


def _let_records_come_first(opened: LoggedStore[Any], root: StateRoot) -> None:
    """Have *opened* append nothing while a task has recorded a commit of it (TSK-24).

    Raises:
        StorageError: It cannot be found out.
    """
    if has_recorded_commit(root.path, opened.name):
        first = "roll back, close this store, and "
        opened._ask_before_appends(  # noqa: SLF001  # of this package
            partial(refuse_recorded_commits, root.path, opened.name, first=first)
        )
