"""Reading a log to its end: from a checkpoint, or on from where one was (OBJ-8, OBJ-9).

Nothing is found by listing: entries have consecutive numbers, and the end is the first name that
is not there. What was read counts only if the checkpoint, read afterwards, has not passed it
(OBJ-7): before that, a missing or a strange object is neither the end nor damage.
"""

from collections.abc import Iterable

from statestores.errors import ChangelogCorruptedError, StoreReshardedError
from statestores.object_log.checkpoint import Checkpoint
from statestores.object_log.documents import (
    End,
    RootEntry,
    Take,
    Void,
    Write,
    is_seal,
    unpack_root_entry,
)
from statestores.object_log.frames import damaged, read_entry
from statestores.object_log.names import Names
from statestores.object_log.requests import Read, ReadMany, Steps
from statestores.object_log.settling import Known, read_checkpoint
from statestores.object_log.view import PartView, View
from statestores.storage import Found
from statestores.text.advice import OPEN_ROOT_AGAIN

_MOST_AT_ONCE = 64
_BYTES_AT_ONCE = 16 * 1024 * 1024

Touched = dict[int, tuple[int, int]]
"""The first grant and number, by partition, from which owners' entries were looked for."""


def catch_up(
    names: Names,
    wanted: Iterable[int],
    view: View | None = None,
    *,
    tails: bool = False,
    ended: bool = False,
) -> Steps[View]:
    """Return a view of the partitions *wanted* up to the end of the root log.

    It goes on from *view*, or begins at the checkpoint. With *tails* it has what owners have
    appended so far as well; each partition is then a prefix, and nothing a writer was told before
    this began is missing. A log that has ended is refused, unless *ended* allows it.

    Raises:
        StoreReshardedError: It has ended; whatever was asked of it, nothing more ever counts there.
        ChangelogCorruptedError: Something that counts is damaged or gone.
        UnsupportedFormatError: Something is of a later release.
        StorageError: Something cannot be read.
    """
    wanted = tuple(wanted)
    while True:
        if view is None:
            known = yield from read_checkpoint(names)
            view = View.at(known.checkpoint, known.tag, wanted)
        else:
            view = view.copy()
        first, touched = view.next, Touched()
        damage: ChangelogCorruptedError | None = None
        try:
            yield from _read_root(names, view, touched)
            if tails:
                for number, part in view.parts.items():
                    yield from read_tail(names, view, part, number, touched)
        except ChangelogCorruptedError as error:
            damage = error
        if not (yield from is_passed(names, view, first, touched)):
            if damage is not None:
                raise damage
            if view.ended is not None and not ended:
                raise log_ended(names)
            return view
        view = None


def log_ended(names: Names) -> StoreReshardedError:
    """Return the error for a log that has ended, for whoever has opened its store before."""
    return StoreReshardedError(
        f"the store {names.store!r} of {names.url!r} has been resharded since this was opened: its "
        f"partitions are others, with changelogs that begin at a snapshot; {OPEN_ROOT_AGAIN}"
    )


def is_passed(names: Names, view: View, first: int | None, touched: Touched) -> Steps[bool]:
    """Return whether the checkpoint has passed what was read: entry *first*, or what was *touched*.

    Then it may be nothing (OBJ-7).
    """
    now = yield from read_checkpoint(names, Known(view.checkpoint, view.tag))
    return has_passed(now.checkpoint, first, touched)


def has_passed(checkpoint: Checkpoint, first: int | None, touched: Touched) -> bool:
    """Return whether a name from *first* on, or one that was *touched*, is below the floor."""
    if first is not None and first < checkpoint.next:
        return True
    return any(at < checkpoint.floor(number) for number, at in touched.items())


def read_tail(
    names: Names, view: View, part: PartView, number: int, touched: Touched
) -> Steps[bool]:
    """Have *part* take what its owner has appended; return whether a seal is where that ends."""
    grant = part.grant
    if grant is None:
        return False
    touched.setdefault(number, (grant, part.number))
    at_once = 1
    while True:
        ahead = [names.own(number, grant, part.number + i) for i in range(at_once)]
        answers: list[Found | None] = yield ReadMany(ahead)
        for found in answers:
            if found is None:
                return False
            if is_seal(found.data):
                return True
            _take_own(names, view, part, number, grant, found)
        at_once = _next_window(at_once, answers)


