"""Standbys of a run: where they are, that they are promoted, and that queries read them."""

import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from forked_programs import Forked
from shared_lives import COUNTS, SEEN, TASKS, append_orders, topology, written

from statestores.errors import InvalidArgumentError, UnknownStateStoreError
from statestores.processing import LocalRunner, LocalTopics
from statestores.processing.local import Instance, read_instances
from statestores.processing.local.sharing import left_copies
from statestores.processing.local.sharing.copies import copies_for
from statestores.query import QueryableStores, key_value_store, timestamped_key_value_store
from statestores_conformance.many_cases import for_each

_PATIENCE_SECONDS = 120.0
_PROGRAM = Path(__file__).parents[1] / "kit" / "shared_lives.py"
_ORDERS = 200

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


def _runner(directory: Path, **more: Any) -> LocalRunner:
    settings: dict[str, Any] = {
        "backend": "memory",
        "commit_interval_ms": 20,
        "commit_records": 20,
        "standbys": 1,
    }
    return LocalRunner(topology(), directory / "state", directory / "topics", **settings | more)


@contextmanager
def _running(runner: LocalRunner) -> Iterator[LocalRunner]:
    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            runner.run()
        except BaseException as failure:  # noqa: BLE001  # raised again below
            failures.append(failure)

    thread = threading.Thread(target=guarded)
    thread.start()
    try:
        yield runner
    finally:
        runner.stop()
        thread.join()
        if failures:
            raise failures[0]


