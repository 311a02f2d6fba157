"""All checks of what lies at a path: a state root, one store, a partition, a log, a snapshot."""

import os
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike

from statestores.arrow.progress import Meter, ProgressCallback
from statestores.errors import InvalidArgumentError, StateStoreError
from statestores.partitioning import partitioner_by_name
from statestores.reading.locations import (
    ChangelogDirectory,
    Location,
    Partition,
    Root,
    SnapshotDirectory,
    locate,
)
from statestores.staging.write_intent import read_intent
from statestores.state_root import StateRoot
from statestores.storage import is_storage_url
from statestores.verification.beside_stores import check_beside_stores
from statestores.verification.files import check_changelog, check_native, check_snapshot
from statestores.verification.findings import Finding, Status
from statestores.verification.object_roots import check_object_root
from statestores.verification.partition_checks import check_partition


def verify(
    path: str | PathLike[str],
    *,
    options: Mapping[str, object] | None = None,
    with_engine: bool = True,
    progress: ProgressCallback | None = None,
    storage_options: Mapping[str, object] | None = None,
) -> Iterator[Finding]:
    """Check what lies at *path*; yield a finding for each thing, once it has been looked at.

    A state root, the directory of one of its stores, a partition, a changelog or a snapshot; or the
    URL of a state root in an object store, where there are no engines and nobody is kept out.
    Nothing is changed. A store is whole when no finding is a failure:

        damaged = [finding for finding in verify("state/") if finding.is_failure]

    Args:
        path: Where to look.
        options: Options of the backend, for the engines that are opened.
        with_engine: Whether to open the engines too, each under its lock, which keeps its owner
            out meanwhile. An engine that is open elsewhere is `Status.NOT_CHECKED`.
        progress: Called as rows of engines are read. What it raises ends the verification, unless
            it is a `StateStoreError`, which is taken for the engine's.
        storage_options: How the object store of a URL is reached (`StateRoot.open`).

    Raises:
        InvalidArgumentError: There are *storage_options*, and *path* is no URL.
        StoreNotFoundError: There is nothing at *path* that can be checked.
        StateStoreError: The file that says what stores there are cannot be read.
    """
    if is_storage_url(path):
        root = StateRoot.open(path, storage_options=storage_options)
        return check_object_root(root, meter=Meter(progress))
    if storage_options is not None:
        raise InvalidArgumentError(
            f"storage_options are for the URL of an object store, and {os.fspath(path)!r} is none"
        )
    return check_location(locate(path), options=options, with_engine=with_engine, progress=progress)


def check_location(
    location: Location,
    stores: Iterable[str] | None = None,
    *,
    options: Mapping[str, object] | None = None,
    with_engine: bool = True,
    progress: ProgressCallback | None = None,
) -> Iterator[Finding]:
    """Check *location* as `verify` does; of a state root these *stores*, by default its own.

    What tasks, topologies and operators keep beside stores is looked at with all stores of a root,
    not with some.
    """
    meter = Meter(progress)
    match location:
        case Root():
            for name in _named(location) if stores is None else stores:
                yield _check_store(location, name)
                for partition in location.partitions(name):
                    yield from check_partition(
                        partition, options, with_engine=with_engine, meter=meter
                    )
            if stores is None and location.store is None:
                yield from check_beside_stores(location.root)
        case Partition():
            yield from check_partition(location, options, with_engine=with_engine, meter=meter)
        case ChangelogDirectory():
            yield check_changelog(location.path, None)[0]
        case SnapshotDirectory():
            yield check_snapshot(location.path)[0]
            native = check_native(location.path)
            if native is not None:
                yield native


def _named(location: Root) -> list[str]:
    """Return the store that the path names, or all of them."""
    return sorted(location.root.stores) if location.store is None else [location.store]


def _check_store(location: Root, name: str) -> Finding:
    """Check what the state root says about a store, and the note of its last staged write."""
    directory = location.root.home(name)
    entry = location.root.store(name)
    try:
        partitioner_by_name(entry.specification.partitioner)
        intent = read_intent(directory)
    except StateStoreError as error:
        return Finding("store", directory, Status.DAMAGED, str(error), error)
    strangers = [
        each.name
        for each in (directory.iterdir() if directory.is_dir() else ())
        if each.name.isdigit() and int(each.name) >= entry.partitions
    ]
    if strangers:
        words = f"there is a partition {strangers[0]}, and the store has {entry.partitions}"
        return Finding("store", directory, Status.DAMAGED, words)
    words = f"{entry.specification.kind}, partitions: {entry.partitions}"
    if intent is not None and not intent.finished:
        words += f"; the write {intent.write_id!r} is committed, and the next writer finishes it"
    return Finding("store", directory, Status.OK, words)
