"""The results as Markdown: misses are named, and the best is bold, whoever it is."""

from collections.abc import Iterable, Sequence
from statistics import median

from statestores_benchmarks.cases import Figure, Target
from statestores_benchmarks.results import CaseResult, GroupResult, Results, Spread

ABSENT = "absent"
_NO_FIGURE = ""


def circumstances(runs: Sequence[Results]) -> str:
    """Return when, on what and with which versions the figures were made."""
    return "\n".join(_circumstances(results) for results in runs)


def _circumstances(results: Results) -> str:
    run = results.run
    rounds = [len(case.wall_us) for group in results.groups for case in group.cases]
    machine = run.machine
    installed = ", ".join(
        f"{name} {version}" for name, version in run.versions.items() if version != "not installed"
    )
    workloads = ", ".join(dict.fromkeys(group.workload for group in results.groups))
    return (
        f"* {run.started}, commit {run.revision}, scale `{run.scale}`, seed {run.seed}, "
        f"{_counted(rounds)} rounds, {run.seconds / 60:.0f} minutes, load {run.load:g} before: "
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory']}, "
        f"{machine['system']}; {installed}. Workloads: {workloads}."
    )


def _counted(rounds: list[int]) -> str:
    counted = sorted({number for number in rounds if number})
    if not counted:
        return "no"
    return f"{counted[0]}" if len(counted) == 1 else f"{counted[0]} to {counted[-1]}"


def targets(runs: Sequence[Results]) -> str:
    """Return each bound with what was reached."""
    lines = ["| what | target (stretch) | reached (least to most) | |", "|---|--:|--:|---|"]
    for group in _groups(runs):
        for target in group.targets:
            reached = group.reached(target)
            lines.append(
                f"| {target.row or f'{group.title}: {target.case}'} | {_bound(target)} "
                f"| {_reached(target, reached)}{_beside(group, target)} "
                f"| {verdict(target, reached)} |"
            )
    return "\n".join(lines)


def verdict(target: Target, reached: Spread | None) -> str:
    """Return how *reached* compares with *target*; a miss stands out."""
    if reached is None:
        return "not measured"
    if target.unasked is not None:
        return target.unasked
    if not _keeps(reached.median, target.at_most, target.at_least):
        return "**missed**"
    if target.stretch is None:
        return "met"
    most = None if target.at_most is None else target.stretch
    least = None if target.at_least is None else target.stretch
    return "met, stretch too" if _keeps(reached.median, most, least) else "met"


def missed(runs: Sequence[Results]) -> list[str]:
    """Return a sentence for each bound that was not kept."""
    return [
        f"{group.name}: {target.case} reached {_number(reached.median)}{_unit(target)}, "
        f"the target is {_bound(target)}"
        for group in _groups(runs)
        for target in group.targets
        if target.unasked is None
        and (reached := group.reached(target)) is not None
        and not _keeps(reached.median, target.at_most, target.at_least)
    ]


def _keeps(value: float, most: float | None, least: float | None) -> bool:
    return (most is None or value <= most) and (least is None or value >= least)


def _bound(target: Target) -> str:
    bound = target.at_least if target.at_most is None else target.at_most
    sign = "≥" if target.at_most is None else "≤"
    stretch = "" if target.stretch is None else f" ({_number(target.stretch)})"
    return f"{sign} {_number(bound or 0)}{stretch}{_unit(target)}"


def _reached(target: Target, reached: Spread | None) -> str:
    return _NO_FIGURE if reached is None else f"{_spread(reached)}{_unit(target)}"


def _beside(group: GroupResult, target: Target) -> str:
    """Return what the floor of *target* reaches, to stand behind what was reached."""
    floor = group.floor(target)
    return "" if floor is None else f"; the floor {_spread(floor)}"


def _unit(target: Target) -> str:
    """Return the unit of what *target* is about; a quantity has it in its name."""
    return {
        Figure.RATIO: " ×",
        Figure.SPEED_UP: " × faster",
        Figure.RATE: " /s",
        Figure.LATENCY: " µs",
        Figure.MILLISECONDS: " ms",
        Figure.SECONDS: " s",
        Figure.QUANTITY: f" {target.quantity}",
    }[target.figure]


