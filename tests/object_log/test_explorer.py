"""The protocol under schedules of failures: what was acknowledged is there once, and nothing else.

What is run is the code of `statestores.object_log` itself. Each schedule has three writers, two
owners, two readers and two that fold, merge, vacuum and void, over a store that loses, fails,
delays and refuses, and in which anybody may sleep or die. The other schedules have three drivers of
one operator with two stores, beside whom others write, own, fold, vacuum and void; or two reshards
in place, beside all of these, each of whom finds out for itself that the store is elsewhere; or
reshards of both stores of an operator, whose drivers commit, sleep and begin anew meanwhile.

A soak plays them whole; `make test` plays some of those, and far more brief ones.
"""

import os
from collections import Counter
from collections.abc import Callable

import pytest
from operator_bugs import BUGS as OPERATOR_BUGS
from operator_reshard_bugs import BUGS as OPERATOR_RESHARD_BUGS
from operator_schedules import OperatorSchedule
from planted_bugs import BUGS, PlantedBug
from reshard_bugs import BUG_OF_TASKS
from reshard_bugs import BUGS as RESHARD_BUGS
from reshard_schedules import ReshardSchedule, TasksSchedule
from resharded_operator import ReshardedOperator
from schedules import Schedule
from scope import BRIEF, WHOLE, Scope

_SOAK = os.environ.get("STATESTORES_SOAK") == "1"
_LONG = os.environ.get("STATESTORES_LONG") == "1"
PLANTED = 1_500


def scopes(*, soak: int, long: int, whole: int, brief: int) -> pytest.MarkDecorator:
    """Have a test play *whole* schedules, or *long* of them in a long run, and *brief* ones.

    A *soak* plays whole ones alone. Brief ones notice common mistakes in less time, and those
    that need a long way hardly (decision 192). The numbers suffice for each planted mistake that
    twice as many notice: of a log, brief ones need 642 for it; of an operator, 25, or 2 whole ones.
    """
    whole = soak if _SOAK else long if _LONG else whole
    each = [pytest.param(WHOLE, whole, id="whole")]
    if not _SOAK:
        each.append(pytest.param(BRIEF, brief, id="brief"))
    return pytest.mark.parametrize(("scope", "schedules"), each)


pytestmark = [
    pytest.mark.usefixtures("_parses_once"),
    pytest.mark.timeout(12 * 3600 if _SOAK else 300),
]


@pytest.mark.spec(
    "OBJ-4",
    "OBJ-5",
    "OBJ-6",
    "OBJ-7",
    "OBJ-8",
    "OBJ-9",
    "OBJ-10",
    "OBJ-11",
    "OBJ-12",
    "OBJ-13",
    "OBJ-14",
    "OBJ-15",
    "OBJ-16",
)
@scopes(soak=100_000, long=200, whole=100, brief=700)
def test_no_schedule_loses_doubles_or_tears(scope: Scope, schedules: int) -> None:
    """Acknowledged: there once, at its offset. Denied: not there. Read: a prefix, and never torn.

    Positions are those of what is there, with clears, and readers never go back.
    """
    seen: Counter[str] = Counter()
    for seed in range(schedules):
        schedule = Schedule(seed, scope)
        schedule.play()
        seen += schedule.counts
        seen["acknowledged"] += len(schedule.acknowledged)

    # A run in which nothing goes wrong proves nothing.
    for kind in ("lost", "failed", "late", "conflict", "crash", "fenced", "StoreLockedError"):
        assert seen[kind] > 10, kind
    assert seen["acknowledged"] > 5 * schedules
    assert seen["reads"] > (1 if scope.is_brief else 5) * schedules


@pytest.mark.long
@pytest.mark.spec(
    "OBJ-5",
    "OBJ-7",
    "OBJ-10",
    "OBJ-14",
    "OBJ-15",
    "OBJ-16",
    "OBJ-43",
    "OBJ-44",
    "OBJ-45",
    "OBJ-46",
    "OBJ-48",
    "OBJ-50",
    "OBJ-51",
)
def test_a_rule_that_is_left_out_is_noticed(subtests: pytest.Subtests) -> None:
    """Each rule is needed, and the schedules would find out: of logs, operators and reshards."""
    for name, bug in BUGS.items():
        with subtests.test(name):
            check_noticed(bug, Schedule)
    for name, bug in OPERATOR_BUGS.items():
        with subtests.test(name):
            check_noticed(bug, OperatorSchedule)
    for name, bug in RESHARD_BUGS.items():
        with subtests.test(name):
            check_noticed(bug, ReshardSchedule)
    for name, bug in OPERATOR_RESHARD_BUGS.items():
        with subtests.test(name):
            check_noticed(bug, ReshardedOperator)
    with subtests.test("scratch-too-early"):
        check_noticed(BUG_OF_TASKS, TasksSchedule)


