"""What a process tells of a task whose stores are being restored."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import statestores as ss
from statestores.errors import StorageError, StoreClosedError
from statestores.metering.recent_past import SECOND_NS
from statestores.spi.metrics.catalog import UPDATE_REMAINING
from statestores.storage.obstore_driver import ObstoreStorage
from statestores.tasks import (
    LATEST_OFFSET,
    LagInfo,
    RestoreProgress,
    TaskId,
    TaskManager,
    task_metrics,
)
from statestores.tasks.copying.object_source import ObjectSource
from statestores.tasks.task_metrics import RestoreLedger, UpdateMeter
from statestores.tasks.task_reports import TaskReports
from statestores_conformance.many_cases import for_each

TASK = TaskId(0, 0)


def _reports(idle: int | None, end: int | None, ledger: RestoreLedger) -> TaskReports:
    """Return the reports of one task that is being opened.

    Its engine was seen at *idle*, and its changelog ends at *end*, or has not begun.
    """
    now = SimpleNamespace(opening=[TASK], standbys={}, tasks={}, assigned={TASK})
    source = SimpleNamespace(lag=lambda offset: LagInfo(offset, offset if end is None else end))
    known = SimpleNamespace(known=lambda *asked: idle if asked == ("counts", 0) else None)
    parts: list[Any] = [
        lambda *_: source,
        SimpleNamespace(stores=lambda _: ("counts",)),
        SimpleNamespace(now=lambda: now),
        ledger,
        None if idle is None else known,
    ]
    return TaskReports(*parts)


@pytest.mark.spec("TSK-13")
@for_each(("idle", "reached"), [(7, 7), (0, 0), (None, 0)])
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


@pytest.mark.spec("SRV-27", "TSK-12")
def test_a_silent_object_store_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks that run are reported, and copies are not asked for one after the other, each in vain.

    Each question takes as long as its client tries; an instance that asked them all was silent for
    longer than a lease, and what it could answer was asked of nobody.
    """
    root = ss.StateRoot.create("memory://reports/silent")
    for name in ("counts", "rates"):
        root.add_store(ss.KeyValue(name), partitions=4)
    groups = {0: ["counts", "rates"]}
    asked: list[str] = []

    def silent(storage: ObstoreStorage, name: str, known_tag: str | None = None) -> None:
        asked.append(name)
        raise StorageError("nobody answers")

    with TaskManager(
        root, groups, local_directory=tmp_path, backend="memory", follow_interval_s=3600
    ) as manager:
        manager.assign(["0_0"], ["0_1", "0_2", "0_3"])
        for copies in manager.standbys.values():
            for each in copies:
                each.stop()
        monkeypatch.setattr(ObstoreStorage, "read", silent)

        assert manager.all_local_store_partition_lags() == {
            name: {0: LagInfo(0, 0)} for name in ("counts", "rates")
        }
        assert len(asked) == 1
        monkeypatch.undo()


class _Closed:
    """A standby that is closed while it is asked."""

    name = "counts"

    @property
    def lag(self) -> LagInfo:
        """Tell that it is."""
        raise StoreClosedError("closed")


@pytest.mark.spec("TSK-8", "TSK-12")
def test_of_a_task_of_which_nothing_is_known_there_is_no_sum() -> None:
    """Its standbys were closed meanwhile: an assignor would take a number for what it has."""
    reports = _reports(None, 9, RestoreLedger(None))
    now: Any = reports._board.now()
    now.opening, now.standbys = [], {TASK: (_Closed(),)}

    assert reports.lags() == {TASK: {}}
    assert reports.offset_sums() == {}


@pytest.mark.spec("MET-11")
def test_a_standby_is_measured_where_its_store_is_not() -> None:
    """Whatever metrics the store has, and also where its changelog cannot be read."""
    meter = UpdateMeter()
    meter.taken(3)
    found = meter.metrics((), None, {"partition": "0"})

    assert [(each.name, each.tags) for each in found] == [
        ("update-total", {"partition": "0"}),
        ("update-rate", {"partition": "0"}),
    ]
    assert found[0].value == 3


@pytest.mark.spec("MET-11")
def test_a_standby_tells_how_fast_it_has_been_of_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over half a minute, with the tags of its store, whoever has come along meanwhile."""
    clock = [0]
    monkeypatch.setattr(task_metrics, "perf_counter_ns", lambda: clock[0] * SECOND_NS // 2)
    meter = UpdateMeter()
    of_store = (UPDATE_REMAINING.of(7, {"state-id": "counts"}),)

    def at(half_seconds: int) -> list[float]:
        clock[0] = half_seconds
        found = meter.metrics(of_store, LagInfo(1, 4), {"partition": "0"})
        assert {(each.tags["state-id"], each.tags["partition"]) for each in found} == {
            ("counts", "0")
        }
        return [each.value for each in found[1:]]

    clock[0] = 20
    meter.taken(60)
    assert at(24) == [60, 60 / 12, 3]  # since it began
    assert at(80) == [60, 0, 3]  # since the poll of 30 seconds ago
    clock[0] = 81
    meter.taken(31)

    assert at(142) == [91, 31 / 31, 3]  # since the last look, which is older than half a minute


@pytest.mark.spec("MET-10")
def test_a_restore_that_has_just_begun_has_no_speed() -> None:
    """Nothing was taken, and nobody knows how much there is."""
    ledger = RestoreLedger(None)
    given: Any = {"event": "started", "rows": 0, "bytes": 0, "total_rows": None, "seconds": 0.0}
    ledger(RestoreProgress(task=TASK, store="counts", **given))

    assert [(each.name, each.value) for each in ledger.metrics()] == [
        ("restore-total", 0),
        ("restore-rate", 0),
    ]


@pytest.mark.spec("SRV-27", "TSK-12")
def test_one_copy_that_closes_meanwhile_keeps_no_other_back() -> None:
    """Only an object store that does not answer is asked nothing more."""
    reports = _reports(None, 9, RestoreLedger(None))
    now: Any = reports._board.now()
    other: Any = SimpleNamespace(name="rates", lag=LagInfo(2, 9))
    now.opening, now.standbys = [], {TASK: (_Closed(), other)}
    source: Any = lambda *_: object.__new__(ObjectSource)  # noqa: E731  # as in an object store
    reports._source = source

    assert reports.lags() == {TASK: {"rates": LagInfo(2, 9)}}


@pytest.mark.spec("TSK-12", "MET-10")
def test_a_restore_that_is_over_takes_no_other_with_it() -> None:
    """Tasks are restored side by side: another one looked as if it had nothing, until its end."""
    ledger, other = RestoreLedger(None), TaskId(0, 1)
    for task in (TASK, other):
        for store, event in (("counts", "restored"), ("rates", "ended")):
            given: Any = {"event": event, "rows": 5, "bytes": 9, "total_rows": 8, "seconds": 1.0}
            ledger(RestoreProgress(task=task, store=store, offset=6, **given))
    assert ledger.next_offset(TASK, "rates") == LATEST_OFFSET
    ledger.forget({TASK})

    assert [ledger.next_offset(TASK, store) for store in ("counts", "rates")] == [None, None]
    assert ledger.next_offset(other, "counts") == 7
    assert ledger.next_offset(other, "rates") == LATEST_OFFSET
    assert {each.tags["task-id"] for each in ledger.metrics()} == {"0_1"}
    assert [each.value for each in ledger.metrics()] == [5, 5.0, 3]