def _read_root(names: Names, view: View, touched: Touched) -> Steps[None]:
    """Read the root log to its end."""
    at_once = 1
    while True:
        ahead = [names.root(view.next + i) for i in range(at_once)]
        answers: list[Found | None] = yield ReadMany(ahead)
        for found in answers:
            if found is None:
                return
            shown = names.shown(names.root(view.next))
            yield from _apply(names, view, unpack_root_entry(found.data, shown), touched)
            if view.ended is not None:
                return
        at_once = _next_window(at_once, answers)


def _next_window(at_once: int, answers: list[Found | None]) -> int:
    """Return how many objects to read at the same time after *at_once* brought *answers*."""
    size = sum(len(found.data) for found in answers if found is not None)
    if size > _BYTES_AT_ONCE:
        return max(1, at_once // 2)
    return min(2 * at_once, _MOST_AT_ONCE)


def _apply(names: Names, view: View, entry: RootEntry, touched: Touched) -> Steps[None]:
    """Have *view* take the next *entry* of the root log."""
    number = view.next
    match entry:
        case Void():
            view.void_before = max(view.void_before, entry.before)
        case Take():
            part = view.parts.get(entry.partition)
            if part is not None:
                yield from _end_grant(names, view, part, entry, touched)
                part.grant = number if entry.hold else None
                part.owner, part.number = entry.id if entry.hold else None, 0
        case Write():
            view.take_write(entry)
            for p in entry.parts.keys() & view.parts.keys():
                yield from _take_share(names, view, p, entry)
        case End():
            view.ended = entry
            return
    view.next = number + 1


def _end_grant(
    names: Names, view: View, part: PartView, entry: Take, touched: Touched
) -> Steps[None]:
    """Have *part* take what its last owner has appended, and note that the grant is over."""
    closed, p = entry.closed, entry.partition
    grant = None if closed is None else closed.grant
    if part.grant != grant:
        raise damaged(
            names.shown(names.root(view.next)),
            f"it ends the grant {grant} of partition {p}, and {part.grant} is open",
        )
    if closed is None:
        return
    touched.setdefault(p, (closed.grant, part.number))
    while part.number < closed.count:
        stop = min(closed.count, part.number + _MOST_AT_ONCE)
        wanted = [names.own(p, closed.grant, i) for i in range(part.number, stop)]
        for name, found in zip(wanted, (yield ReadMany(wanted)), strict=True):
            if found is None or is_seal(found.data):
                raise damaged(names.shown(name), "it counts, and is not there")
            _take_own(names, view, part, p, closed.grant, found)
    if part.number != closed.count or part.end != closed.end:
        raise damaged(
            names.shown(names.root(view.next)),
            f"it ends partition {p} after {closed.count} entries at offset {closed.end}, and "
            f"{part.number} up to {part.end} are there",
        )
    part.closed.append((closed.grant, closed.count))


def _take_own(
    names: Names, view: View, part: PartView, number: int, grant: int, found: Found
) -> None:
    """Have *part* take the next entry of its owner."""
    name = names.own(number, grant, part.number)
    stored = read_entry(found.data, names.shown(name))
    if stored.header.base_offset != part.end:
        raise damaged(
            names.shown(name),
            f"it begins at offset {stored.header.base_offset}, and {part.end} comes next",
        )
    view.take_entry(part, name, part.end, stored, found.data)
    part.number += 1


def _take_share(names: Names, view: View, number: int, entry: Write) -> Steps[None]:
    """Have partition *number* take what the write *entry* has staged for it."""
    part, share = view.parts[number], entry.parts[number]
    if share.staged:
        if share.base != part.end:
            raise damaged(
                names.shown(names.root(view.next)),
                f"it begins at offset {share.base} of partition {number}, and {part.end} comes "
                "next",
            )
        part.take_staged(names, number, share, entry.at_ms)
        return
    name = names.data(entry.id, number)
    found: Found | None = yield Read(name)
    if found is None:
        raise damaged(names.shown(name), "it counts, and is not there")
    stored = read_entry(found.data, names.shown(name))
    if share.base != part.end or stored.header.num_changes != share.changes or stored.clears:
        raise damaged(
            names.shown(name),
            f"it counts as {share.changes} changes from {share.base} on, and has "
            f"{stored.header.num_changes} where {part.end} comes next",
        )
    view.take_entry(part, name, share.base, stored, found.data)
