"""The content of a partition at an offset, found while a writer deletes and compacts.

The newest snapshot that is whole, and the changes after it up to the offset; looked for again when
what was listed is gone by the time it is read.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from statestores.arrow.keys.key_selection import KeySelection
from statestores.arrow.rows.spilled_runs import SpilledRuns
from statestores.arrow.snapshots.choice import ListedSnapshot
from statestores.arrow.snapshots.reader import Snapshot
from statestores.changelog import FrameKind
from statestores.errors import OffsetOutOfRangeError, StoreNotFoundError
from statestores.opening import backend_of
from statestores.reading.partition_places import PartitionPlace, number_at, shown_place
from statestores.reading.replay import Replay
from statestores.reading.usable_snapshots import UsableSnapshots, newest_of
from statestores.reading.visible_log import LogEnd, VisibleLog
from statestores.spi.specification import StoreSpecification
from statestores.state_root import PartitionDirectory

_ATTEMPTS = 10
"""How often content is looked for again, when a writer deletes or compacts what is read."""


class Replays:
    """Makes the replays of one partition, each of what there is when it is asked for."""

    def __init__(
        self,
        place: PartitionPlace,
        specification: StoreSpecification[Any, Any],
        log: VisibleLog,
        snapshots: UsableSnapshots,
    ) -> None:
        """Look at *place*, a partition with this *log* and these *snapshots*."""
        self._place = place
        self._specification = specification
        self._number = number_at(place)
        self._log = log
        self._snapshots = snapshots

    def at(self, offset: int | None, keys: KeySelection, runs: SpilledRuns | None = None) -> Replay:
        """Return the content after the change with *offset*: see `PartitionReader.replay`."""
        for _ in range(_ATTEMPTS - 1):
            listed = self._snapshots.listed(offset)
            end = self._log.end()
            try:
                return self._replay(offset, end, keys, runs, listed)
            except OffsetOutOfRangeError:
                # A writer may have deleted or compacted what was read, and there is more now.
                moved = offset is None and self._log.end().offset > end.offset
                if not moved and self._snapshots.newest_offset(offset) == newest_of(listed):
                    raise
        listed = self._snapshots.listed(offset)
        return self._replay(offset, self._log.end(), keys, runs, listed)

    def of(self, snapshot: Snapshot | None, offset: int) -> Replay:
        """Return the content after the change with *offset*, made of *snapshot* as it is.

        Raises:
            OffsetOutOfRangeError: Changes in between are gone, or not yet there.
        """
        start = 0 if snapshot is None else snapshot.offset + 1
        stop = self._stop(offset, start, self._log.end())
        return self._followed(Replay.of(self._specification, snapshot), start, stop)

    def _replay(
        self,
        offset: int | None,
        end: LogEnd,
        keys: KeySelection,
        runs: SpilledRuns | None,
        listed: Sequence[ListedSnapshot],
    ) -> Replay:
        """Return the content after the change with *offset*, the log ending at *end*."""
        snapshot = self._snapshots.whole(listed, end, keys)
        start = 0 if snapshot is None else snapshot.offset + 1
        stop = self._stop(offset, start, end)
        if not end.has_log and self._is_engine_alone():
            raise StoreNotFoundError(
                f"{shown_place(self._place)!r} has a live engine and neither a changelog nor "
                "a snapshot, which is what is read without its lock; write a snapshot of the store"
            )
        if runs is not None:
            runs.clear()  # of an attempt before
        replay = Replay.of(self._specification, snapshot, keys, runs)
        again = partial(self.at, max(start, stop) - 1, runs=runs)
        return self._followed(replace(replay, again=again), start, stop)

    def _followed(self, replay: Replay, start: int, stop: int) -> Replay:
        """Return *replay* with the changes from *start* up to *stop* added."""
        if start < stop:
            self._check_begins(start, stop)
            self._log.check_compaction(start, stop)
            for frame in self._log.frames(start, stop):
                if frame.kind is FrameKind.CLEAR:
                    replay.tail.clear()
                else:
                    replay.tail.add(frame.batch)
            self._log.check_compaction(start, stop)  # it may have come while they were read
        return replay

    def _check_begins(self, start: int, stop: int) -> None:
        """Accept a changelog that has what comes from *start* on.

        Raises:
            OffsetOutOfRangeError: It begins later, and there is no snapshot up to *stop* any more.
        """
        first = self._log.first_offset()
        if first > start:
            raise OffsetOutOfRangeError(
                f"the content of partition {self._number} of {self._specification.name!r} at "
                f"offset {stop - 1} is gone: its changelog begins at offset {first}, and no "
                "snapshot has what was before; read it at a later offset, or at that of a snapshot"
            )

    def _is_engine_alone(self) -> bool:
        place = self._place
        if not isinstance(place, PartitionDirectory):
            return False
        return backend_of(place.path) is not None and not self._snapshots.listed()

    def _stop(self, offset: int | None, start: int, end: LogEnd) -> int:
        """Return the offset before which to stop reading changes from *start*."""
        stop = end.offset if offset is None else offset + 1
        if stop > max(end.offset, start):
            raise OffsetOutOfRangeError(
                f"partition {self._number} of {self._specification.name!r} has no offset {offset} "
                f"yet: it ends before {max(end.offset, start)}"
            )
        return stop
