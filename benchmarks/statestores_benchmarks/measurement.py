"""Running the cases: interleaved rounds, a fresh directory each, the garbage collector off.

Neighbours on the machine change its speed from one minute to the next. So the cases of a group take
turns, in another order each round (`turns`), ratios are computed within a round, and medians are
reported.
"""

import gc
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from statestores_benchmarks.cases import Case, Group, Outcome, Scale, Times
from statestores_benchmarks.peers import why_absent
from statestores_benchmarks.turns import turns

_MICROSECONDS = 1e6


class DisagreementError(AssertionError):
    """Cases that should agree have computed different things: their figures are worthless."""


@dataclass(slots=True)
class Measured:
    """The rounds of one case, in microseconds an operation."""

    name: str
    """The case."""

    absent: str | None = None
    """Why it was not measured."""

    cpu: list[float] = field(default_factory=list)
    """Time of the calling thread on a processor, each round."""

    process: list[float] = field(default_factory=list)
    """Time of all threads of the process on a processor, each round."""

    wall: list[float] = field(default_factory=list)
    """Elapsed time, each round."""

    quantities: dict[str, list[float]] = field(default_factory=dict)
    """What else the rounds returned, see `Outcome`."""


@dataclass(frozen=True, slots=True)
class _Round:
    cpu: float
    process: float
    wall: float
    outcome: Outcome
    answer: object


def measure(group: Group, scale: Scale, advance: Callable[[], None]) -> list[Measured]:
    """Run *group* and return its cases in their order; *advance* is called after each round of one.

    Raises:
        DisagreementError: Two cases gave different answers.
    """
    measured = [Measured(case.name, why_absent(list(case.needs))) for case in group.cases]
    present = [
        (case, found)
        for case, found in zip(group.cases, measured, strict=True)
        if found.absent is None
    ]
    with (
        tempfile.TemporaryDirectory(prefix="statestores-bench-") as shared,
        group.around(Path(shared)),
    ):
        warm_ups = int(group.warm_up and scale.warm_up)
        number, began = 0, time.monotonic()
        while number < warm_ups + _rounds(group, scale, time.monotonic() - began, number):
            answers: dict[float | None, dict[str, object]] = {}
            for case, found in turns(group.name, number - warm_ups, present):
                taken = _round(case, case.operations or group.operations)
                if number >= warm_ups:
                    _keep(found, taken)
                if taken.outcome.answer is not None:
                    answers.setdefault(case.at, {})[case.name] = taken.answer
                advance()
            for alike in answers.values():
                _check_agreement(group, alike)
            number += 1
    return measured


def _rounds(group: Group, scale: Scale, elapsed_s: float, done: int) -> int:
    """Return how many rounds *group* should have, as far as is known after *done* of them."""
    most = scale.most_rounds if group.rounds is None else min(group.rounds, scale.most_rounds)
    least = min(max(scale.rounds, group.least_rounds), most)
    if done == 0:
        return least
    return max(least, min(most, int(scale.budget_s / (elapsed_s / done))))


def _keep(found: Measured, taken: _Round) -> None:
    found.cpu.append(taken.cpu)
    found.process.append(taken.process)
    found.wall.append(taken.wall)
    for name, value in taken.outcome.quantities.items():
        found.quantities.setdefault(name, []).append(value)


def _check_agreement(group: Group, answers: dict[str, object]) -> None:
    """Refuse the figures of cases that did not do the same."""
    first, *others = [case.name for case in group.cases if case.name in answers]
    expected = answers[first]
    for name in others:
        if answers[name] != expected:
            raise DisagreementError(
                f"{group.name}: {name!r} computed {_short(answers[name])}, "
                f"but {first!r} computed {_short(expected)}"
            )


def _short(answer: object) -> str:
    text = repr(answer)
    return text if len(text) <= 100 else text[:100] + "..."  # noqa: PLR2004  # enough to see it


def _round(case: Case, operations: int) -> _Round:
    """Return the microseconds that an operation takes, and what the round showed."""
    with (
        tempfile.TemporaryDirectory(prefix="statestores-bench-") as directory,
        case.prepare(Path(directory)) as timed,
    ):
        gc.collect()
        gc.disable()
        try:
            wall_start, process_start = time.perf_counter(), time.process_time()
            cpu_start = time.thread_time()
            returned = timed()
            cpu_end = time.thread_time()
            process_end, wall_end = time.process_time(), time.perf_counter()
        finally:
            gc.enable()
        outcome = returned if isinstance(returned, Outcome) else Outcome()
        answer = None if outcome.answer is None else outcome.answer()
    times = outcome.times or Times(
        thread_s=cpu_end - cpu_start,
        process_s=process_end - process_start,
        wall_s=wall_end - wall_start,
    )
    factor = _MICROSECONDS / operations
    return _Round(
        times.thread_s * factor,
        times.process_s * factor,
        times.wall_s * factor,
        outcome,
        answer,
    )
