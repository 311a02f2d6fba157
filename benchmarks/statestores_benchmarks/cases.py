"""What is measured: groups of cases that do the same work in different ways."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

PROCESS_CRASH = "each side hands its writes to the operating system, without fsync"
"""The durability of most groups: a killed process loses nothing, a power failure may."""


FLOOR_FACTOR = 1.15
"""What is allowed above a floor, the same calls of the driver in a bare loop, where no design could
reach the bound that a target had first."""

STEADY_ROUNDS = 9
"""The fewest rounds of groups whose targets lie near to what is reached. Of three rounds the same
rows were at 3.61 and 5.68 in two runs, and medians differ by more than most targets are missed by
(docs/decisions/0190-a-floor-does-what-the-contract-asks.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """How long the work of a round took where it was done, in seconds."""

    thread_s: float
    """The time of its thread on a processor."""

    process_s: float
    """The time of every thread of its process on a processor."""

    wall_s: float
    """Elapsed time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a round shows besides its time. A round that returns anything else shows nothing."""

    answer: Callable[[], object] | None = None
    """The result, asked for after the time was taken; cases of a group that have one must agree, or
    the run fails."""

    quantities: Mapping[str, float] = field(default_factory=dict)
    """What the round counted or weighed, by name; the unit is in the name."""

    times: Times | None = None
    """Its times, of work that another process has done and measured."""


Timed = Callable[[], object]
"""The work of one round: exactly what is measured. It may return an `Outcome`."""

Prepare = Callable[[Path], AbstractContextManager[Timed]]
"""Makes the work of one round in a fresh directory, and cleans up afterwards; not measured."""


class Metric(Enum):
    """What a ratio compares."""

    CPU = "CPU"
    """Time of the calling thread on a processor: hardly affected by neighbours and the disk, but
    blind to the engines' background threads."""

    PROCESS = "process CPU"
    """Time of every thread of the process on a processor: for work that threads share."""

    WALL = "wall"
    """Elapsed time: for work that the disk or another process does."""


class Figure(Enum):
    """What a target is about."""

    RATIO = "ratio"
    """The group's metric, as a multiple of the base's."""

    SPEED_UP = "speed-up"
    """The base's metric, as a multiple of the case's own: how many times faster it is."""

    RATE = "rate"
    """Operations a second, elapsed."""

    LATENCY = "latency"
    """The group's metric, in microseconds an operation."""

    MILLISECONDS = "milliseconds"
    """Elapsed milliseconds an operation."""

    SECONDS = "seconds"
    """Elapsed seconds a round."""

    QUANTITY = "quantity"
    """A quantity that the rounds return, see `Outcome`."""


@dataclass(frozen=True, slots=True)
class Case:
    """One way to do the work."""

    name: str
    """What does the work, in a few words."""

    prepare: Prepare
    """How a round of it is prepared."""

    series: str | None = field(default=None, kw_only=True)
    """In a sweep, the line of the plot on which the case is a point, if it is on one."""

    at: float | None = field(default=None, kw_only=True)
    """In a sweep, the case's place on the horizontal axis."""

    operations: int | None = field(default=None, kw_only=True)
    """How many operations a round of it is, if that differs within the group."""

    contender: str | None = field(default=None, kw_only=True)
    """Its column in the table of contenders."""

    needs: Sequence[str] = field(default=(), kw_only=True)
    """Modules without which there is no such case. If one cannot be imported, the report says that
    the case is absent, and why. The first case of a group needs none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A bound that a case must keep: exactly one of `at_most` and `at_least`."""

    case: str
    """The case's name."""

    at_most: float | None = None
    """The bound from above."""

    at_least: float | None = None
    """The bound from below."""

    figure: Figure = Figure.RATIO
    """What the bound is for."""

    base: str | None = None
    """The case that a ratio or a speed-up is relative to; ``None`` is the group's first."""

    quantity: str | None = None
    """The name of the quantity, for `Figure.QUANTITY`."""

    stretch: float | None = None
    """A harder bound, desired but not required."""

    row: str | None = None
    """What the table of targets calls it; ``None`` builds it from group and case."""

    floor: str | None = None
    """The case that no design can beat, whose own figure is shown beside what was reached."""

    unasked: str | None = None
    """Why nobody asks for the bound, in a few words that stand in place of a verdict: it was
    retired, say. Not keeping it is no miss."""

    def __post_init__(self) -> None:
        if (self.at_most is None) == (self.at_least is None):
            raise ValueError(f"the target of {self.case!r} needs either at_most or at_least")
        if (self.quantity is None) == (self.figure is Figure.QUANTITY):
            raise ValueError(f"the target of {self.case!r} needs a quantity's name to be for one")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The axes of a group whose cases differ in a number; the group becomes a plot."""

    label: str
    """What the number is, with its unit."""

    value: str
    """What the vertical axis shows, with its unit."""

    figure: Figure = Figure.RATE
    """Anything but what is relative to a base."""

    quantity: str | None = None
    """The name of the quantity, for `Figure.QUANTITY`."""

    logarithmic: bool = True
    """Whether the vertical axis is logarithmic; otherwise it begins at zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """A plot with a bar for each case."""

    value: str
    """What the horizontal axis shows, with its unit."""

    figure: Figure = Figure.SECONDS
    """Anything but what is relative to a base."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Cases that do the same work; the others are compared with the first one."""

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

    durability: str | None = PROCESS_CRASH
    """What a write survives, the same in every case; ``None`` where nothing is written."""

    sweep: Sweep | None = None
    """The axes of its plot, if it has one."""

    bars: Bars | None = None
    """A plot with a bar for each case, if it has one."""

    row: str | None = None
    """What the table of contenders calls the work: its row."""

    rounds: int | None = None
    """The most rounds, for work that takes long; ``None`` leaves it to the scale."""

    least_rounds: int = 1
    """The fewest rounds, as far as the scale has so many: for targets that lie nearer to what is
    reached than the medians of a few rounds lie to each other."""

    warm_up: bool = True
    """Whether an uncounted round comes first. Work of many seconds needs none."""

    around: Callable[[Path], AbstractContextManager[object]] = nullcontext
    """What all rounds share, such as a large store: entered once, with a directory of its own,
    before the first round, and left after the last. Not measured."""

    def __post_init__(self) -> None:
        names = [case.name for case in self.cases]
        if len(set(names)) < len(names):
            raise ValueError(f"two cases of {self.name!r} have one name")
        if self.cases[0].needs:
            raise ValueError(f"the first case of {self.name!r} must not need anything")
        for target in self.targets:
            for name in (target.case, target.base or target.case, target.floor or target.case):
                if name not in names:
                    raise ValueError(f"{self.name!r} has a target for {name!r}, but no such case")


@dataclass(frozen=True, slots=True)
class Scale:
    """How much work a run does."""

    name: str
    """``tiny``, ``quick`` or ``full``."""

    rounds: int
    """The fewest rounds of each case, interleaved."""

    factor: float
    """Rows, as a fraction of the published number."""

    most_rounds: int
    """The most rounds: there are more than `rounds` as long as a group keeps within its budget."""

    budget_s: float
    """Seconds that a group may take before it stops at `rounds`."""

    least_rows: int = 1_000
    """The fewest rows that a case works on."""

    warm_up: bool = True
    """Whether an uncounted round comes first, if the group wants one."""

    def rows(self, published: int) -> int:
        """Return how many rows a case works on, of a *published* number."""
        return max(self.least_rows, int(published * self.factor))

    def large_rows(self, published: int, *, quick: int) -> int:
        """Return the rows of work whose figure means something only at scale.

        A quick run does it with *quick* of them, a full one with the *published* number.
        """
        if self.factor >= 1:
            return published
        return self.rows(published) if self is TINY else quick


Workload = Callable[[Scale], Iterator[Group]]
"""A module's groups."""

TINY = Scale(
    "tiny", rounds=1, factor=0.0005, most_rounds=1, budget_s=0, least_rows=50, warm_up=False
)
QUICK = Scale("quick", rounds=3, factor=0.3, most_rounds=9, budget_s=6)
FULL = Scale("full", rounds=7, factor=1.0, most_rounds=15, budget_s=40)
SCALES = {scale.name: scale for scale in (TINY, QUICK, FULL)}
