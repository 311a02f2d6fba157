"""Snapshots, compactions and vacuums as Spark jobs: one task for each partition, beside queries."""

from os import PathLike

from pyspark.sql import SparkSession

from statestores.arrow.snapshots.snapshot import SnapshotInfo
from statestores.changelog import CompactionReport
from statestores.files.lock_waiting import COMMIT_TIMEOUT_MS
from statestores.spark.in_tasks import check_session, in_tasks
from statestores.spark.state_path import require_local_path
from statestores.state_root import StateRoot
from statestores.upkeep import (
    Compaction,
    FileSnapshot,
    Vacuum,
    VacuumedPartition,
    stores_and_partitions,
)
from statestores.upkeep.snapshots import MEMORY_BYTES
from statestores.upkeep.vacuum import KEPT_SNAPSHOTS


def write_snapshots(
    spark: SparkSession,
    root: str | PathLike[str],
    store: str | None = None,
    *,
    memory_bytes: int = MEMORY_BYTES,
) -> list[SnapshotInfo]:
    """Write a snapshot of each partition of *store*, or of every store, from its files.

    Each is of what the changelog had when its task began. No lock is taken and no engine opened, so
    owners and queries go on. A snapshot that is there already stays, and a partition without a
    commit has none.

    Args:
        spark: The session, classic or Connect.
        root: The directory of the state root, which the driver and all executors share.
        store: The store's name; by default every store of the root.
        memory_bytes: About as much memory as the rows of one task may take.

    Raises:
        InvalidTypeError: That is no session.
        InvalidOptionError: The path is of another file system.
        StoreNotFoundError: There is no such state root or store.
        PySparkException: A task failed; snapshots of other partitions may be there.
    """
    check_session(spark)
    state = StateRoot.open(require_local_path(str(root)))
    work = [
        FileSnapshot(
            directory=directory,
            number=number,
            specification=state.store(name).specification,
            memory_bytes=memory_bytes,
        )
        for name, number, directory in stores_and_partitions(state, store)
    ]
    return [info for info in in_tasks(spark, work) if info is not None]


def compact(
    spark: SparkSession,
    root: str | PathLike[str],
    store: str | None = None,
    *,
    timeout_ms: int = COMMIT_TIMEOUT_MS,
) -> dict[tuple[str, int], CompactionReport]:
    """Compact the changelog of each partition of *store*, or of every store.

    Each task has the lock of one changelog while it works, and waits for it. A query that writes
    the store waits meanwhile, for as long as its ``commitTimeout`` says.

    Args:
        spark: The session, classic or Connect.
        root: The directory of the state root, which the driver and all executors share.
        store: The store's name; by default every store of the root.
        timeout_ms: How long to wait for whoever has a changelog open.

    Returns:
        What was dropped, by store and partition; partitions without a changelog are not there.

    Raises:
        InvalidTypeError, InvalidOptionError, StoreNotFoundError: As `write_snapshots`.
        PySparkException: A task failed: somebody had a changelog open for too long, or one cannot
            be read or written. Other changelogs may have been compacted.
    """
    check_session(spark)
    state = StateRoot.open(require_local_path(str(root)))
    work = [
        Compaction(root=str(state.path), store=name, partition=number, timeout_ms=timeout_ms)
        for name, number, _ in stores_and_partitions(state, store)
    ]
    return {
        (done.store, done.partition): done.report
        for done in in_tasks(spark, work)
        if done.report is not None
    }


def vacuum(
    spark: SparkSession,
    root: str | PathLike[str],
    store: str | None = None,
    *,
    keep_snapshots: int = KEPT_SNAPSHOTS,
    timeout_ms: int = COMMIT_TIMEOUT_MS,
) -> list[VacuumedPartition]:
    """Remove old snapshots of each partition of *store*, or of every store, and their segments.

    The newest *keep_snapshots* whole snapshots stay, and so do the changes after the oldest of
    them. Whoever wants to read changes before that, or content as of an offset before it, gets
    `OffsetOutOfRangeError` from then on; engines and standbys that are older restore from a
    snapshot.

    Args:
        spark: The session, classic or Connect.
        root: The directory of the state root, which the driver and all executors share.
        store: The store's name; by default every store of the root.
        keep_snapshots: How many snapshots stay, from 1.
        timeout_ms: How long to wait for whoever has a changelog open.

    Raises:
        InvalidTypeError, InvalidOptionError, StoreNotFoundError: As `write_snapshots`.
        PySparkException: A task failed, as in `compact`.
    """
    check_session(spark)
    state = StateRoot.open(require_local_path(str(root)))
    work = [
        Vacuum(
            root=str(state.path),
            store=name,
            partition=number,
            keep_snapshots=keep_snapshots,
            timeout_ms=timeout_ms,
        )
        for name, number, _ in stores_and_partitions(state, store)
    ]
    return in_tasks(spark, work)
