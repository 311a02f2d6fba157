"""What the commit that is read must have reached: a position (KIP-796), and a lag (KIP-535).

Both are judged on the very commit that is read, which is frozen for it. A lag is judged against the
end that the changelog had before that: so an answer lacks at most that many of the changes that
were there when the read began.
"""

from contextlib import ExitStack
from typing import Any, Protocol, TypeVar, runtime_checkable

from statestores.errors import (
    CapabilityNotSupportedError,
    InvalidArgumentError,
    NotUpToBoundError,
)
from statestores.query.position_bound import AtLeast, PositionBound
from statestores.semantics.every_kind.facade import EngineFacade
from statestores.spi.offsets import TopicPartition, offset_after
from statestores.spi.stores.store import ReadOnlyStore

S = TypeVar("S", bound=ReadOnlyStore)


@runtime_checkable
class ChangelogEnds(Protocol):
    """What a source of stores also has, so that lags can be judged."""

    def changelog_end(self, name: str, partition: int) -> tuple[TopicPartition, int]:
        """Return the changelog of *partition* of the store *name*, and where it ends now.

        The end is the offset that the next change will have.

        Raises:
            StateStoreError: It cannot be read.
        """


class CommitBound:
    """What each partition of a store must have reached, when it is read."""

    def __init__(
        self,
        source: object,
        name: str,
        partitions: int,
        at_least: AtLeast | None,
        max_lag: int | None,
    ) -> None:
        """Ask *at_least* and *max_lag* of the store *name* of *source*.

        Raises:
            InvalidTypeError: *at_least* is neither a position nor a mapping of such.
            InvalidArgumentError: The store has no such partition, or *max_lag* is no number from 0.
            CapabilityNotSupportedError: *source* does not know where changelogs end.
        """
        self._name = name
        self._positions = PositionBound(name, partitions, at_least)
        if max_lag is not None and (type(max_lag) is not int or max_lag < 0):
            raise InvalidArgumentError(f"max_lag must be an int from 0, or None, got {max_lag!r}")
        self._max_lag = max_lag
        self._ends: ChangelogEnds | None = None
        if max_lag is not None:
            if not isinstance(source, ChangelogEnds):
                raise CapabilityNotSupportedError(
                    f"{type(source).__name__} does not know where the changelog of {name!r} ends, "
                    "so no lag can be judged; read it without max_lag"
                )
            self._ends = source
        self.is_bounded = at_least is not None or max_lag is not None

    def as_read(self, number: int, inner: S, held: ExitStack) -> S:
        """Return partition *number*, *inner*, as a read sees it; *held* closes what that takes.

        Raises:
            NotUpToBoundError: It has not reached the bound.
            CapabilityNotSupportedError: It cannot be read at one commit.
        """
        wanted = self._positions.of(number)
        if wanted is None and self._ends is None:
            return inner
        end = None if self._ends is None else self._ends.changelog_end(self._name, number)
        facade: object = inner
        if not isinstance(facade, EngineFacade):
            raise CapabilityNotSupportedError(
                f"partition {number} of {self._name!r} is {type(facade).__name__}, which cannot be "
                "read at one commit, so no bound can be judged; read it without at_least and "
                "max_lag"
            )
        frozen, snapshot = facade.at_one_commit()
        held.enter_context(snapshot)
        if wanted is not None:
            self._positions.check(number, wanted, frozen.position)
        if end is not None:
            self._check_lag(number, frozen, *end)
        judged: Any = frozen  # of the same class as *inner*
        return judged  # type: ignore[no-any-return]

    def _check_lag(self, number: int, frozen: EngineFacade, log: TopicPartition, end: int) -> None:
        committed = frozen.committed_offset(log)
        lag = end - offset_after(committed)
        if self._max_lag is not None and lag > self._max_lag:
            raise NotUpToBoundError(
                f"partition {number} of {self._name!r} is {lag} changes behind here, and at most "
                f"{self._max_lag} were asked for; try again, or ask the active one"
            )
