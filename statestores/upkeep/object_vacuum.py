"""The removal of what crashes have left of a store in an object store, and of older snapshots."""

from dataclasses import dataclass

from statestores.changelog.file_log import wall_clock_ms
from statestores.errors import InvalidArgumentError
from statestores.object_log import ObjectLog
from statestores.object_log.log import ABANDONED_AFTER_MS
from statestores.reading.partition_places import ObjectPartition, snapshots_of


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumedObjects:
    """What a vacuum of a store has removed."""

    objects: int | None
    """Objects that can never count; ``None`` when somebody has folded the log meanwhile."""

    snapshots: tuple[int, ...]
    """Of each partition, how many snapshots went that were older than those that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectVacuum:
    """Removes old objects of one store when it is called. Nobody is fenced, and readers go on."""

    log: ObjectLog
    """The log of the store."""

    keep_snapshots: int | None = None
    """How many of the newest snapshots of each partition stay, from 1; ``None``: all of them."""

    abandoned_after_ms: int = ABANDONED_AFTER_MS
    """What was staged, or put for a snapshot, longer ago and does not count is of a dead writer."""

    def __call__(self) -> VacuumedObjects:
        """Remove what can go; the changelog keeps everything, whichever snapshots go.

        Raises:
            InvalidArgumentError: No snapshot would be kept.
            ChangelogCorruptedError, UnsupportedFormatError, StorageError: Something cannot be read
                or removed.
            CommitInDoubtError: The object store does not answer. Trying again is harmless.
        """
        keep = self.keep_snapshots
        if keep is not None and keep < 1:
            raise InvalidArgumentError(f"keep_snapshots must be from 1, got {keep!r}")
        objects = self.log.vacuum(abandoned_after_ms=self.abandoned_after_ms)
        oldest_ms = wall_clock_ms() - self.abandoned_after_ms
        snapshots, left = [], 0
        for partition in range(self.log.partitions):
            found = snapshots_of(ObjectPartition(self.log, partition))
            snapshots.append(0 if keep is None else found.remove_old(keep))
            left += found.vacuum(oldest_ms)
        return VacuumedObjects(
            objects=None if objects is None else objects + left, snapshots=tuple(snapshots)
        )