@pytest.mark.spec("OBJ-43", "OBJ-44", "OBJ-45")
@scopes(soak=100_000, long=100, whole=30, brief=120)
def test_no_schedule_leaves_half_of_a_micro_batch(scope: Scope, schedules: int) -> None:
    """Of several drivers: each micro-batch is in both stores once, in order, with one output.

    Who was told that it is not committed does not find it, and an output is there for as long as
    its micro-batch may come again.
    """
    seen: Counter[str] = Counter()
    for seed in range(schedules):
        schedule = OperatorSchedule(seed, scope)
        schedule.play()
        seen += schedule.counts

    for kind in ("lost", "failed", "late", "conflict", "crash", "StoreLockedError"):
        assert seen[kind] > 10, kind
    assert seen["conflicting drivers"] > schedules
    assert seen["micro-batches"] > (2 if scope.is_brief else 5) * schedules


@pytest.mark.spec("RSH-18", "OBJ-46", "OBJ-47", "OBJ-48", "OBJ-50")
@scopes(soak=100_000, long=100, whole=100, brief=300)
def test_no_schedule_of_reshards_loses_doubles_or_tears(scope: Scope, schedules: int) -> None:
    """Of reshards beside everybody else: what was acknowledged is where the store is in the end.

    Who was told that it was resharded, or was refused, does not find what they wrote; a batch that
    comes again is known; and a reader sees what it saw before, and what came after.
    """
    seen: Counter[str] = Counter()
    for seed in range(schedules):
        schedule = (ReshardSchedule, TasksSchedule)[seed % 2](seed, scope)
        schedule.play()
        seen += schedule.counts
        seen["acknowledged"] += len(schedule.acknowledged)

    for kind in ("lost", "failed", "late", "conflict", "crash", "removed", "batch came again"):
        assert seen[kind] > 10, kind
    for kind in ("CommitConflictError", "StoreLockedError", "StoreReshardedError"):
        assert seen[f"reshard: {kind}"] > 10, kind
    assert seen["mover: CommitConflictError"] > 10
    assert seen["reshards"] > schedules // 2
    assert seen["told of a reshard"] > schedules
    assert seen["acknowledged"] > 5 * schedules


@pytest.mark.spec("RSH-21", "OBJ-44", "OBJ-51")
@scopes(soak=50_000, long=50, whole=25, brief=120)
def test_no_schedule_of_reshards_leaves_half_of_a_micro_batch(scope: Scope, schedules: int) -> None:
    """Each micro-batch is in both stores once, in order, wherever they are, with one output.

    Drivers commit while a reshard is at work, begin behind its fence, and sleep over it; reshards
    die and sleep at each of their steps.
    """
    seen: Counter[str] = Counter()
    for seed in range(schedules):
        schedule = ReshardedOperator(seed, scope)
        schedule.play()
        seen += schedule.counts + schedule.second.counts

    for kind in ("lost", "failed", "late", "conflict", "crash", "a store lacks a record"):
        assert seen[kind] > 10, kind
    for kind in ("the anchor", "the second"):
        assert seen[f"reshards of {kind}"] > schedules // 10, kind
    assert seen["told of a reshard"] > schedules
    assert seen["conflicting drivers"] > schedules
    assert seen["micro-batches"] > 2 * schedules


def check_noticed(bug: PlantedBug, make: Callable[[int], Schedule]) -> None:
    """Accept a *bug* that one of the schedules finds."""
    with pytest.MonkeyPatch.context() as patch:
        bug.plant(patch)
        for seed in range(bug.first, PLANTED):
            try:
                make(seed).play()
            except Exception:  # noqa: BLE001  # whatever it breaks first
                return

    pytest.fail(f"{bug.story}: {PLANTED} schedules have not noticed")
