"""What is removed of logs that have ended, and of reshards that have died (OBJ-48).

Of a log that has ended stay its end, a checkpoint up to there, and the seals of its owners: they
keep out whoever has slept since (OBJ-35). What a reshard has put that is not committed is removed
once no end can name it: because the log that it would end has another one, or because an entry has
voided it, as what a write has staged (OBJ-16). The rows that it has moved are scratch: nobody needs
them once its log counts, or has ended, whoever put them and how late (OBJ-50).
"""

from collections.abc import Iterable
from dataclasses import replace

from statestores.object_log.catching_up import catch_up
from statestores.object_log.checkpoint import Checkpoint
from statestores.object_log.folding import replace_checkpoint, with_writes, without_content
from statestores.object_log.names import Names, begun_at
from statestores.object_log.requests import Delete, ListNames, Steps
from statestores.object_log.vacuum import passed_entries


def retire(names: Names, unique: str) -> Steps[int | None]:
    """Remove what a log that has ended holds; return how many objects.

    ``None`` says that it goes on, or that somebody has folded it meanwhile, and nothing is removed.
    Whoever reads it still is told that the store has been resharded.

    Raises:
        ChangelogCorruptedError, UnsupportedFormatError, StorageError: It cannot be read.
        CommitInDoubtError: The object store does not answer. Trying again is harmless.
    """
    view = yield from catch_up(names, (), ended=True)
    if view.ended is None:
        return None
    checkpoint, partitions = view.checkpoint, range(view.ended.before)
    if checkpoint.next != view.next or any(part.end for part in checkpoint.parts.values()):
        view = yield from catch_up(names, partitions, ended=True)
        parts = {number: without_content(part) for number, part in view.parts.items()}
        checkpoint = with_writes(view.checkpoint, view, unique, parts)
        if not (yield from replace_checkpoint(names, checkpoint, view.tag)):
            return None
    gone: list[str] = []
    for prefix in (names.segments, names.staged, names.all_snapshots):
        gone += yield ListNames(prefix)
    gone += yield from passed_entries(names, checkpoint)
    for name in gone:
        yield Delete(name)
    return len(gone)


def remove_dead(names: Names, listed: Iterable[str]) -> Steps[int]:
    """Remove what reshards have put that nobody needs any more; return how many objects.

    That is all of those that never count, and the rows that the others have moved. *listed* are
    names below `Names.generations`, and *names* those of the log that counts.

    Raises:
        StoreReshardedError: It has ended since.
        ChangelogCorruptedError, UnsupportedFormatError, StorageError: It cannot be read.
    """
    listed = list(listed)
    if not listed:
        return 0
    view = yield from catch_up(names, ())
    checkpoint = view.checkpoint
    gone = [
        name
        for name in listed
        if is_moved(checkpoint, names, name)
        or never_counts(checkpoint, view.void_before, names.generation_of(name))
    ]
    for name in gone:
        yield Delete(name)
    return len(gone)


def is_moved(checkpoint: Checkpoint, names: Names, name: str) -> bool:
    """Return whether *name* is of rows that a reshard has moved which counts, or did."""
    generation = names.generation_of(name)
    made = generation == checkpoint.generation or generation in checkpoint.former
    return made and name.startswith(replace(names, generation=generation).scratch)


def never_counts(checkpoint: Checkpoint, void_before: int, generation: str) -> bool:
    """Return whether no end will name *generation*, seen from the log that counts.

    Those that are no ids of ours are left alone.
    """
    if generation == checkpoint.generation or generation in checkpoint.former:
        return False
    begun = begun_at(generation)
    # A reshard that began before this log did would have ended one that has another end.
    return 0 <= begun < max(checkpoint.begun, void_before)
