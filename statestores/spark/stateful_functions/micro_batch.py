"""A micro-batch of a stateful operator, and what its driver does with it, wherever state lies."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

from statestores.changelog.rows import describe
from statestores.errors import StoreMismatchError, StoreReshardedError
from statestores.files.lock_waiting import when_unlocked
from statestores.spark.stateful_functions.plan import StatefulPlan
from statestores.spark.stateful_functions.task import StatefulTask, TaskResult
from statestores.staging.staged_rows import StagedFile
from statestores.state_root import StateRoot

Compute: TypeAlias = Callable[[StatefulTask], Sequence[TaskResult]]
"""Runs the tasks of a micro-batch, on whatever machines there are."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """One micro-batch of a query."""

    query: str
    """The query, by the id of its checkpoint."""

    number: int
    """Its number, from 0."""

    is_in_sequence: bool
    """Whether the operator sees every micro-batch of the query, so that none may be missing."""

    step: int = 0
    """Which of the steps it is that compute with the same stores in the micro-batch, from 0."""

    @property
    def write_id(self) -> str:
        """The name under which its tasks stage: the same one when it comes again."""
        name = f"{self.query}-{self.number}"
        return f"{name}-{self.step}" if self.step else name


class CommittedBatch(Protocol):
    """A micro-batch that counts."""

    @property
    def write_id(self) -> str:
        """The name under which its tasks have staged, and emitted rows."""

    @property
    def outputs(self) -> tuple[StagedFile, ...]:
        """What its function has emitted."""


class OperatorBatches(ABC):
    """Runs the micro-batches of one operator, one after the other."""

    def __init__(self, plan: StatefulPlan) -> None:
        """Run what *plan* describes."""
        self._plan = plan
        self._columns = describe(plan.schema)
        if plan.channels:
            self._columns += f" for {', '.join(plan.channels)}"

    @abstractmethod
    def run(self, batch: MicroBatch, compute: Compute) -> CommittedBatch:
        """Return *batch* as it is committed; *compute* runs its tasks if need be.

        Raises:
            StoreMismatchError: The state is not that of the query's checkpoint.
            StoreReshardedError: A store has got other partitions since the plan was made.
            CommitConflictError: Another writer has changed a store meanwhile. Nothing is
                committed; start the query again.
            StoreLockedError: Another writer has had a store open for as long as the plan's
                *commit_timeout_ms* says. Start the query again, and it goes on.
            CommitInDoubtError: An object store does not answer. Likewise.
            StoreCorruptedError, ChangelogCorruptedError, StorageError: Something is damaged, or
                the disk failed.
        """

    @abstractmethod
    def settle(self) -> CommittedBatch | None:
        """Carry out the last micro-batch if a driver has died before it did, and return it.

        Raises:
            StateStoreError: As `run`.
        """

    @abstractmethod
    def is_known(self) -> bool:
        """Return whether the operator may have had a micro-batch.

        Raises:
            StateStoreError: It cannot be found out.
        """

    @abstractmethod
    def forget_outputs(self) -> None:
        """Remove what micro-batches before this one have emitted.

        Requires: the query has gone on to one that this operator has no part in.

        Raises:
            StorageError: It cannot be removed.
        """

    @abstractmethod
    def give_up(self, batch: MicroBatch) -> None:
        """Remove what attempts have staged for *batch*, if it is not committed.

        Raises:
            StorageError: It cannot be removed.
        """

    def _when_unlocked(self, take: Callable[[], T]) -> T:
        """Return what *take* returns, once no other writer is in its way."""
        return when_unlocked(
            take,
            self._plan.commit_timeout_ms,
            f"a micro-batch of {self._plan.name!r}",
            "commit_timeout_ms",
        )

    def _check_partitions(self, root: StateRoot) -> None:
        """Accept stores that have as many partitions as the plan says, by which rows are shuffled.

        Raises:
            StoreReshardedError: One has others.
        """
        for specification in self._plan.specifications:
            found = root.store(specification.name).partitions
            if found != self._plan.partitions:
                raise StoreReshardedError(
                    f"the store {specification.name!r} of {self._plan.place.shown!r} has {found} "
                    f"partitions, and had {self._plan.partitions} when the stateful function "
                    f"{self._plan.name!r} was made: it has been resharded since; call stateful() "
                    "again, and start the query with the checkpoint that it has"
                )

    def _check_columns(self, number: int, columns: str) -> None:
        """Accept a micro-batch with *columns*, if these are what the function emits.

        Raises:
            StoreMismatchError: They are others.
        """
        declared = self._columns
        if columns != declared:
            raise StoreMismatchError(
                f"the micro-batch {number} of {self._plan.name!r} is committed and has "
                f"emitted {columns}, and the function emits {declared}; give functions "
                "names of their own, and change columns when the query has ended without an error"
            )

    def _check_sequence(self, last: int, batch: MicroBatch) -> None:
        """Accept a micro-batch that comes after the *last* one that the state has; -1 is none.

        Raises:
            StoreMismatchError: State and checkpoint are not of the same moment.
        """
        if batch.number > last and not (batch.is_in_sequence and batch.number != last + 1):
            return
        has = "none" if last < 0 else f"{last} as the last one"
        raise StoreMismatchError(
            f"the state of {self._plan.name!r} in {self._plan.place.shown!r} has {has} of the "
            f"query's micro-batches, and its checkpoint goes on with {batch.number}: one of them "
            "is an older copy or was replaced; put back the one that belongs to the other, or "
            "begin with a new checkpoint"
        )
