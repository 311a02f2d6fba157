"""Which tasks a process takes and gives up: a function of what it knows, without a vote.

Every instance has a share, by its place among those that are there; the shares add up to all tasks.
It takes tasks that nobody has until it has its share, and gives up what it has beyond. Nobody has
to agree: the lock of a task decides who has it, and a wrong belief costs an attempt.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What an instance does next."""

    release: tuple[str, ...] = ()
    """Tasks that it gives up, after a commit."""

    claim: tuple[str, ...] = ()
    """Tasks that it tries to take, in this order, ..."""

    most: int = 0
    """... until it has so many of them."""


def share_of(tasks: int, place: int, instances: int) -> int:
    """Return how many of *tasks* the instance at *place* has, from 0, of so many *instances*."""
    return tasks // instances + (place < tasks % instances)


def assign(
    tasks: Sequence[str],
    *,
    mine: Collection[str],
    elsewhere: Collection[str],
    place: int,
    instances: int,
    copies: Collection[str] = (),
    copies_elsewhere: Collection[str] = (),
) -> Assignment:
    """Return what the instance at *place* among *instances* does.

    Args:
        tasks: All tasks of the topology, in the order that all instances know.
        mine: Those that it has.
        elsewhere: Those that others say they have.
        place: How many instances are before it.
        instances: How many there are, this one included.
        copies: Tasks of which it has a standby, which it takes first.
        copies_elsewhere: Tasks of which another instance that wants more has one: it leaves them.
    """
    share = share_of(len(tasks), place, instances)
    own = {task for number, task in enumerate(tasks) if number % instances == place}
    kept = [task for task in tasks if task in mine]
    if len(kept) > share:
        kept.sort(key=lambda task: task not in own)  # stable: of the others, the last ones go
        return Assignment(release=tuple(kept[share:]))
    free = [
        task
        for task in tasks
        if task not in mine
        and task not in elsewhere
        and (task in copies or task not in copies_elsewhere)
    ]
    free.sort(key=lambda task: (task not in copies, task not in own))
    return Assignment(claim=tuple(free), most=share - len(kept))
