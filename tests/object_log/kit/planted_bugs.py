"""Rules of the protocol left out, one at a time: each is a mistake that somebody has made."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from statestores.object_log import catching_up, checkpoint, folding, owners, pieces, vacuum, writes
from statestores.object_log.documents import Write
from statestores.object_log.frames import StoredEntry, rebased
from statestores.object_log.names import Names
from statestores.object_log.requests import Create, Delete, ListNames, Read, Replace, Steps
from statestores.object_log.settling import Known, read_checkpoint
from statestores.object_log.view import View
from statestores.storage import Outcome


class PlantedBug(NamedTuple):
    """One of them."""

    story: str
    """What it is."""

    places: tuple[tuple[Any, str, Any], ...]
    """What is put in whose place."""

    first: int = 0
    """The first schedule to look at: one in hundreds notices the rarest of them."""

    def plant(self, patch: pytest.MonkeyPatch) -> None:
        """Break the protocol until *patch* is undone."""
        for where, name, value in self.places:
            patch.setattr(where, name, value)


def _stale(names: Names, known: Known | None = None) -> Steps[Known]:
    if known is not None:
        return known
    return (yield from read_checkpoint(names))


def _never_passed(names: Names, view: Any, first: int | None, touched: Any) -> Steps[bool]:
    yield from ()
    return False


def _trust_errors(names: Names, name: str, data: bytes, **_: object) -> Steps[bool]:
    return (yield Create(name, data)) is Outcome.DONE


def _trust_refusals(names: Names, name: str, data: bytes) -> Steps[bool]:
    while True:
        if (yield Create(name, data)) is not Outcome.UNKNOWN:
            return True
        if (yield Read(name)) is not None:
            return True


def _no_seal(names: Names, view: Any, partition: int, unique: str) -> Steps[bool]:
    part = view.parts[partition]
    touched: dict[int, tuple[int, int]] = {}
    yield from catching_up.read_tail(names, view, part, partition, touched)
    return not (yield from catching_up.is_passed(names, view, None, touched))


def _delete_first(names: Names, new: checkpoint.Checkpoint, tag: str) -> Steps[bool]:
    known = yield from read_checkpoint(names)
    for number in range(known.checkpoint.next, new.next):
        yield Delete(names.root(number))
    return (yield from _replace(names, new, tag))


_replace = folding.replace_checkpoint


def _replace_again(names: Names, new: checkpoint.Checkpoint, tag: str) -> Steps[bool]:
    while not (yield from _replace(names, new, tag)):
        known = yield from read_checkpoint(names)
        tag = known.tag
        parts = dict(known.checkpoint.parts)
        for number, part in new.parts.items():
            kept = replace(parts.get(number, part), segments=part.segments)
            if parts.get(number, part).end != part.end:
                return False
            parts[number] = kept
        new = replace(known.checkpoint, id=new.id, parts=parts)
    return True


def _list_after(names: Names, unique: str, *, void_before: int | None = None) -> Steps[int | None]:
    known = yield from read_checkpoint(names)
    new = replace(known.checkpoint, id=unique)
    if (yield Replace(names.checkpoint, new.pack(), known.tag)) is not Outcome.DONE:
        return None
    named = {each.name for part in new.parts.values() for each in part.segments}
    for name in (yield ListNames(names.segments)):
        if name not in named:
            yield Delete(name)
    return 0


def _never_counted(*_: object) -> bool:
    return False


def _whatever_is_there(names: Names, entry: Any) -> Steps[bytes | None]:
    found = yield Read(entry.name)
    return None if found is None else rebased(found.data, entry.base)


def _clears_nothing(stored: StoredEntry, position: Any) -> Any:
    return position.merge(stored.position)


def _void_nothing(names: Names, unique: str, before: int) -> Steps[int | None]:
    view = yield from catching_up.catch_up(names, ())
    return min(before, view.next)


def _forgets_staged(view: View, entry: Write) -> None:
    _take_write(view, replace(entry, parts={}))


_take_write = View.take_write


def _never_applied(commit: writes.Commit, view: Any) -> bool:
    return False


def _no_seals(*_: object) -> bool:
    return False


def _bug(story: str, *places: tuple[Any, str, Callable[..., Any]]) -> PlantedBug:
    return PlantedBug(story, places)


BUGS = {
    "writer-does-not-look-again": _bug(
        "a writer acknowledges without looking at the checkpoint again",
        (owners, "read_checkpoint", _stale),
        (writes, "read_checkpoint", _stale),
    ),
    "reader-does-not-look-again": _bug(
        "a reader believes names below the floor", (catching_up, "is_passed", _never_passed)
    ),
    "error-believed": _bug(
        "a put that reported a failure is taken to have failed",
        (owners, "settle", _trust_errors),
        (writes, "settle", _trust_errors),
    ),
    "refusal-believed": _bug(
        "'already exists' is believed without reading: clients say it of a conflict too",
        (writes, "settle", _trust_refusals),
    ),
    "no-seal": _bug("a new owner does not fence the old one", (owners, "_seal", _no_seal)),
    "deletes-first": _bug(
        "folding deletes before the checkpoint is replaced",
        (folding, "replace_checkpoint", _delete_first),
    ),
    "lists-after": _bug(
        "vacuum lists segments after it has replaced the checkpoint",
        (vacuum, "vacuum", _list_after),
    ),
    "replaces-again": _bug(
        "segments are published again by whoever came second, and were listed by a vacuum",
        (folding, "replace_checkpoint", _replace_again),
    ),
    "floor-means-failed": _bug(
        "an append below the floor is taken to have failed",
        (checkpoint.Checkpoint, "has_counted", _never_counted),
    )._replace(first=200),
    "name-means-content": _bug(
        "what is found under a name later is taken for what counted there",
        (pieces, "frame_of", _whatever_is_there),
    )._replace(first=250),
    "clears-nothing": _bug(
        "a clear does not begin the position anew", (StoredEntry, "after", _clears_nothing)
    ),
    "seals-deleted": _bug(
        "vacuum deletes the seals of grants that are over",
        (vacuum, "is_sealed_by", _no_seals),
    ),
    "batch-again": _bug(
        "a batch of a stream that comes again is not looked up",
        (writes.Commit, "is_applied", _never_applied),
    ),
    "staged-forgotten": _bug(
        "vacuum knows the ids of writes, and not those under which their tasks have staged",
        (View, "take_write", _forgets_staged),
    ),
    "voids-nothing": _bug(
        "staged changes are deleted, and their write is not voided",
        (vacuum, "void_writes", _void_nothing),
    ),
}