def _until(is_over: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not is_over():
        assert time.monotonic() < deadline
        time.sleep(0.04)


def _instances(directory: Path) -> list[Instance]:
    return read_instances(directory / "state")


def _is_warm(directory: Path, copies: int) -> bool:
    """Whether there are so many copies of every task, as far as the stores are."""
    instances = _instances(directory)
    ends = {task.task: dict(task.stores) for each in instances for task in each.active}
    found = [copy for each in instances for copy in each.standby]
    return (
        len(ends) == TASKS
        and len(found) == copies * TASKS
        and all(dict(copy.stores) == ends[copy.task] for copy in found)
    )


def _is_processed(directory: Path, orders: int) -> bool:
    with LocalTopics(directory / "topics") as topics:
        counts = topics.topic(COUNTS)
        return sum(map(counts.end_offset, range(counts.partitions))) == orders


@pytest.mark.spec("PRC-77", "PRC-71")
def test_copies_follow_and_are_promoted(tmp_path: Path) -> None:
    """Each task has one elsewhere; when an instance ends, the other has all, and what it needs."""
    append_orders(tmp_path, 0, _ORDERS)
    with _running(_runner(tmp_path)) as one:
        with _running(_runner(tmp_path)):
            _until(lambda: _is_processed(tmp_path, _ORDERS) and _is_warm(tmp_path, 1))
            first, second = _instances(tmp_path)
            assert {task.task for task in first.active} == {task.task for task in second.standby}
            promoted = {task.task for task in second.active}
        _until(lambda: len(_instances(tmp_path)[0].active) == TASKS)
        restored = [
            metric
            for metric in one.metrics()
            if metric.name == "restore-total" and metric.tags["task-id"] in promoted
        ]
        append_orders(tmp_path, _ORDERS, _ORDERS)
        _until(lambda: _is_processed(tmp_path, 2 * _ORDERS))
    append_orders(tmp_path / "alone", 0, 2 * _ORDERS)
    _runner(tmp_path / "alone", until="idle", standbys=0).run()

    assert written(tmp_path, SEEN) == written(tmp_path / "alone", SEEN)
    # The memory backend forgets: without a copy, each store would have been restored from its log.
    assert restored
    assert sum(metric.value for metric in restored) == 0


@pytest.mark.spec("PRC-78")
def test_stores_are_queried_here_and_stale_where_they_are_copied(tmp_path: Path) -> None:
    """Without stale reads a partition is where its task is; with them, it is everywhere."""
    append_orders(tmp_path, 0, _ORDERS)
    with _running(_runner(tmp_path)) as one, _running(_runner(tmp_path)) as two:
        _until(lambda: _is_processed(tmp_path, _ORDERS) and _is_warm(tmp_path, 1))
        both = [QueryableStores(each.stores) for each in (one, two)]
        here = [set(each.stores.local_stores("totals")) for each in (one, two)]
        totals = [
            dict(stores.store("totals", key_value_store(), include_stale=True).range())
            for stores in both
        ]
        counts = both[0].store("per-value", timestamped_key_value_store(), include_stale=True)
        counted = sum(found.value for _, found in counts.range())

        assert here[0] | here[1] == {0, 1, 2}
        assert not here[0] & here[1]
        assert totals[0] == totals[1]
        assert len(totals[0]) == 13
        assert counted == _ORDERS
        assert one.stores.partition_count("totals") == 3
        assert one.stores.unready("totals") == {}
        updated = [metric for metric in one.metrics() if metric.name == "update-total"]
        assert sum(metric.value for metric in updated) > 0
        with pytest.raises(UnknownStateStoreError, match="no store 'nothing'"):
            one.stores.local_stores("nothing")
    with pytest.raises(UnknownStateStoreError, match="before the run has begun"):
        _runner(tmp_path).stores.local_stores("totals")


@pytest.mark.spec("PRC-93", "PRC-77")
def test_copies_of_those_who_are_gone_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each promoted copy, and each place, was left on the disk for ever; what is in use stays."""
    monkeypatch.setattr(left_copies, "KEPT_SECONDS", 0.5)
    places = tmp_path / "state" / "@standbys"

    def copies() -> int:
        # Directories go meanwhile, which `Path.glob` does not stand.
        return sum("engine" in folders for _, folders, _ in os.walk(places))

    append_orders(tmp_path, 0, _ORDERS)
    with _running(_runner(tmp_path, backend="sqlite")):
        with _running(_runner(tmp_path, backend="sqlite")):
            _until(lambda: _is_processed(tmp_path, _ORDERS) and _is_warm(tmp_path, 1))
            both = copies()
        _until(lambda: len(_instances(tmp_path)[0].active) == TASKS and copies() < both)
        promoted = copies()
        append_orders(tmp_path, _ORDERS, _ORDERS)
        _until(lambda: _is_processed(tmp_path, 2 * _ORDERS))
    with _running(_runner(tmp_path, backend="sqlite", standbys=0)):
        _until(lambda: copies() == 0)

    assert promoted > 0
    append_orders(tmp_path / "alone", 0, 2 * _ORDERS)
    _runner(tmp_path / "alone", until="idle", standbys=0).run()
    assert written(tmp_path, SEEN) == written(tmp_path / "alone", SEEN)


@pytest.mark.crash
@pytest.mark.spec("PRC-77", "PRC-49")
def test_a_copy_of_a_process_that_was_killed_is_promoted(tmp_path: Path) -> None:
    """In the middle of its commits; nothing is lost, and nothing doubled."""
    dice = random.Random(77)
    orders = 0
    with _running(_runner(tmp_path, backend="sqlite")):
        for failpoint in ("task.recorded", "task.output-appended"):
            arguments = {
                "directory": str(tmp_path),
                "failpoint": failpoint,
                "at": dice.randint(1, 4),
                "backend": "sqlite",
                "standbys": 1,
            }
            with Forked(_PROGRAM, json.dumps(arguments)) as process:
                deadline = time.monotonic() + _PATIENCE_SECONDS
                while process.is_running():
                    assert time.monotonic() < deadline
                    append_orders(tmp_path, orders, 10)
                    orders += 10
                    time.sleep(0.05)
                assert process.wait() == -signal.SIGKILL, process.errors()
        _until(lambda: _is_processed(tmp_path, orders))
    append_orders(tmp_path / "alone", 0, orders)
    _runner(tmp_path / "alone", until="idle", standbys=0).run()

    assert written(tmp_path, SEEN) == written(tmp_path / "alone", SEEN)


@pytest.mark.spec("PRC-77")
@for_each("number", [0, 1, 2, 5])
def test_copies_are_spread_over_the_others(number: int) -> None:
    """As many as are asked for, or as there are others; never where the task is."""
    instances = ["a", "b", "c"]
    tasks = [f"0_{at}" for at in range(6)]
    owners = dict(zip(tasks, "abcab", strict=False))
    kept = {each: copies_for(each, instances, owners, tasks, number) for each in instances}

    for task in tasks:
        holders = [each for each in instances if task in kept[each]]
        assert len(holders) == (min(number, 2) if task in owners else 0)
        assert owners.get(task) not in holders


def test_a_number_of_standbys_is_one(tmp_path: Path) -> None:
    """From 0."""
    with pytest.raises(InvalidArgumentError, match="standbys"):
        _runner(tmp_path, standbys=-1)
