"""Vacuum: removes what crashes and late puts have left (OBJ-15, OBJ-16).

No clock says who is dead. What may be deleted follows from order alone:

* a name below the floor of a checkpoint that was read is nothing, but for the seals of grants: they
  are what keeps a late owner out, and stay for ever;
* a segment that was *listed before* a replacement of the checkpoint, and that the replacement does
  not name, never counts: whoever put it fails to replace the checkpoint it was made for;
* what was staged never counts once an entry of the root log has voided its write; what an operator
  has staged never does once the store has a batch of it that follows the one before (OBJ-45).
"""

from dataclasses import replace

from statestores.object_log.catching_up import catch_up
from statestores.object_log.checkpoint import Checkpoint
from statestores.object_log.folding import replace_checkpoint
from statestores.object_log.names import (
    Names,
    begun_at,
    numbers_in,
    operator_of,
    operator_stream,
)
from statestores.object_log.requests import Delete, ListNames, Steps
from statestores.object_log.settling import read_checkpoint
from statestores.object_log.writes import void_writes

_OWN_NUMBERS = 3
"""Partition, grant and number."""


def vacuum(names: Names, unique: str, *, void_before: int | None = None) -> Steps[int | None]:
    """Delete what can never count; return how many objects, or ``None`` if somebody folded.

    With *void_before*, writes that began before that entry of the root log and are not committed
    are voided, and what they have staged is deleted.

    Raises:
        ChangelogCorruptedError, UnsupportedFormatError, StorageError: The log cannot be read.
        CommitInDoubtError: The object store does not answer. Trying again is harmless.
    """
    listed: list[str] = yield ListNames(names.segments)
    staged: list[str] = yield ListNames(names.staged)
    known = yield from read_checkpoint(names)
    checkpoint = replace(known.checkpoint, id=unique)
    if not (yield from replace_checkpoint(names, checkpoint, known.tag)):
        return None
    named = {each.name for part in checkpoint.parts.values() for each in part.segments}
    gone = [name for name in listed if name not in named]
    gone += yield from passed_entries(names, checkpoint)
    if void_before is not None:
        gone += yield from _never_to_count(names, unique, void_before, staged)
    gone += yield from _behind_their_operator(names, staged)
    for name in gone:
        yield Delete(name)
    return len(gone)


def passed_entries(names: Names, checkpoint: Checkpoint) -> Steps[list[str]]:
    """Return the entries below the floors of *checkpoint*, of the root log and of owners' logs."""
    gone = []
    for name in (yield ListNames(names.roots)):
        numbers = numbers_in(name, names.roots)
        if numbers is not None and len(numbers) == 1 and numbers[0] < checkpoint.next:
            gone.append(name)
    return gone + _passed(names, checkpoint, (yield ListNames(names.owned)))


def _passed(names: Names, checkpoint: Checkpoint, owned: list[str]) -> list[str]:
    """Return which of the objects *owned* by grants are below the floor, and no seals (OBJ-35).

    The seal of a grant that is over is the last of its names: its owner never gets beyond.
    """
    found = [
        (numbers, name)
        for name in owned
        if (numbers := numbers_in(name, names.owned)) is not None and len(numbers) == _OWN_NUMBERS
    ]
    last: dict[tuple[int, int], int] = {}
    for (partition, grant, number), _ in found:
        last[partition, grant] = max(number, last.get((partition, grant), number))
    return [
        name
        for (partition, grant, number), name in found
        if (grant, number) < checkpoint.floor(partition)
        and not is_sealed_by(checkpoint, partition, grant, number == last[partition, grant])
    ]


def is_sealed_by(checkpoint: Checkpoint, partition: int, grant: int, is_last: bool) -> bool:  # noqa: FBT001  # one of two facts
    """Return whether a name of *grant*, the last one or not, is the seal with which it ended."""
    return is_last and checkpoint.part(partition).grant != grant


def _behind_their_operator(names: Names, staged: list[str]) -> Steps[list[str]]:
    """Return which of the objects *staged* by operators belong to micro-batches that are over.

    One that began when its operator had fewer records than the store's last batch says was that
    very batch, or is beaten by it. So what no entry names now is folded, or never counts.
    """
    found = {
        name: whose for name in staged if (whose := operator_of(names.staged_by(name))) is not None
    }
    if not found:
        return []
    view = yield from catch_up(names, ())
    return [
        name
        for name, (operator, begun) in found.items()
        if begun <= view.batches.get(operator_stream(operator), -1)
        and names.staged_by(name) not in view.counting
    ]


def _never_to_count(
    names: Names, unique: str, void_before: int, staged: list[str]
) -> Steps[list[str]]:
    """Return which of the objects *staged* belong to writes that are voided, or folded."""
    before = yield from void_writes(names, unique, void_before)
    if before is None:
        return []  # the next vacuum does it
    view = yield from catch_up(names, ())
    # What counts and is not folded is named by an entry that the checkpoint has not passed.
    return [
        name
        for name in staged
        if 0 <= begun_at(write := names.staged_by(name)) < before and write not in view.counting
    ]
