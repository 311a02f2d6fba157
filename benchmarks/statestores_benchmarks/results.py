"""The results of a run: every round of every case, to a JSON file and back.

Reports and plots are made only from this, so that nobody copies a number by hand. A judgement is
not stored: it follows from the rounds and the bounds.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from statestores_benchmarks.cases import Bars, Figure, Group, Metric, Sweep, Target
from statestores_benchmarks.measurement import Measured

FORMAT = 1
"""The version of the file. Any other is refused."""

_MICROSECONDS = 1e6
_MILLISECOND = 1e3


class ResultsError(ValueError):
    """A file has no results that this program can read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One call of the program."""

    scale: str
    """The sizes."""

    seed: int
    """The seed of all data."""

    started: str
    """When, in ISO 8601, UTC."""

    seconds: float
    """How long it took."""

    load: float
    """How many processes wanted to run in the preceding minute, see `os.getloadavg`."""

    revision: str
    """The commit that was measured."""

    machine: dict[str, str]
    """What it ran on."""

    versions: dict[str, str]
    """Versions of packages by name."""

    failures: list[str] = field(default_factory=list)
    """What could not be measured because it raised, and what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """The rounds of one case, in microseconds an operation."""

    name: str
    """The case."""

    operations: int
    """How many operations a round of it is."""

    series: str | None = None
    """Its line in the plot."""

    at: float | None = None
    """Its place on the horizontal axis."""

    contender: str | None = None
    """Its column in the table of contenders."""

    absent: str | None = None
    """Why it was not measured."""

    cpu_us: list[float] = field(default_factory=list)
    """Time of the calling thread on a processor."""

    process_us: list[float] = field(default_factory=list)
    """Time of every thread of the process on a processor."""

    wall_us: list[float] = field(default_factory=list)
    """Elapsed time."""

    quantities: dict[str, list[float]] = field(default_factory=dict)
    """What else the rounds returned."""

    def times_us(self, metric: Metric) -> list[float]:
        """Return the rounds' times of *metric*."""
        return {
            Metric.CPU: self.cpu_us,
            Metric.PROCESS: self.process_us,
            Metric.WALL: self.wall_us,
        }[metric]


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure of every round."""

    median: float
    """The one to quote."""

    least: float
    """The least of the rounds."""

    most: float
    """The greatest of the rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupResult:
    """One group of cases, and its bounds."""

    workload: str
    """The module's name in the report."""

    name: str
    """The group's name."""

    title: str
    """The work, in a sentence."""

    operations: int
    """How many operations one round is."""

    metric: Metric
    """What ratios compare."""

    durability: str | None
    """What a write survives, in every case."""

    sweep: Sweep | None
    """The axes of its plot."""

    bars: Bars | None
    """The axis of its bars."""

    row: str | None
    """Its row in the table of contenders."""

    cases: list[CaseResult]
    """The cases, the base first."""

    targets: list[Target]
    """The bounds."""

    def case(self, name: str) -> CaseResult:
        """Return the case *name*."""
        return next(case for case in self.cases if case.name == name)

    def figure(
        self, case: CaseResult, figure: Figure, base: str | None = None, quantity: str | None = None
    ) -> Spread | None:
        """Return *figure* of *case* over the rounds, ``None`` when it or the base is absent."""
        rounds = self._rounds(case, figure, base, quantity)
        return Spread(median(rounds), min(rounds), max(rounds)) if rounds else None

    def _rounds(
        self, case: CaseResult, figure: Figure, base: str | None, quantity: str | None
    ) -> list[float]:
        own = case.times_us(self.metric)
        if figure is Figure.LATENCY:
            return own
        if figure is Figure.QUANTITY:
            return case.quantities.get(quantity or "", [])
        if figure is Figure.RATE:
            return [_MICROSECONDS / time for time in case.wall_us]
        if figure is Figure.MILLISECONDS:
            return [time / _MILLISECOND for time in case.wall_us]
        if figure is Figure.SECONDS:
            return [time * case.operations / _MICROSECONDS for time in case.wall_us]
        other = (self.case(base) if base else self.cases[0]).times_us(self.metric)
        if not own or not other:
            return []
        pairs = list(zip(own, other, strict=True))
        if figure is Figure.RATIO:
            return [mine / theirs for mine, theirs in pairs]
        return [theirs / mine for mine, theirs in pairs]

    def reached(self, target: Target) -> Spread | None:
        """Return the figure that *target* is about, ``None`` when it was not measured."""
        return self.figure(
            self.case(target.case), target.figure, target.base, quantity=target.quantity
        )

    def floor(self, target: Target) -> Spread | None:
        """Return the same figure of the floor, ``None`` when *target* has none."""
        if target.floor is None:
            return None
        return self.figure(self.case(target.floor), target.figure, target.base)


def group_result(workload: str, group: Group, measured: Iterable[Measured]) -> GroupResult:
    """Return the result of *group*."""
    cases = [
        CaseResult(
            name=case.name,
            operations=case.operations or group.operations,
            series=case.series,
            at=case.at,
            contender=case.contender,
            absent=found.absent,
            cpu_us=found.cpu,
            process_us=found.process,
            wall_us=found.wall,
            quantities=found.quantities,
        )
        for case, found in zip(group.cases, measured, strict=True)
    ]
    return GroupResult(
        workload=workload,
        name=group.name,
        title=group.title,
        operations=group.operations,
        metric=group.metric,
        durability=group.durability,
        sweep=group.sweep,
        bars=group.bars,
        row=group.row,
        cases=cases,
        targets=list(group.targets),
    )


@dataclass(frozen=True, slots=True)
class Results:
    """A run and its groups."""

    run: Run
    """The circumstances."""

    groups: list[GroupResult]
    """What was measured, in the order of the report."""

    def write(self, path: Path) -> None:
        """Write everything to the JSON file *path*."""
        content = {
            "format": FORMAT,
            "run": asdict(self.run),
            "groups": [_group_content(group) for group in self.groups],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> "Results":
        """Return what `write` wrote to *path*.

        Raises:
            ResultsError: The file is something else, or of another version.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            found = content["format"]
        except (ValueError, KeyError, TypeError) as error:
            raise ResultsError(f"{path} has no results; give a file that --json wrote") from error
        if found != FORMAT:
            raise ResultsError(f"{path} has format {found!r}, expected {FORMAT}; measure again")
        return cls(Run(**content["run"]), [_group_from(group) for group in content["groups"]])


def _group_content(group: GroupResult) -> dict[str, Any]:
    content = asdict(group)
    content["metric"] = group.metric.value
    if group.sweep is not None:
        content["sweep"]["figure"] = group.sweep.figure.value
    if group.bars is not None:
        content["bars"]["figure"] = group.bars.figure.value
    for written, target in zip(content["targets"], group.targets, strict=True):
        written["figure"] = target.figure.value
    for case in content["cases"]:
        for name in ("cpu_us", "process_us", "wall_us"):
            case[name] = [float(f"{time:.5g}") for time in case[name]]
    return content


def _group_from(content: dict[str, Any]) -> GroupResult:
    sweep, bars = content["sweep"], content["bars"]
    return GroupResult(
        **content
        | {
            "metric": Metric(content["metric"]),
            "sweep": sweep and Sweep(**sweep | {"figure": Figure(sweep["figure"])}),
            "bars": bars and Bars(**bars | {"figure": Figure(bars["figure"])}),
            "cases": [CaseResult(**case) for case in content["cases"]],
            "targets": [
                Target(**target | {"figure": Figure(target["figure"])})
                for target in content["targets"]
            ],
        }
    )
