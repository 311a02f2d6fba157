"""The compaction of one partition's changelog, under its lock."""

from dataclasses import dataclass

from statestores.arrow.snapshots.choice import newest_valid_snapshot
from statestores.begun_partitions import refuse_gone
from statestores.changelog import CompactionReport, FileChangelog, changelog_partition
from statestores.changelog import compact as compact_log
from statestores.errors import StoreNotFoundError
from statestores.files.lock_waiting import when_unlocked
from statestores.state_root import StateRoot
from statestores.upkeep.partitions import opened_changelog


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedPartition:
    """What became of one changelog."""

    store: str
    """The store."""

    partition: int
    """The partition."""

    report: CompactionReport | None
    """What was dropped; ``None`` where there is no changelog."""

    dropped_before: int | None
    """The offset before which segments were deleted; ``None`` where none were to be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """Compacts the changelog of one partition when it is called."""

    root: str
    """The directory of the state root."""

    store: str
    """The store."""

    partition: int
    """The partition."""

    drop_covered: bool = False
    """Whether segments go of which the newest valid snapshot has everything."""

    timeout_ms: int = 0
    """How long to wait for whoever has the changelog open; 0 tries once."""

    def __call__(self) -> CompactedPartition:
        """Compact it.

        Raises:
            StoreLockedError: Somebody has it open.
            StateStoreError: It cannot be read or written; it is as it was, or as it should be.
        """
        root = StateRoot.open(self.root)
        try:
            if not self.timeout_ms:
                return self._compacted(root)
            return when_unlocked(
                lambda: self._compacted(root),
                self.timeout_ms,
                f"the compaction of {self.store!r}",
                "timeout_ms",
            )
        except StoreNotFoundError:
            directory = root.partition(self.store, self.partition)
            if FileChangelog.exists(directory.changelog):
                raise
            refuse_gone(directory)
            return CompactedPartition(
                store=self.store, partition=self.partition, report=None, dropped_before=None
            )

    def _compacted(self, root: StateRoot) -> CompactedPartition:
        specification = root.store(self.store).specification
        directory = root.partition(self.store, self.partition)
        with opened_changelog(root, self.store, self.partition) as log:
            dropped_before = None
            if self.drop_covered:
                newest = newest_valid_snapshot(directory.snapshots).snapshot
                own = changelog_partition(self.store, self.partition)
                if newest is not None and newest.manifest.partition == own:
                    log.seal()
                    dropped_before = log.delete_before(min(newest.offset + 1, log.end_offset))
            log.seal()
            report = compact_log(
                log,
                history_retention_ms=getattr(specification, "history_retention_ms", None),
                retention_ms=getattr(specification, "retention_ms", None),
            )
        return CompactedPartition(
            store=self.store,
            partition=self.partition,
            report=report,
            dropped_before=dropped_before,
        )
