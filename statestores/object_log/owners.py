"""Owners: taking a partition over, and appending to it without touching the root log.

A grant is the number of the entry that gave it. Whoever takes a partition first seals the log of
the owner before: a put-if-absent under the number that would come next. Either the seal is there,
and nothing the old owner does later counts; or the old owner's append is, and the seal goes behind
it. Nobody asks whether the old owner is alive, and no clock decides anything (OBJ-10, OBJ-11).
"""

from dataclasses import dataclass

from statestores.errors import (
    ChangelogCorruptedError,
    CommitInDoubtError,
    FencedError,
    StorageError,
)
from statestores.object_log.catching_up import Touched, catch_up, is_passed, read_tail
from statestores.object_log.documents import Closed, Take, pack_seal
from statestores.object_log.names import Names
from statestores.object_log.requests import Create, Steps
from statestores.object_log.settling import Known, read_checkpoint, settle
from statestores.object_log.view import View
from statestores.storage import Outcome

_SEALS = 64
"""Seals that are tried, each behind one more append of an owner that goes on."""


_LOOKS_AFTER = 64
"""Appends after which an owner looks at the checkpoint."""


@dataclass(slots=True)
class Grant:
    """The right to append to one partition, until somebody else takes it."""

    partition: int
    """The partition."""

    grant: int
    """The number of the entry that gave it."""

    number: int
    """The number of the next append."""

    known: Known
    """The last checkpoint that its owner has read."""


def take(
    names: Names, partition: int, unique: str, view: View | None = None, *, hold: bool = True
) -> Steps[tuple[Grant, View]]:
    """Take *partition* over under the *unique* id; return the grant, and the view it begins at.

    Whoever had it is fenced. Without *hold* that is all: nobody has it then. What is read goes on
    from *view*.

    Raises:
        FencedError: Somebody has taken it over while this was under way.
        CommitInDoubtError: The object store does not answer. Taking it again is harmless.
        ChangelogCorruptedError, UnsupportedFormatError, StorageError: It cannot be read.
    """
    taken = yield from _take(names, partition, unique, view, hold=hold)
    assert taken is not None  # noqa: S101  # only a grant that must be open says so
    return taken


def give_back(names: Names, grant: Grant, unique: str, view: View | None = None) -> Steps[bool]:
    """Have nobody own the partition of *grant*; return whether that grant was open still.

    Whoever has taken it over meanwhile keeps it.

    Raises:
        StateStoreError: As `take`; then the partition has an owner still, and nothing else changes.
    """
    try:
        taken = yield from _take(names, grant.partition, unique, view, hold=False, only=grant.grant)
    except FencedError:
        return False
    return taken is not None


def _take(
    names: Names,
    partition: int,
    unique: str,
    view: View | None,
    *,
    hold: bool,
    only: int | None = None,
) -> Steps[tuple[Grant, View] | None]:
    """Take *partition*, as `take` says; ``None`` if another grant than *only* is open."""
    while True:
        view = yield from catch_up(names, (partition,), view)
        part, closed = view.parts[partition], None
        if only is not None and part.grant != only:
            return None
        if part.grant is not None:
            if not (yield from _seal(names, view, partition, unique)):
                view = None
                continue
            closed = Closed(grant=part.grant, count=part.number, end=part.end)
        number = view.next
        entry = Take(id=unique, partition=partition, hold=hold, closed=closed)
        mine = yield from settle(names, names.root(number), entry.pack())
        known = yield from read_checkpoint(names, Known(view.checkpoint, view.tag))
        if number < known.checkpoint.next:
            now = known.checkpoint.part(partition)
            if now.owner != unique:
                if mine:  # it counted and is over, or never did
                    raise fenced(names, partition, "while it was being opened")
                view = None
                continue
            mine = True
        if mine:
            if closed is not None:
                part.closed.append((closed.grant, closed.count))
            view.next = number + 1
            part.grant, part.owner, part.number = number, unique, 0
            return Grant(partition, number, 0, known), view


def _seal(names: Names, view: View, partition: int, unique: str) -> Steps[bool]:
    """Have the last owner's log end with a seal, and *view* take what is before it.

    Returns ``False`` when the checkpoint has passed what was read.
    """
    part, touched = view.parts[partition], Touched()
    for _ in range(_SEALS):
        try:
            sealed = yield from read_tail(names, view, part, partition, touched)
        except ChangelogCorruptedError:
            if (yield from is_passed(names, view, None, touched)):
                return False
            raise
        if sealed:
            return not (yield from is_passed(names, view, None, touched))
        if part.grant is not None:
            # Whatever the answer: what is there is read, and only that counts.
            yield Create(names.own(partition, part.grant, part.number), pack_seal(unique))
    if (yield from is_passed(names, view, None, touched)):
        return False
    raise CommitInDoubtError(
        f"partition {partition} of {names.shown(names.store)} cannot be taken over: the object "
        "store does not answer, or its owner appends faster than this can follow; try again"
    )


def append(names: Names, grant: Grant, data: bytes) -> Steps[str]:
    """Append the frame *data*, which begins where the partition ends: one put, if it is answered.

    Returns its name. A put that was done counts: only a seal ends a grant, it stands under the
    number that this owner would use next, and it is never deleted (OBJ-35). Everything else is read
    back.

    Raises:
        FencedError: Somebody has taken the partition over; nothing was appended.
        CommitInDoubtError: Nobody can tell whether it was appended until the log is opened again.
        StorageError: The checkpoint cannot be read; the same is true.
    """
    partition, at = grant.partition, (grant.grant, grant.number)
    name = names.own(partition, *at)
    if (yield Create(name, data)) is Outcome.DONE:
        grant.number = at[1] + 1
        if grant.number % _LOOKS_AFTER == 0:
            yield from _look(names, grant)
        return name
    mine: bool | None = yield from settle(names, name, data, asked=True)
    known = yield from read_checkpoint(names, grant.known)
    if at < known.checkpoint.floor(partition):
        # What was found under the name may be nothing: the numbers of the grant say it (OBJ-5).
        mine = known.checkpoint.has_counted(partition, *at)
        if mine is None:
            raise CommitInDoubtError(
                f"nobody can tell any more whether entry {at[1]} of grant {at[0]} of partition "
                f"{partition} of {names.shown(names.store)} was written: it was taken over too "
                "often since; close the store and open it again"
            )
    if not mine:
        raise fenced(names, partition, "and nothing of this commit was written")
    grant.number = at[1] + 1
    return name


def _look(names: Names, grant: Grant) -> Steps[None]:
    """Learn what has been folded: an owner lives long, and need not remember all of it."""
    try:
        yield from read_checkpoint(names, grant.known)
    except StorageError:
        return  # nothing depends on it, and the next look is not far


def fenced(names: Names, partition: int, when: str) -> FencedError:
    """Return the error for an owner whose partition somebody else has."""
    return FencedError(
        f"another process has taken over partition {partition} of {names.shown(names.store)} "
        f"{when}; close this store, and open it again only where the partition should be: that "
        "takes it back"
    )
