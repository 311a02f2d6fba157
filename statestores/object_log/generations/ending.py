"""How a log ends for good, and another one goes on: one entry, put if nothing is there (OBJ-46).

Whoever reshards sees the log at one moment, with no owner of any partition; makes the next log of
what was there; and puts the end where the next entry would come, if all is still as it was. **This
one put is the commit point.** An append needs a grant, and a grant and every write are entries: so
whatever anybody else does in between is found in front of the end, or comes second and is refused.

The next log is the same log in another place: it has its id, its root log goes on with a number
above that of the end, and its offsets lie above all that were there. So no grant, no id of a write,
and no offset that somebody has kept means something else there.
"""

from collections.abc import Mapping
from typing import TypeAlias

from statestores.errors import CommitConflictError, StoreLockedError
from statestores.object_log.catching_up import catch_up, log_ended
from statestores.object_log.checkpoint import Checkpoint, PartState
from statestores.object_log.documents import End
from statestores.object_log.names import Names, begun_at
from statestores.object_log.requests import Steps
from statestores.object_log.settling import Known, read_checkpoint, settle
from statestores.object_log.view import View
from statestores.spi.offsets import Position

_VOIDS = 1_000
"""How many voids of vacuums, and releases of partitions that nobody owned, may come before the end:
the next log's numbers begin behind them."""

_Content: TypeAlias = tuple[Mapping[int, tuple[int, int]], Mapping[str, int]]


def find_end(names: Names) -> Steps[End | None]:
    """Return where the log has ended; ``None`` if it goes on.

    Raises:
        ChangelogCorruptedError, UnsupportedFormatError, StorageError: It cannot be read.
    """
    view = yield from catch_up(names, (), ended=True)
    return view.ended


def check_unowned(names: Names, view: View) -> None:
    """Accept a log of which nobody owns a partition that *view* has.

    Raises:
        StoreLockedError: Somebody does.
    """
    owned = sorted(number for number, part in view.parts.items() if part.grant is not None)
    if owned:
        raise StoreLockedError(
            f"partition {owned[0]} of {names.shown(names.store)} has an owner; close its store, "
            "or, if its process has died, have nobody own it with "
            f"StateRoot.object_log({names.store!r}).release({owned[0]})"
        )


def end_behind(view: View, generation: str, *, partitions: int) -> End:
    """Return the end of the log of *view*, which has all partitions, with the next *generation*."""
    return End(
        generation=generation,
        before=len(view.parts),
        partitions=partitions,
        next=view.next + _VOIDS,
    )


def begin_next(
    names: Names, view: View, end: End, unique: str, *, begin: int, position: Position
) -> Steps[None]:
    """Make the log that goes on with what *view* has; it counts once *end* is there.

    *names* are those of the new log. Each of its partitions begins at the offset *begin*, which is
    above all that *view* has, and reflects *position*.

    Raises:
        CommitConflictError: There is a log of that name.
        CommitInDoubtError: The object store does not answer.
    """
    old = view.checkpoint
    first = end.next
    part = PartState(begin=begin, end=begin, position=position, closed_from=first)
    checkpoint = Checkpoint(
        id=unique,
        log=old.log,
        store_kind=old.store_kind,
        next=first,
        # What was staged for the log before lies elsewhere, and is of other partitions.
        void_before=first,
        writes_from=first,
        parts=dict.fromkeys(range(end.partitions), part),
        batches=view.batches,
        generation=names.generation,
        begun=first,
        former=(*old.former, old.generation),
    )
    if not (yield from settle(names, names.checkpoint, checkpoint.pack())):
        raise CommitConflictError(
            f"there is something at {names.shown(names.checkpoint)} already; reshard again"
        )


def end_log(names: Names, view: View, end: End) -> Steps[None]:
    """Have the log go on where *end* says, if it is as *view* has it, which has all partitions.

    A vacuum may have put a void since, and somebody may have released a partition without an owner;
    nothing else may have come.

    Raises:
        StoreLockedError: Somebody owns a partition.
        CommitConflictError: Somebody has written, or a vacuum has taken this for dead.
        StoreReshardedError: Somebody else has resharded the store. Of all of these, and nothing
            else, it is known that *end* never counts.
        CommitInDoubtError, StorageError: Nobody can tell: the log has ended, may end yet, or goes
            on; looking at it again finds out.
        ChangelogCorruptedError, UnsupportedFormatError: The log cannot be read.
    """
    content, partitions = content_of(view), tuple(view.parts)
    known_view: View | None = view
    while True:
        seen = yield from catch_up(names, partitions, known_view, ended=True)
        if seen.ended is not None:
            if seen.ended == end:
                return
            raise log_ended(names)
        check_unowned(names, seen)
        if content_of(seen) != content:
            raise CommitConflictError(
                f"somebody has written to {names.shown(names.store)}, or has opened it, while it "
                "was resharded; nothing has changed; reshard it again while nobody writes"
            )
        if begun_at(end.generation) < seen.void_before:
            raise CommitConflictError(
                f"a vacuum has taken the reshard of {names.shown(names.store)} for dead; nothing "
                "has changed; reshard it again, and vacuum less soon"
            )
        number = seen.next
        if number >= end.next:
            raise CommitConflictError(
                f"{names.shown(names.store)} was vacuumed too often while it was resharded; "
                "nothing has changed; reshard it again"
            )
        mine = yield from settle(names, names.root(number), end.pack())
        known = yield from read_checkpoint(names, Known(seen.checkpoint, seen.tag))
        passed = number < known.checkpoint.next
        if mine and not passed:
            return
        # What was found below the floor is nothing: no end is ever folded.
        known_view = None if passed else seen


def content_of(view: View) -> _Content:
    """Return what tells that nothing was appended, taken or applied between two views."""
    parts = {
        number: (part.end, max((grant for grant, _ in part.closed), default=-1))
        for number, part in view.parts.items()
    }
    return parts, view.batches
