"""How far the engine of a partition has come, and how far a restore would have to go."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from statestores.arrow.snapshots.directory import list_snapshots
from statestores.begun_partitions import refuse_gone
from statestores.changelog import ChangelogReader, changelog_partition
from statestores.cli.facts import engine_facts
from statestores.errors import StateStoreError, StoreNotFoundError
from statestores.files.lock_owner import LockOwner, lock_owner
from statestores.reading.locations import Partition
from statestores.staging.write_intent import end_for_readers
from statestores.tasks.lag import LagInfo


class Condition(StrEnum):
    """What keeps the lag of an engine from being known, or not."""

    IDLE = "idle"
    """Nobody has it open."""

    IN_USE = "in use"
    """Somebody has it open, and only the owner knows how far it is."""

    NO_ENGINE = "no engine"
    """There is none: all of it is still to be restored."""

    NOT_OPENED = "not opened"
    """The caller did not want it."""

    UNREADABLE = "cannot be read"
    """Engine or changelog cannot be read; the detail says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """One partition, at one moment."""

    partition: Partition
    """Which."""

    condition: Condition
    """Whether its engine could be asked."""

    next_offset: int | None = None
    """The offset of the next change that the engine applies; ``None`` when nobody knows."""

    end_offset: int | None = None
    """The offset that the next change gets; ``None`` when the changelog cannot be read."""

    snapshot_offset: int | None = None
    """The offset of the newest snapshot; ``None`` without one."""

    last_write_ms: int | None = None
    """When the changelog's file was last written, by its clock; ``None`` without a changelog."""

    owner: LockOwner | None = None
    """Who has opened the engine last, and perhaps still has."""

    detail: str | None = None
    """What could not be read, and why."""

    @property
    def lag(self) -> int | None:
        """How many changes the engine is behind, from 0; ``None`` when nobody knows."""
        if self.next_offset is None or self.end_offset is None:
            return None
        return LagInfo(self.next_offset, self.end_offset).offset_lag

    @property
    def since_snapshot(self) -> int | None:
        """How many changes a restore from the newest snapshot has to apply."""
        if self.end_offset is None:
            return None
        return self.end_offset - (0 if self.snapshot_offset is None else self.snapshot_offset + 1)


def lag_of(
    partition: Partition, options: Mapping[str, object] | None, *, open_engine: bool
) -> PartitionLag:
    """Return how far *partition* is. Its engine is opened, and locked, only if asked."""
    end: int | None = None
    written_ms: int | None = None
    condition, offset, detail, owner = Condition.IDLE, None, None, None
    snapshot: int | None = None
    try:
        end, written_ms = _end_of(partition)
        snapshot = max(list_snapshots(partition.directory.snapshots), default=None)
        owner = lock_owner(partition.engine)
        if not partition.has_engine:
            condition, offset = Condition.NO_ENGINE, 0
        elif owner is not None and owner.holds:
            condition = Condition.IN_USE
        elif not open_engine:
            condition = Condition.NOT_OPENED
        else:
            condition, offset, detail = _asked(partition, options)
    except StateStoreError as error:
        condition, detail = Condition.UNREADABLE, str(error)
    return PartitionLag(
        partition=partition,
        condition=condition,
        next_offset=offset,
        end_offset=end,
        snapshot_offset=snapshot,
        last_write_ms=written_ms,
        owner=owner,
        detail=detail,
    )


def _asked(
    partition: Partition, options: Mapping[str, object] | None
) -> tuple[Condition, int | None, str | None]:
    """Return what the engine of *partition* says of how far it is."""
    facts = engine_facts(partition, options)
    if "error" in facts:
        owner = lock_owner(partition.engine)
        taken = owner is not None and owner.holds
        return (Condition.IN_USE if taken else Condition.UNREADABLE), None, facts["error"]
    assert partition.specification is not None  # noqa: S101  # of a state root
    assert partition.number is not None  # noqa: S101  # the same
    wanted = changelog_partition(partition.specification.name, partition.number)
    for each in facts["committed_offsets"]:
        if (each["topic"], each["partition"]) == wanted:
            return Condition.IDLE, each["offset"] + 1, None
    return Condition.IDLE, 0, None


def _end_of(partition: Partition) -> tuple[int, int | None]:
    """Return where *partition* ends for readers, and when its changelog was last written."""
    kind = None if partition.specification is None else partition.specification.kind
    try:
        with ChangelogReader.open(
            partition.directory.changelog, kind, partition=partition.logged
        ) as log:
            path, end = log.segments()[-1].path, log.end_offset
            written_ms = path.stat().st_mtime_ns // 1_000_000
    except StoreNotFoundError:
        if partition.root is not None:
            refuse_gone(partition.directory)
        return 0, None
    except FileNotFoundError:
        return 0, None  # compacted and removed since: the next look finds its successor
    if partition.root is not None and partition.number is not None:
        end = end_for_readers(partition.path.parent, partition.number, end)
    return end, written_ms
