"""What a process tells of a task whose stores are being restored."""

from types import SimpleNamespace
from typing import Any

import pytest

from statestores.tasks import LagInfo, RestoreProgress, TaskId
from statestores.tasks.task_metrics import RestoreLedger
from statestores.tasks.task_reports import TaskReports

TASK = TaskId(0, 0)


def _reports(idle: int | None, end: int | None, ledger: RestoreLedger) -> TaskReports:
    """Return the reports of one task that is being opened.

    Its engine was seen at *idle*, and its changelog ends at *end*, or has not begun.
    """
    now = SimpleNamespace(opening=[TASK], standbys={}, tasks={}, assigned={TASK})
    source = SimpleNamespace(lag=lambda offset: LagInfo(offset, offset if end is None else end))
    known = SimpleNamespace(known=lambda *_: idle)
    parts: list[Any] = [
        lambda *_: source,
        SimpleNamespace(stores=lambda _: ("counts",)),
        SimpleNamespace(now=lambda: now),
        ledger,
        None if idle is None else known,
    ]
    return TaskReports(*parts)


@pytest.mark.spec("TSK-13")
@pytest.mark.parametrize(("idle", "reached"), [(7, 7), (0, 0), (None, 0)])
def test_before_a_restore_tells_the_engine_counts_as_it_was_seen(
    idle: int | None, reached: int
) -> None:
    """A task with nearly everything was reported with nothing; an assignor sent it elsewhere."""
    reports = _reports(idle, 9, RestoreLedger(None))

    assert reports.lags() == {TASK: {"counts": LagInfo(reached, 9)}}
    assert reports._restore_lag(TASK, "counts").offset_lag == 9 - reached


@pytest.mark.spec("TSK-13")
@pytest.mark.parametrize(("end", "expected"), [(9, 9), (None, 0)], ids=["a log", "no log yet"])
def test_a_store_that_is_restored_has_what_its_changelog_has(
    end: int | None, expected: int
) -> None:
    """While others of the task are still to come; where nobody has written that is nothing."""
    ledger = RestoreLedger(None)
    ledger(
        RestoreProgress(
            task=TASK, store="counts", event="ended", rows=0, bytes=0, total_rows=0, seconds=0.0
        )
    )

    lags = _reports(3, end, ledger).lags()

    assert lags == {TASK: {"counts": LagInfo(expected, expected)}}
