"""The two stores of the demo, and how their partitions are opened."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

import statestores as ss
from figures import Advance, StoreSize, disk_usage
from statestores.arrow import Progress
from statestores.partitioning import partitioner_by_name

RETENTION_MS = 400 * ss.DAY
"""More than the year of the data, so that nothing of it is ever late."""

PLANES = ss.Versioned("planes", history_retention_ms=RETENTION_MS, key=ss.utf8, value=ss.json)
"""By tail number: the flights of each plane, from the minute in which each departed."""

PLANE_PARTITIONS = 4

WEATHER = ss.Versioned("weather", history_retention_ms=RETENTION_MS, key=ss.utf8, value=ss.json)
"""By airport: the weather of each hour."""

WEATHER_PARTITIONS = 2

Partitions = Mapping[int, ss.LoggedStore[ss.VersionedStore[str, Any]]]
"""The open partitions of a store, by number."""


def partition_of(store: ss.Versioned[str, Any], keys: pa.ChunkedArray, partitions: int) -> Any:
    """Return the partition of each of *keys*, as the store's partitioner has it."""
    return partitioner_by_name(store.partitioner).partition_array(
        ss.utf8.encode_array(keys), partitions
    )


@contextmanager
def open_partitions(
    path: Path, name: str, backend: str, advance: Advance | None = None
) -> Iterator[Partitions]:
    """Open the partitions of the store *name* of the state root at *path*.

    What the changelogs have beyond the engines is replayed; *advance* is told of it.
    """
    root = ss.StateRoot.open(path)
    with ExitStack() as opened:
        partitions = {}
        for number in range(root.store(name).partitions):
            replayed = 0

            def tell(progress: Progress) -> None:
                nonlocal replayed
                if advance is not None:
                    advance(progress.rows - replayed)
                replayed = progress.rows

            partitions[number] = opened.enter_context(
                ss.open_logged_store(root, name, number, backend=backend, progress=tell)
            )
        yield partitions


def versions_by_key(partitions: Partitions) -> dict[str, int]:
    """Return how many versions of each key the partitions hold."""
    counts: dict[str, int] = {}
    for logged in partitions.values():
        for key, _ in logged.store.scan_as_of():
            counts[key] = sum(1 for _ in logged.store.history(key))
    return counts


def size_on_disk(path: Path, name: str) -> StoreSize:
    """Return what the store *name* of the state root at *path* occupies."""
    root = ss.StateRoot.open(path)
    directories = [root.partition(name, number) for number in range(root.store(name).partitions)]
    return StoreSize(
        store=name,
        engine=sum(disk_usage(directory.path / "engine") for directory in directories),
        changelog=sum(disk_usage(directory.changelog) for directory in directories),
        snapshots=sum(disk_usage(directory.snapshots) for directory in directories),
    )


def create_root(path: Path) -> None:
    """Create the state root with the store of the weather; Spark adds that of the planes."""
    ss.StateRoot.create(path).add_store(WEATHER, partitions=WEATHER_PARTITIONS)
