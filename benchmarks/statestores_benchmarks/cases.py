"""What is measured: groups of cases that do the same work in different ways."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

Timed = Callable[[], object]
"""The work of one round: what is measured, and nothing else."""

Prepare = Callable[[Path], AbstractContextManager[Timed]]
"""Makes the work of one round in a fresh directory, and cleans up behind it; not measured."""


class Metric(Enum):
    """What a ratio compares."""

    CPU = "CPU"
    """Time of the calling thread on a processor: hardly moved by neighbours and by the disk, but
    blind to the engines' background threads."""

    WALL = "wall"
    """Elapsed time: where other threads or the disk do the work."""


@dataclass(frozen=True, slots=True)
class Case:
    """One way to do the work."""

    name: str
    """What does it, in a few words."""

    prepare: Prepare
    """How a round of it is made ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A bound that a case has to keep, as a ratio to the first case of its group."""

    case: str
    """The case's name."""

    at_most: float
    """The bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Cases that do the same work; the first one is what the others are compared with."""

    name: str
    """A short name, for ``--only``."""

    title: str
    """The work, in a sentence."""

    operations: int
    """How many operations one round is: times are given for one of them."""

    cases: Sequence[Case]
    """The ways to do it."""

    metric: Metric = Metric.CPU
    """What the ratios compare."""

    targets: Sequence[Target] = ()
    """The bounds."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much work a run does."""

    name: str
    """``quick`` or ``full``."""

    rounds: int
    """Rounds of each case, interleaved."""

    factor: float
    """Rows, as a fraction of the published number."""

    def rows(self, published: int) -> int:
        """Return how many rows a case works on, of a *published* number."""
        return max(1_000, int(published * self.factor))


Workload = Callable[[Scale], Iterator[Group]]
"""A module's groups."""

QUICK = Scale("quick", rounds=3, factor=0.1)
FULL = Scale("full", rounds=7, factor=1.0)
