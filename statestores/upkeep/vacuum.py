"""The removal of what a partition's newer snapshots make void: older ones, and segments.

Invariant: a segment goes only when as many whole snapshots as are kept have all of it. So damage to
the newest snapshot costs nobody the store.
"""

from dataclasses import dataclass
from typing import Final

from statestores.arrow.file_access import reporting
from statestores.arrow.snapshots.choice import listed_in, read_listed
from statestores.arrow.snapshots.directory import (
    remove_native_leftovers,
    remove_stale_temporaries,
    retire,
)
from statestores.arrow.snapshots.files import path_of
from statestores.arrow.snapshots.reader import Snapshot
from statestores.begun_partitions import refuse_gone
from statestores.changelog import FileChangelog, changelog_partition
from statestores.errors import (
    InvalidArgumentError,
    SnapshotCorruptedError,
    UnsupportedFormatError,
)
from statestores.files.lock_waiting import when_unlocked
from statestores.state_root import PartitionDirectory, StateRoot
from statestores.upkeep.partitions import opened_changelog

KEPT_SNAPSHOTS: Final = 2
"""How many are kept by default: one may be damaged, and readers be at work on the last but one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumedPartition:
    """What a vacuum has removed."""

    store: str
    """The store."""

    partition: int
    """The partition."""

    snapshots: int
    """How many snapshots went."""

    dropped_before: int | None
    """The offset before which segments were deleted; ``None`` where too few snapshots are whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuum:
    """Removes old files of one partition when it is called."""

    root: str
    """The directory of the state root."""

    store: str
    """The store."""

    partition: int
    """The partition."""

    keep_snapshots: int = KEPT_SNAPSHOTS
    """How many whole snapshots are kept, from 1."""

    timeout_ms: int = 0
    """How long to wait for whoever has the changelog open; 0 tries once."""

    def __call__(self) -> VacuumedPartition:
        """Remove what can go.

        Raises:
            InvalidArgumentError: No snapshot would be kept.
            StoreLockedError: Somebody has the changelog open; older snapshots are gone already.
            StateStoreError: Something cannot be read or removed.
        """
        if self.keep_snapshots < 1:
            raise InvalidArgumentError(
                f"keep_snapshots must be from 1, got {self.keep_snapshots!r}"
            )
        root = StateRoot.open(self.root)
        directory = root.partition(self.store, self.partition)
        has_changelog = FileChangelog.exists(directory.changelog)
        if not has_changelog:
            refuse_gone(directory)  # before what may be all that is left of it is removed
        kept, removed = remove_old_snapshots(directory, self.keep_snapshots)
        own = changelog_partition(self.store, self.partition)
        dropped_before = None
        if (
            len(kept) == self.keep_snapshots
            and all(each.manifest.partition == own for each in kept)
            and has_changelog
        ):
            dropped_before = when_unlocked(
                lambda: self._drop(root, kept[-1].offset + 1),
                self.timeout_ms,
                f"the vacuum of {self.store!r}",
                "timeout_ms",
            )
        return VacuumedPartition(
            store=self.store,
            partition=self.partition,
            snapshots=removed,
            dropped_before=dropped_before,
        )

    def _drop(self, root: StateRoot, before: int) -> int:
        """Delete the segments before the offset *before*; return where the log begins then."""
        with opened_changelog(root, self.store, self.partition) as log:
            if log.first_offset < min(before, log.end_offset):
                log.seal()
                log.delete_before(min(before, log.end_offset))
            return log.first_offset


def remove_old_snapshots(directory: PartitionDirectory, keep: int) -> tuple[list[Snapshot], int]:
    """Remove the snapshots that are older than the *keep* newest whole ones.

    Returns those, newest first, and how many went. A damaged one among them stays for the doctor.
    Others may remove snapshots of the partition at the same moment: no lock is needed for it.

    Raises:
        StorageError: Something cannot be read or removed.
    """
    kept: list[Snapshot] = []
    removed = 0
    for each in reversed(listed_in(directory.snapshots)):
        if len(kept) == keep:
            path = path_of(each.place)
            with reporting("remove", path):
                removed += retire(path)
            continue
        try:
            snapshot = read_listed(each, lambda found: found.verify_checksums())
        except (SnapshotCorruptedError, UnsupportedFormatError):
            continue
        if snapshot is not None:
            kept.append(snapshot)
    remove_native_leftovers(directory.snapshots)
    remove_stale_temporaries(directory.snapshots)
    return kept, removed
