"""From the outcome of each test to what is known about each requirement and level."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from statestores_conformance.levels import ENGINE, LEVELS, Level, rank_of
from statestores_conformance.promises import PREFIX
from statestores_conformance.report.model import (
    Failure,
    LevelResult,
    RequirementResult,
    Status,
)
from statestores_conformance.requirements import load_requirements


@dataclass(frozen=True, slots=True, kw_only=True)
class TestOutcome:
    """One test of the run: where it belongs, and its outcome."""

    __test__ = False  # not for pytest

    test: str
    level: str
    requirements: tuple[str, ...]
    outcome: str
    """``passed``, ``failed``, ``timed out``, ``skipped``, or ``not run``."""

    step: str = ""
    reason: str = ""
    detail: str = ""


def failures_of(outcomes: Iterable[TestOutcome], kind: str = "failed") -> tuple[Failure, ...]:
    """Return the tests that failed, or whose outcome is of another *kind*, in order of levels."""
    found = [
        Failure(
            test=outcome.test,
            level=outcome.level,
            requirements=outcome.requirements,
            step=outcome.step,
            reason=outcome.reason,
            detail=outcome.detail,
        )
        for outcome in outcomes
        if outcome.outcome == kind
    ]
    return tuple(sorted(found, key=lambda failure: rank_of(failure.level)))


def judge_requirements(outcomes: Sequence[TestOutcome]) -> tuple[RequirementResult, ...]:
    """Return a row for each requirement that one of the tests cites."""
    citing: dict[str, list[TestOutcome]] = {}
    for outcome in outcomes:
        for identifier in outcome.requirements:
            citing.setdefault(identifier, []).append(outcome)
    rows = []
    for requirement in load_requirements():
        tests = citing.get(requirement.id)
        if tests is None:
            continue
        status, reason = _verdict(tests)
        rows.append(
            RequirementResult(
                id=requirement.id,
                obligation=requirement.obligation,
                level=min((test.level for test in tests), key=rank_of),
                text=requirement.text,
                status=status,
                reason=reason,
                passed=sum(test.outcome == "passed" for test in tests),
                failures=tuple(test.test for test in tests if test.outcome == "failed"),
            )
        )
    return tuple(rows)


def _verdict(tests: Sequence[TestOutcome]) -> tuple[Status, str]:
    """Return what *tests* say together, and why."""
    failed = [test for test in tests if test.outcome == "failed"]
    if failed:
        return Status.FAILED, failed[0].reason
    endless = [test for test in tests if test.outcome == "timed out"]
    if endless:
        return Status.TIMED_OUT, endless[0].reason
    promises = promises_not_made(tests)
    missing = f"does not promise {', '.join(promises)}" if promises else ""
    if any(test.outcome == "passed" for test in tests):
        return Status.PROVED, f"in part: {missing}" if missing else ""
    if promises:
        return Status.NOT_PROMISED, missing
    reasons = sorted({test.reason for test in tests if test.reason})
    return Status.NOT_RUN, "; ".join(reasons) or "the run ended before"


def promises_not_made(tests: Iterable[TestOutcome]) -> list[str]:
    """Return the promises for lack of which some of *tests* were skipped."""
    return sorted(
        {
            test.reason.removeprefix(PREFIX)
            for test in tests
            if test.outcome == "skipped" and test.reason.startswith(PREFIX)
        }
    )


def judge_levels(
    outcomes: Sequence[TestOutcome],
    capabilities: Mapping[str, bool],
    asked: str,
    selection: str = "",
) -> tuple[LevelResult, ...]:
    """Return what is known about each level on its own; nothing by a *selection* of its tests."""
    if selection:
        reason = f"only {selection} were asked for"
        return tuple(
            LevelResult(name=level.name, status=Status.NOT_RUN, reason=reason) for level in LEVELS
        )
    return tuple(
        LevelResult(
            name=level.name,
            status=status,
            reason=reason,
        )
        for level in LEVELS
        for status, reason in [_level_verdict(level, outcomes, capabilities, asked)]
    )


def _level_verdict(
    level: Level, outcomes: Sequence[TestOutcome], capabilities: Mapping[str, bool], asked: str
) -> tuple[Status, str]:
    """Return what the tests of one level say, and why."""
    if rank_of(level.name) > rank_of(asked):
        return Status.NOT_RUN, f"only levels up to {asked} were asked for"
    tests = [outcome for outcome in outcomes if outcome.level == level.name]
    failed = [test for test in tests if test.outcome == "failed"]
    if failed:
        cited = sorted({requirement for test in failed for requirement in test.requirements})
        return Status.FAILED, f"failed: {', '.join(cited) or failed[0].test}"
    endless = sum(test.outcome == "timed out" for test in tests)
    if endless:
        return Status.TIMED_OUT, f"{endless} of {len(tests)} tests timed out"
    missing = [promise for promise in level.needs if not capabilities.get(promise, False)]
    if missing:
        return Status.NOT_PROMISED, f"does not promise {', '.join(missing)}"
    unfinished = sum(test.outcome == "not run" for test in tests)
    if unfinished:
        return Status.NOT_RUN, f"{unfinished} of {len(tests)} tests were not run"
    if any(test.outcome == "passed" for test in tests):
        return Status.PROVED, ""
    promises = promises_not_made(tests)
    if promises:
        return Status.NOT_PROMISED, f"does not promise {', '.join(promises)}"
    if outcomes and level is ENGINE:
        return Status.PROVED, "at door two there is no engine to test"
    return Status.NOT_RUN, "there is no test of it"


def level_reached(levels: Sequence[LevelResult]) -> tuple[str | None, str]:
    """Return the highest level that is proved with all below it, and what bars the next one."""
    reached: str | None = None
    for level in levels:
        if level.status is not Status.PROVED:
            return reached, f"{level.name}: {level.reason}"
        reached = level.name
    return reached, ""
