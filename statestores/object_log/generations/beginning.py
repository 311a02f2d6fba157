"""The log of a store that is a copy of another one, made of snapshots: nothing was there before it.

It lies under an id of the attempt, as the log that a reshard in place makes, and counts once the
state root names that id. What others have begun for the same store never counts from then on.
"""

from collections.abc import Mapping

from statestores.errors import CommitConflictError
from statestores.object_log.checkpoint import Checkpoint, PartState
from statestores.object_log.names import Names, begun_at
from statestores.object_log.requests import Steps
from statestores.object_log.settling import settle
from statestores.spi.offsets import Position


def begin_copy(
    names: Names,
    log: str,
    *,
    store_kind: str,
    partitions: int,
    begin: int,
    position: Position,
    batches: Mapping[str, int],
) -> Steps[None]:
    """Make the log *names*, with the id *log*, whose *partitions* begin at the offset *begin*.

    Each of them has a snapshot right before it, and reflects *position*; the store has *batches*.

    Raises:
        CommitConflictError: There is a log of that name.
        CommitInDoubtError: The object store does not answer.
    """
    first = begun_at(names.generation) + 1
    part = PartState(begin=begin, end=begin, position=position, closed_from=first)
    checkpoint = Checkpoint(
        id=log,
        log=log,
        store_kind=store_kind,
        next=first,
        void_before=first,
        writes_from=first,
        parts=dict.fromkeys(range(partitions), part),
        batches=dict(batches),
        generation=names.generation,
        begun=first,
        former=(),
    )
    if not (yield from settle(names, names.checkpoint, checkpoint.pack())):
        raise CommitConflictError(
            f"there is something at {names.shown(names.checkpoint)} already; reshard again"
        )