def contenders(runs: Sequence[Results]) -> str:
    """Return how long each takes for what: microseconds an operation, the best of a row bold."""
    rows = [group for group in _groups(runs) if group.row is not None]
    if not rows:
        return "Not in these results."
    names = dict.fromkeys(
        case.contender for group in rows for case in group.cases if case.contender is not None
    )
    lines = [
        "| µs an operation | time | " + " | ".join(names) + " |",
        "|---|---|" + "--:|" * len(names),
    ]
    for group in rows:
        cases = {case.contender: case for case in group.cases}
        times = {name: _time(group, cases.get(name)) for name in names}
        best = min((time for time in times.values() if time is not None), default=None)
        cells = [_cell(cases.get(name), times[name], best) for name in names]
        lines.append(f"| {group.row} | {group.metric.value} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _time(group: GroupResult, case: CaseResult | None) -> float | None:
    found = None if case is None else group.figure(case, Figure.LATENCY)
    return None if found is None else found.median


def _cell(case: CaseResult | None, time: float | None, best: float | None) -> str:
    if case is None:
        return _NO_FIGURE
    if time is None:
        return ABSENT
    return f"**{_number(time)}**" if time == best else _number(time)


def absent(runs: Sequence[Results]) -> str:
    """Return what could not be measured, and what failed, and why."""
    reasons = {case.absent for group in _groups(runs) for case in group.cases if case.absent}
    failures = [failure for results in runs for failure in results.run.failures]
    if not reasons and not failures:
        return "Everything could be measured."
    return "\n".join(f"* {reason}" for reason in [*sorted(reasons), *failures])


def images(runs: Sequence[Results]) -> str:
    """Return the plots, as they are seen from the page of the benchmarks."""
    return "\n".join(
        f"![{group.title}](../docs/benchmarks/{group.name}.png)"
        for group in _groups(runs)
        if group.sweep is not None or group.bars is not None
    )


def tables(runs: Sequence[Results]) -> str:
    """Return a table for each group, under a heading for each workload."""
    parts = []
    workload = None
    for group in _groups(runs):
        if group.workload != workload:
            workload = group.workload
            parts.append(f"## {workload}")
        parts.append(_table(group))
    return "\n\n".join(parts)


def _table(group: GroupResult) -> str:
    """Return the rows of one group, the best case bold."""
    ratios = {case.name: group.figure(case, Figure.RATIO) for case in group.cases}
    best = min(found.median for found in ratios.values() if found is not None)
    named = dict.fromkeys(name for case in group.cases for name in case.quantities)
    what = f"{group.metric.value} ratio (least to most)"
    lines = [
        f"### {group.title}",
        "",
        f"`{group.name}`, {group.operations:,} operations a round"
        + (f"; {group.durability}." if group.durability else "."),
        "",
        f"| case | CPU µs | all threads µs | elapsed µs | {what} | "
        + "".join(f"{name} | " for name in named)
        + "target |",
        "|---|--:|--:|--:|--:|" + "--:|" * len(named) + "---|",
    ]
    for case in group.cases:
        found = ratios[case.name]
        if found is None:
            lines.append(f"| {case.name} | {ABSENT}: {case.absent} |" + " |" * (len(named) + 4))
            continue
        times = " | ".join(
            _number(median(column)) if column else _NO_FIGURE
            for column in (case.cpu_us, case.process_us, case.wall_us)
        )
        counted = "".join(f"{_quantity(group, case, name)} | " for name in named)
        judged = "; ".join(
            _judged(group, target) for target in group.targets if target.case == case.name
        )
        ratio = _spread(found, bold=found.median == best)
        lines.append(f"| {case.name} | {times} | {ratio} | {counted}{judged} |")
    return "\n".join(lines)


def _quantity(group: GroupResult, case: CaseResult, name: str) -> str:
    found = group.figure(case, Figure.QUANTITY, quantity=name)
    return _NO_FIGURE if found is None else _spread(found)


def _judged(group: GroupResult, target: Target) -> str:
    """Return a target's bound and verdict, with the figure when the ratio beside it is another."""
    reached = group.reached(target)
    shown = ""
    if reached is not None and (target.figure is not Figure.RATIO or target.base is not None):
        shown = f"{_reached(target, reached)}, "
    base = f" against {target.base}" if target.base else ""
    return f"{_bound(target)}{base}: {shown}{verdict(target, reached)}"


def _spread(found: Spread, *, bold: bool = False) -> str:
    middle = f"**{_number(found.median)}**" if bold else _number(found.median)
    if found.least == found.most:
        return middle
    return f"{middle} ({_number(found.least)} to {_number(found.most)})"


_MILLION = 1_000_000
_WHOLE_FROM = 100


def _number(value: float) -> str:
    """Return *value* with three significant digits."""
    if abs(value) >= _MILLION:
        return f"{value / _MILLION:.3g} M"
    return f"{value:,.0f}" if abs(value) >= _WHOLE_FROM else f"{value:.3g}"


def _groups(runs: Iterable[Results]) -> Iterable[GroupResult]:
    for results in runs:
        yield from results.groups
