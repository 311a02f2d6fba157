"""Tasks under schedules of failures: each commit is in all of its stores, or in none."""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from scope import BRIEF, WHOLE
from task_schedules import TaskSchedule

from statestores.object_log.requests import Steps
from statestores.tasks.objects import object_commits, recovery

_SOAK = os.environ.get("STATESTORES_SOAK") == "1"
_LONG = os.environ.get("STATESTORES_LONG") == "1"
SCHEDULES = 5_000 if _SOAK else 40 if _LONG else 20
BRIEF_ONES = 0 if _SOAK else 40
PLANTED = 400

pytestmark = [
    pytest.mark.usefixtures("_parses_once", "_does_not_wait"),
    pytest.mark.timeout(12 * 3600 if _SOAK else 600),
]


@pytest.fixture
def _does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A schedule has no clock."""
    # Of that module alone: another thread that sleeps in a loop would take the processor.
    clock = SimpleNamespace(sleep=lambda seconds: None)
    monkeypatch.setattr("statestores.object_log.driver.time", clock)


@pytest.mark.spec("TSK-17", "TSK-18", "TSK-20", "OBJ-10")
def test_no_schedule_tears_a_commit(tmp_path: Path) -> None:
    """Acknowledged: there, in every store. Denied: nowhere. Seen once: always; and never a part.

    Three processes take the task from each other, over standbys or anew, die, sleep, and get no
    answers, while somebody opens a store of it by itself, and others fold, compact and vacuum.
    """
    seen: Counter[str] = Counter()
    for number in range(SCHEDULES + BRIEF_ONES):
        scope = WHOLE if number < SCHEDULES else BRIEF
        schedule = TaskSchedule(number, tmp_path / str(number), scope)
        schedule.play()
        seen += schedule.counts
        seen["acknowledged"] += len(schedule.acknowledged)

    # A run in which nothing goes wrong proves nothing.
    for kind in ("lost", "failed", "late", "conflict", "crash", "fenced", "standbys"):
        assert seen[kind] > (SCHEDULES + BRIEF_ONES) // 8, (kind, seen)
    assert seen["opening: FencedError"] > 0
    assert seen["acknowledged"] > 2 * (SCHEDULES + BRIEF_ONES)


class _Bug(NamedTuple):
    """A rule that is left out."""

    story: str
    places: tuple[tuple[Any, str, Callable[..., Any]], ...]


def _looks_at_nothing(partitions: Any, when: str) -> Steps[None]:
    yield from ()


def _puts_nothing(names: Any, record: Any, data: bytes) -> Steps[bool]:
    yield from ()
    return True


BUGS = (
    _Bug(
        "nobody looks whether all partitions are its own",
        ((recovery, "check_owned", _looks_at_nothing),),
    ),
    _Bug(
        "a record counts because it is there",
        ((recovery, "has_counted", lambda part, record: True),),
    ),
    _Bug("a commit is not recorded", ((object_commits, "put_record", _puts_nothing),)),
    _Bug("a record is forgotten", ((recovery, "_carry_out", lambda *_: None),)),
)


@pytest.mark.long
@pytest.mark.spec("TSK-17", "TSK-18")
def test_a_rule_that_is_left_out_is_noticed(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Each rule is needed, and the schedules would find out."""
    for number, bug in enumerate(BUGS):
        with subtests.test(bug.story), pytest.MonkeyPatch.context() as patch:
            for place in bug.places:
                patch.setattr(*place)
            assert not all(_passes(seed, tmp_path / f"{number}-{seed}") for seed in range(PLANTED))


def _passes(seed: int, scratch: Path) -> bool:
    """Return whether the schedule of *seed* notices nothing."""
    try:
        TaskSchedule(seed, scratch).play()
    except Exception:  # noqa: BLE001  # whatever it breaks first
        return False
    return True
