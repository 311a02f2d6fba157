"""How far a local store is behind its changelog, and what an assignor is told of it (KIP-535).

Offsets here are those of the *next* change: what is applied next, and where the changelog ends. A
store's committed offset is one less.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.logged_store import LoggedStore
from statestores.object_log import ObjectChangelog
from statestores.reading.locations import changelog_end
from statestores.spi.specification import StoreSpecification
from statestores.state_root import PartitionDirectory

LATEST_OFFSET = -2
"""The offset sum of an active task that runs: it has everything there is."""

UNKNOWN_OFFSET_SUM = -3
"""Nobody knows how much a task has; it counts as having nothing."""

OFFSET_UNKNOWN = -4
"""A store has no offset that could be trusted: in a checkpoint file, the same as no entry."""

_MAX_SUM = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class LagInfo:
    """How far one partition of a store has come."""

    current_offset: int
    """The offset of the next change to apply; 0 before the first."""

    end_offset: int
    """The offset that the next change will have."""

    @property
    def offset_lag(self) -> int:
        """How many offsets the store is behind, from 0."""
        return max(0, self.end_offset - self.current_offset)


def lag_of_owner(store: LoggedStore[Any]) -> LagInfo:
    """Return the lag of an open *store*, which has everything.

    Any thread may ask, also while the store commits: nothing is written, read or waited for.

    Raises:
        StoreClosedError: The changelog is closed.
    """
    log = store.changelog
    end = log.end_as_known if isinstance(log, ObjectChangelog) else log.end_offset
    return LagInfo(end, end)


def lag_behind(
    next_offset: int, source: PartitionDirectory, specification: StoreSpecification[Any, Any]
) -> LagInfo:
    """Return the lag of a store that applies *next_offset* next.

    Raises:
        StoreReshardedError: *source* is no partition of the store any more.
        StoreMismatchError: It has no changelog any more.
        ChangelogCorruptedError, StorageError: The changelog in *source* cannot be read.
    """
    return LagInfo(next_offset, changelog_end(source, specification, next_offset))


def task_offset_sum(offsets: Iterable[int]) -> int | None:
    """Return the sum that an assignor is told of a task, from the next offset of each changelog.

    `LATEST_OFFSET` in one of them makes the sum `LATEST_OFFSET`; `OFFSET_UNKNOWN` adds nothing. A
    sum beyond an int64 is the highest int64. ``None`` when there is no changelog: such a task is
    left out of the report.

    Raises:
        InvalidTypeError: An offset is not an int.
        InvalidArgumentError: An offset is negative and no sentinel.
    """
    known = list(offsets)
    for offset in known:
        if type(offset) is not int:
            raise InvalidTypeError(f"an offset must be an int, got {offset!r}")
        if offset < 0 and offset not in {LATEST_OFFSET, OFFSET_UNKNOWN}:
            raise InvalidArgumentError(
                f"an offset must be from 0, LATEST_OFFSET ({LATEST_OFFSET}) or OFFSET_UNKNOWN "
                f"({OFFSET_UNKNOWN}), got {offset!r}"
            )
    if not known:
        return None
    if LATEST_OFFSET in known:
        return LATEST_OFFSET
    return min(_MAX_SUM, sum(offset for offset in known if offset != OFFSET_UNKNOWN))
