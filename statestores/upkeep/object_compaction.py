"""The compaction of the changelogs of a store in an object store, which has one checkpoint."""

from dataclasses import dataclass
from typing import Any

from statestores.errors import CommitConflictError
from statestores.object_log import ObjectCompactionReport, ObjectLog
from statestores.spi.specification import StoreSpecification

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectCompaction:
    """Folds and compacts the log of one store when it is called. Owners and readers go on."""

    log: ObjectLog
    """The log of the store."""

    specification: StoreSpecification[Any, Any]
    """What the store is."""

    def __call__(self) -> list[ObjectCompactionReport]:
        """Compact every partition, one after the other; return what that has done, by partition.

        Entries that were folded are those of all partitions, and counted with the first.

        Raises:
            CommitConflictError: Others fold or compact the store again and again meanwhile.
            ChangelogCorruptedError, UnsupportedFormatError, StorageError: It cannot be read.
            CommitInDoubtError: The object store does not answer. Trying again is harmless.
        """
        return [self._compacted(number) for number in range(self.log.partitions)]

    def _compacted(self, partition: int) -> ObjectCompactionReport:
        """Compact *partition*, and again if somebody else comes in between."""
        left = _ATTEMPTS
        while True:
            left -= 1
            try:
                return self.log.compact(
                    history_retention_ms=getattr(self.specification, "history_retention_ms", None),
                    retention_ms=getattr(self.specification, "retention_ms", None),
                    partitions=(partition,),
                )
            except CommitConflictError:
                if not left:
                    raise
