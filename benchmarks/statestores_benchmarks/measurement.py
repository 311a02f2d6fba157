"""Running the cases: interleaved rounds, a fresh directory each, the garbage collector off.

Neighbours on the machine change its speed from one minute to the next. So the cases of a group
take turns (A B C A B C ...), ratios are made within a round, and medians are reported.
"""

import gc
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from statestores_benchmarks.cases import Case, Group, Metric

_MICROSECONDS = 1e6


@dataclass(frozen=True, slots=True)
class Measured:
    """The rounds of one case, in microseconds an operation."""

    name: str
    """The case."""

    cpu: list[float]
    """Time of the calling thread on a processor, each round."""

    wall: list[float]
    """Elapsed time, each round."""

    ratios: list[float]
    """The group's metric, each round, to the first case of the same round."""

    @property
    def ratio(self) -> float:
        """The median ratio."""
        return median(self.ratios)


def measure(group: Group, rounds: int, advance: Callable[[], None]) -> list[Measured]:
    """Run *group*, one unmeasured round first, and return its cases in their order."""
    cpu: dict[str, list[float]] = {case.name: [] for case in group.cases}
    wall: dict[str, list[float]] = {case.name: [] for case in group.cases}
    for number in range(rounds + 1):
        for case in group.cases:
            cpu_time, wall_time = _round(case, group.operations)
            if number:  # the first one warms up
                cpu[case.name].append(cpu_time)
                wall[case.name].append(wall_time)
            advance()
    compared = cpu if group.metric is Metric.CPU else wall
    base = compared[group.cases[0].name]
    return [
        Measured(
            case.name,
            cpu[case.name],
            wall[case.name],
            [own / other for own, other in zip(compared[case.name], base, strict=True)],
        )
        for case in group.cases
    ]


def _round(case: Case, operations: int) -> tuple[float, float]:
    """Return the microseconds that an operation takes, on the processor and elapsed."""
    with (
        tempfile.TemporaryDirectory(prefix="statestores-bench-") as directory,
        case.prepare(Path(directory)) as timed,
    ):
        gc.collect()
        gc.disable()
        try:
            wall_start, cpu_start = time.perf_counter(), time.thread_time()
            timed()
            cpu_end, wall_end = time.thread_time(), time.perf_counter()
        finally:
            gc.enable()
    factor = _MICROSECONDS / operations
    return (cpu_end - cpu_start) * factor, (wall_end - wall_start) * factor
