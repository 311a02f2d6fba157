"""The snapshots of a partition that a reader can use, and whether what is there is enough."""

from collections.abc import Iterator, Sequence

from statestores.arrow.keys.key_selection import KeySelection
from statestores.arrow.snapshots.choice import ListedSnapshot, passed_over, read_listed
from statestores.arrow.snapshots.reader import Snapshot
from statestores.changelog import changelog_partition
from statestores.errors import (
    SnapshotCorruptedError,
    StorageError,
    StoreMismatchError,
    UnsupportedFormatError,
)
from statestores.reading.partition_places import (
    PartitionPlace,
    number_at,
    shown_place,
    snapshots_at,
)
from statestores.reading.visible_log import LogEnd, VisibleLog


class UsableSnapshots:
    """Looks for the snapshots of one partition, anew at each call."""

    def __init__(self, place: PartitionPlace, name: str, log: VisibleLog) -> None:
        """Look at *place*, a partition of the store *name* with the changelog *log*."""
        self._place = place
        self._log = log
        self._partition = changelog_partition(name, number_at(place))

    def listed(self, offset: int | None = None) -> list[ListedSnapshot]:
        """Return the snapshots that there are up to *offset*, by their offsets, ascending."""
        return [
            each
            for each in snapshots_at(self._place, self._log)
            if offset is None or each.offset <= offset
        ]

    def newest_offset(self, offset: int | None = None) -> int:
        """Return the offset of the newest snapshot up to *offset*; -1 when there is none."""
        return newest_of(self.listed(offset))

    def readable(
        self, offset: int | None, end: LogEnd, refused: list[Exception] | None = None
    ) -> Iterator[Snapshot]:
        """Yield those up to *offset*, newest first; note in *refused* why others are not used.

        One that is removed meanwhile is none.
        """
        return self.readable_of(self.listed(offset), end, refused)

    def readable_of(
        self,
        listed: Sequence[ListedSnapshot],
        end: LogEnd,
        refused: list[Exception] | None = None,
    ) -> Iterator[Snapshot]:
        """Yield those that are *listed*, as `readable` does."""
        for each in reversed(listed):
            try:
                snapshot = read_listed(each)
            except (SnapshotCorruptedError, UnsupportedFormatError) as error:
                if refused is not None:
                    refused.append(error)
                continue
            if snapshot is None:
                continue
            if end.has_log and snapshot.manifest.partition != self._partition:
                continue  # its offset is one of another log
            yield snapshot

    def whole(
        self, listed: Sequence[ListedSnapshot], end: LogEnd, keys: KeySelection
    ) -> Snapshot | None:
        """Return the newest one that is *listed* and whole, as far as it has *keys*.

        Raises:
            SnapshotCorruptedError: Those that are damaged have what the changelog lacks.
            StoreMismatchError: It has come from the changelog that should be here, and is not.
        """
        refused: list[Exception] = []
        for snapshot in self.readable_of(listed, end, refused):
            try:
                snapshot.verify_checksums(keys)
            except (SnapshotCorruptedError, StorageError) as error:
                if not snapshot.is_there:
                    continue
                if isinstance(error, StorageError):
                    raise
                refused.append(error)
            else:
                self._check_enough(snapshot.offset + 1, end, refused)
                if not end.has_log and snapshot.manifest.partition == self._partition:
                    raise self._left_alone(snapshot)
                return snapshot
        self._check_enough(0, end, refused)
        return None

    def _left_alone(self, snapshot: Snapshot) -> StoreMismatchError:
        """Return the error for a *snapshot* of the changelog that should be here (LGS-8).

        One of another log is read, as where that is a topic in a cluster: there is nothing else.
        """
        return StoreMismatchError(
            f"the changelog of {shown_place(self._place)!r} is gone, and the snapshot at "
            f"{snapshot.offset} has come from it: what came later is not known; put it back, "
            "or read the snapshot itself by its path"
        )

    def _check_enough(self, start: int, end: LogEnd, refused: Sequence[Exception]) -> None:
        """Accept a changelog that begins where it is needed, if newer snapshots are *refused*.

        Raises:
            SnapshotCorruptedError: They have what is missing.
        """
        if not refused or (end.has_log and self._log.first_offset() <= start):
            return
        has = f"begins at offset {self._log.first_offset()}" if end.has_log else "is not there"
        raise SnapshotCorruptedError(
            f"the content of {shown_place(self._place)!r} cannot be read: its changelog {has}, "
            f"and is needed from offset {start} on; {passed_over(refused)}"
        ) from refused[0]


def newest_of(listed: Sequence[ListedSnapshot]) -> int:
    """Return the offset of the newest snapshot that is *listed*; -1 when there is none."""
    return listed[-1].offset if listed else -1
