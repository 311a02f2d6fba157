"""Levels: which a test belongs to, and which one a backend has reached."""

import subprocess
import sys
from pathlib import Path

from statestores_conformance.levels import LEVEL_NAMES
from statestores_conformance.many_cases import for_each
from statestores_conformance.report import LevelResult, Status
from statestores_conformance.report.judging import (
    TestOutcome,
    judge_levels,
    judge_requirements,
    level_reached,
)

_ALL = {"persistent": True, "durable_commit": True, "detects_corruption": True}
_NONE = dict.fromkeys(_ALL, False)
_TOP = LEVEL_NAMES[-1]


def _outcome(
    level: str, outcome: str = "passed", reason: str = "", cited: str = "ENG-2"
) -> TestOutcome:
    return TestOutcome(
        test=f"{level} {outcome}",
        level=level,
        requirements=(cited,),
        outcome=outcome,
        reason=reason,
    )


def _passed() -> list[TestOutcome]:
    """Return a test of each level that passed."""
    return [_outcome(level) for level in LEVEL_NAMES]


def test_what_passes_everything_reaches_the_top() -> None:
    """And nothing stops it."""
    assert level_reached(judge_levels(_passed(), _ALL, _TOP)) == (_TOP, "")


@for_each("place", range(len(LEVEL_NAMES)))
def test_a_failure_stops_at_the_level_below(place: int) -> None:
    """Whatever was proved above it; the reason names the requirement."""
    outcomes = [*_passed(), _outcome(LEVEL_NAMES[place], "failed", "wrong", "ENG-7")]
    reached, reason = level_reached(judge_levels(outcomes, _ALL, _TOP))

    assert reached == (LEVEL_NAMES[place - 1] if place else None)
    assert reason == f"{LEVEL_NAMES[place]}: failed: ENG-7"


def test_an_engine_that_keeps_nothing_stops_at_store() -> None:
    """For what it does not promise, and not for a failure."""
    levels = judge_levels(_passed(), _NONE, _TOP)

    assert level_reached(levels)[0] == "store"
    assert "does not promise persistent, durable_commit" in level_reached(levels)[1]
    assert levels[LEVEL_NAMES.index("durable")].status is Status.NOT_PROMISED


def test_a_level_without_a_passing_test_is_not_reached() -> None:
    """Skips prove nothing: if all are for want of a promise, that is the reason."""
    skipped = _outcome("crash-proof", "skipped", "promise not made: persistent")
    levels = judge_levels([skipped], _ALL, _TOP)
    found = levels[LEVEL_NAMES.index("crash-proof")]

    assert [found.status, found.reason] == [Status.NOT_PROMISED, "does not promise persistent"]


def test_what_was_not_run_is_not_proved() -> None:
    """One test that the run did not come to keeps its level from being reached."""
    levels = judge_levels([*_passed(), _outcome("store", "not run")], _ALL, _TOP)

    assert level_reached(levels)[0] == "engine"
    assert "1 of 2 tests were not run" in level_reached(levels)[1]


def test_nothing_is_said_above_the_level_that_was_asked_for() -> None:
    """The reason is that nobody asked."""
    levels = judge_levels(_passed()[:2], _ALL, "store")

    assert level_reached(levels)[0] == "store"
    assert {level.status for level in levels[2:]} == {Status.NOT_RUN}


@for_each(
    ("outcomes", "status", "reason"),
    [
        ([("passed", "")], Status.PROVED, ""),
        ([("passed", ""), ("failed", "wrong")], Status.FAILED, "wrong"),
        (
            [("passed", ""), ("skipped", "promise not made: x")],
            Status.PROVED,
            "in part: does not promise x",
        ),
        ([("skipped", "promise not made: x")], Status.NOT_PROMISED, "does not promise x"),
        ([("skipped", "a soak test")], Status.NOT_RUN, "a soak test"),
        ([("not run", "")], Status.NOT_RUN, "the run ended before"),
    ],
)
def test_a_requirement_is_what_its_tests_say_together(
    outcomes: list[tuple[str, str]], status: Status, reason: str
) -> None:
    """One failure is enough; one success is enough where nothing failed."""
    (row,) = judge_requirements([_outcome("store", *outcome) for outcome in outcomes])

    assert [row.id, row.status, row.reason] == ["ENG-2", status, reason]


def test_levels_are_results_for_each_level_in_order() -> None:
    """The table of a report has all of them, the lowest first."""
    levels = judge_levels(_passed(), _ALL, _TOP)

    assert levels == tuple(LevelResult(name=name, status=Status.PROVED) for name in LEVEL_NAMES)


_MODULE = """
import pytest

@pytest.mark.level("store")
class Part:
    class TestInside:
        def test_of_its_part(self): ...
        def test_that_needs_persistence(self, persistent_engine): ...
        @pytest.mark.level("fault-proof")
        def test_with_a_level_of_its_own(self): ...

@pytest.mark.level("concurrent")
class Derived(Part): ...

@pytest.mark.level("fault-proof")
class Above:
    class TestInside:
        def test_of_its_part(self): ...

class AboveButOne(Above):
    class TestBelow:
        @pytest.mark.level("engine")
        def test_below(self): ...

class TestMine:
    TestPart = Part
    TestDerived = Derived
    TestAbove = Above
    TestAboveButOne = AboveButOne
"""

_PLUGIN = """
import pytest
from statestores_conformance.levels import level_of, lowest_rank_in

pytest_plugins = ["statestores_conformance"]

def pytest_collection_finish(session):
    for item in session.items:
        print("LEVEL", item.nodeid.split("::", 2)[2].replace("::", "."), level_of(item))

@pytest.hookimpl(tryfirst=True)
def pytest_make_collect_report(collector):
    if isinstance(collector, pytest.Class) and collector.name != "TestMine":
        part = collector.nodeid.split("::", 2)[2].replace("::", ".")
        print("RANK", part, lowest_rank_in(collector))
"""


def test_the_nearest_marker_counts(tmp_path: Path) -> None:
    """A test's own before its class's, a derived class's before its base's, then the part's.

    Before a class is looked into, no more is known than the lowest level that is in it.
    """
    (tmp_path / "conftest.py").write_text(_PLUGIN)
    (tmp_path / "test_mine.py").write_text(_MODULE)
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line.split() for line in result.stdout.splitlines()]
    found, lowest = (
        {line[1]: line[2] for line in lines if line[:1] == [what]} for what in ("LEVEL", "RANK")
    )

    assert found == {
        "TestPart.TestInside.test_of_its_part": "store",
        "TestPart.TestInside.test_that_needs_persistence": "durable",
        "TestPart.TestInside.test_with_a_level_of_its_own": "fault-proof",
        "TestDerived.TestInside.test_of_its_part": "concurrent",
        "TestDerived.TestInside.test_that_needs_persistence": "concurrent",
        "TestDerived.TestInside.test_with_a_level_of_its_own": "fault-proof",
        "TestAbove.TestInside.test_of_its_part": "fault-proof",
        "TestAboveButOne.TestInside.test_of_its_part": "fault-proof",
        "TestAboveButOne.TestBelow.test_below": "engine",
    }
    assert {part: LEVEL_NAMES[int(rank)] for part, rank in lowest.items()} == {
        "TestPart": "store",
        "TestPart.TestInside": "store",
        "TestDerived": "concurrent",
        "TestDerived.TestInside": "concurrent",
        "TestAbove": "fault-proof",
        "TestAbove.TestInside": "fault-proof",
        "TestAboveButOne": "engine",
        "TestAboveButOne.TestInside": "fault-proof",
        "TestAboveButOne.TestBelow": "engine",
    }
