"""Snapshots, compactions and vacuums as Spark jobs: one task for each partition, beside queries."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

from pyspark.sql import SparkSession

from statestores.arrow.snapshots.snapshot import SnapshotInfo
from statestores.changelog import CompactionReport
from statestores.files.lock_waiting import COMMIT_TIMEOUT_MS
from statestores.object_log import ObjectCompactionReport
from statestores.spark.given_root import GivenRoot
from statestores.spark.in_tasks import check_session, in_tasks
from statestores.spi.specification import StoreSpecification
from statestores.state_root import StateRoot
from statestores.upkeep import (
    Compaction,
    FileSnapshot,
    ObjectCompaction,
    ObjectVacuum,
    Vacuum,
    VacuumedObjects,
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
    storage_options: Mapping[str, object] | None = None,
) -> list[SnapshotInfo]:
    """Write a snapshot of each partition of *store*, or of every store, from its files or objects.

    Each is of what the changelog had when its task began. No lock is taken and no engine opened, so
    owners and queries go on. A snapshot that is there already stays, and a partition without a
    commit has none.

    Args:
        spark: The session, classic or Connect.
        root: The directory of the state root, which the driver and all executors share; or its URL
            in an object store.
        store: The store's name; by default every store of the root.
        memory_bytes: About as much memory as the rows of one task may take.
        storage_options: How the object store of a URL is reached (`StateRoot.open`); by default as
            the environment of driver and executors says.

    Raises:
        InvalidTypeError: That is no session.
        InvalidOptionError: The path is of another file system, or there are *storage_options*, and
            it is no URL.
        StoreNotFoundError: There is no such state root or store.
        PySparkException: A task failed; snapshots of other partitions may be there.
    """
    check_session(spark)
    given = GivenRoot.of(str(root), storage_options)
    state = given.open()
    work: list[Callable[[], SnapshotInfo | None]]
    if state.storage is not None:
        work = [
            _ObjectSnapshot(of=each, number=number, memory_bytes=memory_bytes)
            for each in _logs_of(given, state, store)
            for number in range(each.partitions)
        ]
    else:
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
    storage_options: Mapping[str, object] | None = None,
) -> dict[tuple[str, int], CompactionReport | ObjectCompactionReport]:
    """Compact the changelog of each partition of *store*, or of every store.

    Each task has the lock of one changelog while it works, and waits for it. A query that writes
    the store waits meanwhile, for as long as its ``commitTimeout`` says. In an object store a task
    has all partitions of one store, which share what is replaced, and nobody waits.

    Args:
        spark: The session, classic or Connect.
        root: The directory of the state root, which the driver and all executors share; or its URL
            in an object store.
        store: The store's name; by default every store of the root.
        timeout_ms: How long to wait for whoever has a changelog open.
        storage_options: As for `write_snapshots`.

    Returns:
        What was dropped, by store and partition; partitions without a changelog are not there.

    Raises:
        InvalidTypeError, InvalidOptionError, StoreNotFoundError: As `write_snapshots`.
        PySparkException: A task failed: somebody had a changelog open for too long, or one cannot
            be read or written. Other changelogs may have been compacted.
    """
    check_session(spark)
    given = GivenRoot.of(str(root), storage_options)
    state = given.open()
    if state.storage is not None:
        logs = _logs_of(given, state, store)
        reports = in_tasks(spark, [_ObjectCompaction(of=each) for each in logs])
        return {
            (each.specification.name, number): report
            for each, of_store in zip(logs, reports, strict=True)
            for number, report in enumerate(of_store)
        }
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
    storage_options: Mapping[str, object] | None = None,
) -> list[VacuumedPartition]:
    """Remove old snapshots of each partition of *store*, or of every store, and their segments.

    The newest *keep_snapshots* whole snapshots stay, and so do the changes after the oldest of
    them. Whoever wants to read changes before that, or content as of an offset before it, gets
    `OffsetOutOfRangeError` from then on; engines and standbys that are older restore from a
    snapshot. In an object store a task has all partitions of one store, no changes go, and what
    crashes have left a day ago does.

    Args:
        spark: The session, classic or Connect.
        root: The directory of the state root, which the driver and all executors share; or its URL
            in an object store.
        store: The store's name; by default every store of the root.
        keep_snapshots: How many snapshots stay, from 1.
        timeout_ms: How long to wait for whoever has a changelog open.
        storage_options: As for `write_snapshots`.

    Raises:
        InvalidTypeError, InvalidOptionError, StoreNotFoundError: As `write_snapshots`.
        PySparkException: A task failed, as in `compact`.
    """
    check_session(spark)
    given = GivenRoot.of(str(root), storage_options)
    state = given.open()
    if state.storage is not None:
        logs = _logs_of(given, state, store)
        removed = in_tasks(spark, [_ObjectVacuum(of=each, keep=keep_snapshots) for each in logs])
        return [
            VacuumedPartition(
                store=each.specification.name, partition=number, snapshots=gone, dropped_before=None
            )
            for each, done in zip(logs, removed, strict=True)
            for number, gone in enumerate(done.snapshots)
        ]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _LogOf:
    """A store in an object store, as a task is sent it: without a connection."""

    root: GivenRoot
    specification: StoreSpecification[Any, Any]
    partitions: int


def _logs_of(root: GivenRoot, state: StateRoot, store: str | None) -> list[_LogOf]:
    """Return *store* of *state*, which lies at *root*, or every store of it."""
    entries = [state.store(name) for name in (sorted(state.stores) if store is None else [store])]
    return [
        _LogOf(root=root, specification=each.specification, partitions=each.partitions)
        for each in entries
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ObjectSnapshot:
    """Writes a snapshot of one partition."""

    of: _LogOf
    number: int
    memory_bytes: int

    def __call__(self) -> SnapshotInfo | None:
        of = self.of
        return FileSnapshot(
            directory=of.root.partition(of.specification, of.partitions, self.number),
            number=self.number,
            specification=of.specification,
            memory_bytes=self.memory_bytes,
        )()


@dataclass(frozen=True, slots=True, kw_only=True)
class _ObjectCompaction:
    """Compacts one store."""

    of: _LogOf

    def __call__(self) -> list[ObjectCompactionReport]:
        of = self.of
        log = of.root.object_log(of.specification, of.partitions)
        return ObjectCompaction(log=log, specification=of.specification)()


@dataclass(frozen=True, slots=True, kw_only=True)
class _ObjectVacuum:
    """Vacuums one store."""

    of: _LogOf
    keep: int

    def __call__(self) -> VacuumedObjects:
        of = self.of
        log = of.root.object_log(of.specification, of.partitions)
        return ObjectVacuum(log=log, keep_snapshots=self.keep)()
