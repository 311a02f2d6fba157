"""What a verification has looked at, and its verdict."""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from statestores.errors import StateStoreError

RESTORE_INTERRUPTED = "a restore was interrupted; opening the store through its changelog goes on"
TRUNCATION_INTERRUPTED = "a truncation was interrupted; opening the store completes it"


class Status(StrEnum):
    """The outcome of one check."""

    OK = "ok"
    """Everything is as it should be."""

    DAMAGED = "damaged"
    """Something is wrong; the detail says what."""

    MISPLACED = "misplaced"
    """Nothing is damaged, but keys are where reads of one key do not look for them."""

    NOT_CHECKED = "not checked"
    """It could not be looked at, though it should have been."""

    SKIPPED = "skipped"
    """There was nothing to compare, or the caller did not want it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One check."""

    check: str
    """What was checked: store, changelog, snapshot, native snapshot, engine, rows, content,
    partition, task commit, task, topology, micro-batch."""

    path: Path | str
    """Where it is: a path, or a name in an object store."""

    status: Status
    """The outcome."""

    detail: str
    """The same in words."""

    error: StateStoreError | None = field(default=None, compare=False)
    """What was raised, if that is what is wrong."""

    is_unfinished: bool = field(default=False, compare=False)
    """Whether it is the whole record of a commit that something is still to take."""

    @property
    def is_failure(self) -> bool:
        """Whether it is not as it should be, or nobody knows."""
        return self.status in {Status.DAMAGED, Status.MISPLACED, Status.NOT_CHECKED}
