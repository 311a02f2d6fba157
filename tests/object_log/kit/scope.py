"""How much happens in a schedule of failures."""

from typing import NamedTuple


class Scope(NamedTuple):
    """How many actors of each kind there are, and how much each of them does."""

    is_brief: bool = False
    """Whether the dice say which actors take part, and the others do not."""

    partitions: tuple[int, ...] = (0, 1, 2)
    """The partitions of each store."""

    writes: int = 3
    """Writes of a writer, and batches of a streamer."""

    grants: int = 2
    """How often an owner takes a partition over."""

    appends: int = 5
    """How much an owner appends to one, at most."""

    reads: int = 5
    """How often a reader reads."""

    folds: int = 4
    """How often a folder folds."""

    lives: int = 6
    """How often a driver begins anew."""

    micro_batches: int = 3
    """How many it runs in one life."""

    tasks: int = 3
    """How often a process opens a task."""

    commits: int = 4
    """How often it commits then, at most."""

    openings: int = 4
    """How often whoever is told of a reshard opens the store anew, the first time included."""

    sleeps: tuple[float, tuple[int, ...]] = (0.04, (5, 40, 150, 400))
    """How probably an actor falls asleep at a step, and for how many."""


WHOLE = Scope()
"""Everybody, with all that they do: the schedules of a soak."""

BRIEF = Scope(
    is_brief=True,
    partitions=(0, 1),
    writes=2,
    grants=2,
    appends=3,
    reads=2,
    folds=4,
    lives=2,
    micro_batches=2,
    tasks=2,
    commits=3,
    openings=3,
    sleeps=(0.06, (5, 20, 60, 150)),
)
"""A part of them, with less: common mistakes are noticed in less time, rare ones hardly."""
