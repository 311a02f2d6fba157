"""What can be said about a partition, a changelog or a snapshot without reading its rows.

Everything is JSON's types, and the names are those that ``docs/cli.md`` documents. What cannot be
read is said in words in a field ``error``, so that the rest can be shown.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from statestores.arrow.snapshots.directory import list_snapshots
from statestores.arrow.snapshots.manifest import Manifest
from statestores.arrow.snapshots.native_part import read_native
from statestores.arrow.snapshots.reader import read_snapshot
from statestores.changelog import ChangelogReader, changelog_partition
from statestores.errors import StateStoreError
from statestores.opening import backend_of, open_existing
from statestores.reading.locations import Partition
from statestores.reading.unfinished_imports import unimported
from statestores.spi.durability import Durability
from statestores.spi.offsets import TopicPartition
from statestores.spi.stores.key_value import KeyValueStore, ReadOnlyKeyValueStore
from statestores.staging.write_intent import read_intent

Facts: TypeAlias = dict[str, Any]  # of JSON's types


def partition_facts(
    partition: Partition, options: Mapping[str, object] | None, *, open_engine: bool | None
) -> Facts:
    """Return what is known about *partition*; its engine is opened, and locked, only if asked.

    ``None`` asks for it where there is no changelog.
    """
    specification = partition.specification
    facts: Facts = {
        "partition": partition.number,
        "path": str(partition.path),
        "store": None if specification is None else specification.describe(),
        "backend": backend_of(partition.home),
        "engine": None,
        "lag": None,
        "engine_bytes": size_of(partition.engine),
        "changelog": None,
        "snapshots": snapshots_facts(partition.directory.snapshots),
        "unfinished_write": _unfinished_write(partition),
        "is_unimported": _is_unimported(partition),
    }
    path = partition.directory.changelog
    try:
        if partition.has_changelog:
            facts["changelog"] = changelog_facts(path, partition.logged)
        elif (gone := partition.why_gone()) is not None:
            facts["changelog"] = {"path": str(path), "bytes": 0, "gone": True, "error": gone}
    except StateStoreError as error:  # nobody can tell: it may be there
        facts["changelog"] = {"path": str(path), "bytes": 0, "error": str(error)}
    if open_engine is None:
        changelog = facts["changelog"]
        open_engine = changelog is None or "gone" in changelog
    if open_engine and partition.has_engine:
        engine = engine_facts(partition, options)
        said = engine.pop("store", None)
        facts |= {"engine": engine, "store": facts["store"] or said}
        facts["lag"] = _lag(partition, facts)
    return facts


def changelog_facts(path: Path, logged: TopicPartition | None = None) -> Facts:
    """Return what is known about the changelog in *path*, which is to be that of *logged*."""
    facts: Facts = {"path": str(path), "bytes": size_of(path)}
    try:
        with ChangelogReader.open(path, partition=logged) as log:
            segments = log.segments()
            torn = log.torn_tail
            facts |= {
                "kind": log.store_kind,
                "first_offset": log.first_offset,
                "end_offset": log.end_offset,
                "position": offsets_facts(log.position),
                "segments": len(segments),
                "compacted_before": segments[0].end_offset if segments[0].compacted else None,
                "torn_tail_bytes": 0 if torn is None else torn.length,
            }
    except StateStoreError as error:
        facts["error"] = str(error)
    return facts


def snapshots_facts(directory: Path) -> list[Facts]:
    """Return what the manifests of the snapshots in *directory* say, the oldest first."""
    return [snapshot_facts(path) for path in list_snapshots(directory).values()]


def snapshot_facts(path: Path) -> Facts:
    """Return what the manifest of the snapshot *path* says; its rows are not read."""
    try:
        manifest = read_snapshot(path).manifest
    except StateStoreError as error:
        return {"path": str(path), "error": str(error)}
    return {"path": str(path), **_manifest_facts(manifest), "native": _native_facts(path)}


def _native_facts(snapshot: Path) -> Facts | None:
    """Return what the native part of the snapshot *snapshot* says; ``None`` without one."""
    try:
        part = read_native(snapshot)
    except StateStoreError as error:
        return {"error": str(error)}
    if part is None:
        return None
    manifest = part.manifest
    return {
        "backend": manifest.backend,
        "driver": manifest.driver,
        "files": len(manifest.files),
        "bytes": manifest.bytes,
    }


def engine_facts(partition: Partition, options: Mapping[str, object] | None) -> Facts:
    """Return what the store itself says; its engine is open for the moment that this takes."""
    try:
        with open_existing(
            partition.home, options=options, durability=Durability.PROCESS_CRASH, decoded=False
        ) as store:
            facts: Facts = {
                "store": store.specification.describe(),
                "committed_offsets": offsets_facts(store.committed_offsets()),
                "position": offsets_facts(store.position),
            }
            if isinstance(store, ReadOnlyKeyValueStore):
                facts["approximate_entries"] = store.approximate_num_entries()
            if not isinstance(store, KeyValueStore):
                facts["stream_time_ms"] = store.stream_time_ms
            return facts
    except StateStoreError as error:
        return {"error": str(error)}


def offsets_facts(offsets: Mapping[TopicPartition, int]) -> list[Facts]:
    """Return *offsets* in order."""
    return [
        {"topic": topic, "partition": number, "offset": offset}
        for (topic, number), offset in sorted(offsets.items())
    ]


def size_of(path: Path) -> int:
    """Return the size of all files below *path* that are still there, and can be looked at."""
    total = 0
    for directory, _, names in os.walk(path):
        for name in names:
            try:
                total += (Path(directory) / name).stat().st_size
            except OSError:
                continue
    return total


def _manifest_facts(manifest: Manifest) -> Facts:
    return {
        "store": dict(manifest.specification),
        "partition": manifest.partition.partition,
        "offset": manifest.offset,
        "rows": manifest.rows,
        "bytes": manifest.bytes,
        "position": offsets_facts(manifest.position),
        "stream_time_ms": manifest.stream_time_ms,
        "created_at_ms": manifest.created_at_ms,
        "library_version": manifest.library_version,
    }


def _lag(partition: Partition, facts: Facts) -> int | None:
    """Return how many offsets the store is behind its changelog; ``None`` when nobody knows."""
    log, engine = facts["changelog"], facts["engine"]
    if partition.specification is None or partition.number is None or log is None:
        return None
    if "error" in log or "error" in engine:
        return None
    wanted = changelog_partition(partition.specification.name, partition.number)
    committed = {
        TopicPartition(each["topic"], each["partition"]): int(each["offset"])
        for each in engine["committed_offsets"]
    }
    return int(log["end_offset"]) - 1 - committed.get(wanted, -1)


def _is_unimported(partition: Partition) -> bool:
    """Return whether an import has begun to bring *partition*, and has not."""
    return partition.root is not None and partition.number in unimported(partition.path.parent)


def _unfinished_write(partition: Partition) -> str | None:
    """Return the id of a committed write that the next writer will finish."""
    if partition.root is None:
        return None
    try:
        intent = read_intent(partition.path.parent)
    except StateStoreError as error:
        return f"unreadable: {error}"
    return None if intent is None or intent.finished else intent.write_id
