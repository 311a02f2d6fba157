"""``kill -9`` of processes that share the tasks of a topology: nothing is lost, nothing doubled."""

import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from forked_programs import Forked
from shared_lives import (
    COUNTS,
    PAID,
    SEEN,
    TASKS,
    VALUES,
    append_orders,
    order,
    run_shared,
    written,
)

from statestores.files.directory_lock import LOCK_FILE
from statestores.files.lock_owner import lock_owner
from statestores.processing.local import read_instances

_PROGRAM = Path(__file__).parents[1] / "kit" / "shared_lives.py"
_PATIENCE_SECONDS = 120.0
_POLL_SECONDS = 0.05
_PROCESSES = 3
_SEED = 68
_FAILPOINTS = (
    "task.recorded",
    "task.output-appended",
    "changelog.append.written",
    "task.carried-out",
)
_SOAK_KILLS = 200


class _Company:
    """Processes that share one state, and input that does not end while they do."""

    def __init__(
        self,
        directory: Path,
        backend: str = "sqlite",
        standbys: int = 0,
        *,
        joined: bool = False,
    ) -> None:
        self.directory, self.backend, self.standbys = directory, backend, standbys
        self.joined = joined
        self.processes: dict[int, Forked] = {}
        self.orders = self.killed = 0

    def start(self, at: int, failpoint: str | None = None, times: int = 1) -> None:
        """Start a process, which dies at *failpoint*."""
        arguments = {
            "directory": str(self.directory),
            "failpoint": failpoint,
            "at": times,
            "backend": self.backend,
            "standbys": self.standbys,
            "joined": self.joined,
        }
        self.processes[at] = Forked(_PROGRAM, json.dumps(arguments))

    def feed_until(self, is_over: Callable[[], bool]) -> None:
        """Append orders, until something has come about."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not is_over():
            assert time.monotonic() < deadline, self.errors()
            append_orders(self.directory, self.orders, 10, joined=self.joined)
            self.orders += 10
            time.sleep(_POLL_SECONDS)

    def end(self, at: int) -> None:
        """Kill a process wherever it is, or note that it has died."""
        with self.processes.pop(at) as process:
            process.kill()
            assert process.wait() == -signal.SIGKILL, process.errors()
        self.killed += 1

    def errors(self) -> list[str]:
        """Return what the processes have complained about; none of them goes on."""
        found = []
        for process in self.processes.values():
            with process:
                process.kill()
                process.wait()
                found.append(process.errors())
        return found

    def shares(self) -> list[int]:
        """Return how many tasks each process has."""
        return sorted(len(each.active) for each in read_instances(self.directory / "state"))

    def judge(self, undisturbed: Path) -> None:
        """Finish, and compare with a run that nothing has happened to."""
        run_shared(self.directory, joined=self.joined, backend=self.backend)
        append_orders(undisturbed, 0, self.orders, joined=self.joined)
        run_shared(undisturbed, joined=self.joined, backend="memory", commit_records=1_000)

        if self.joined:  # which side of a pair came last depends on who appended when
            assert [sorted(each) for each in written(self.directory, PAID)] == [
                sorted(each) for each in written(undisturbed, PAID)
            ]
        assert written(self.directory, SEEN) == written(undisturbed, SEEN)
        counted = [record for partition in written(self.directory, COUNTS) for record in partition]
        for value in range(VALUES):
            times = sum(order(number).value == value for number in range(self.orders))
            rising = [record.value for record in counted if record.key == value]
            assert rising == list(range(1, times + 1)), value


@pytest.mark.crash
@pytest.mark.spec("PRC-68", "PRC-69", "PRC-70", "PRC-49")
def test_processes_that_share_tasks_are_killed_and_lose_and_double_nothing(tmp_path: Path) -> None:
    """One at each failpoint and one at any time; those that are left take over its tasks."""
    dice = random.Random(_SEED)
    company = _Company(tmp_path / "lives")
    company.start(0)
    company.start(1)
    for failpoint in _FAILPOINTS:
        company.start(2, failpoint, dice.randint(1, 3))
        company.feed_until(lambda: not company.processes[2].is_running())
        company.end(2)
    company.start(2)
    company.feed_until(lambda: company.shares() == [1, 2, 2])
    company.end(0)
    company.feed_until(lambda: company.shares() == [2, 3])
    company.end(1)
    company.feed_until(lambda: company.shares() == [TASKS])
    company.end(2)

    assert company.killed == len(_FAILPOINTS) + 3
    company.judge(tmp_path / "undisturbed")


def _stop_outside_of_appends(process: int, topics: Path) -> None:
    """Stop a process where it has no topic's lock: in an append the others would wait for it."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        os.kill(process, signal.SIGSTOP)
        while Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(") ")[2][0] != "T":
            time.sleep(_POLL_SECONDS)
        owners = [lock_owner(each.parent) for each in topics.rglob(LOCK_FILE)]
        if owners and all(each and not (each.pid == process and each.holds) for each in owners):
            return
        assert time.monotonic() < deadline
        os.kill(process, signal.SIGCONT)
        time.sleep(_POLL_SECONDS)


@pytest.mark.long
@pytest.mark.crash
@pytest.mark.spec("PRC-69", "PRC-71")
def test_a_stopped_process_keeps_its_tasks_until_it_goes_on(tmp_path: Path) -> None:
    """The others do theirs meanwhile, and nobody does its: it does not know that it stood still."""
    company = _Company(tmp_path / "lives")
    state = company.directory / "state"
    company.start(0)
    company.start(1)
    company.feed_until(lambda: company.shares() == [2, 3])
    stopped, _ = read_instances(state)
    _stop_outside_of_appends(stopped.process, company.directory / "topics")
    company.start(2)  # which has a share, since the stopped one is no longer counted
    company.feed_until(lambda: len(company.shares()) == 3 and min(company.shares()) == 1)
    held = {each.task for each in stopped.active}
    others = {
        task.task
        for each in read_instances(state)
        if each.instance != stopped.instance
        for task in each.active
    }

    assert not held & others
    os.kill(stopped.process, signal.SIGCONT)
    company.feed_until(lambda: company.shares() == [1, 2, 2])
    for at in range(_PROCESSES):
        company.end(at)
    company.judge(tmp_path / "undisturbed")


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.crash
@pytest.mark.spec("PRC-68", "PRC-69", "PRC-70", "PRC-77", "PRC-49")
@pytest.mark.parametrize(("backend", "standbys"), [("sqlite", 0), ("rocksdb", 1)])
def test_processes_that_share_tasks_are_killed_hundreds_of_times(
    tmp_path: Path, backend: str, standbys: int
) -> None:
    """Any of three, at any failpoint and at any time, all three now and then."""
    dice = random.Random(f"{_SEED} {backend}")
    company = _Company(tmp_path / "lives", backend, standbys, joined=True)
    running = [False] * _PROCESSES
    while company.killed < _SOAK_KILLS:
        for at in range(_PROCESSES):
            if not running[at]:
                failpoint = dice.choice([*_FAILPOINTS, None])
                company.start(at, failpoint, dice.randint(1, 12))
                running[at] = True
        until = time.monotonic() + dice.uniform(0.05, 1.5)
        company.feed_until(lambda until=until: time.monotonic() > until)  # type: ignore[misc]
        for at in range(_PROCESSES):
            if dice.random() < 0.4 or not company.processes[at].is_running():
                company.end(at)
                running[at] = False
    for at in range(_PROCESSES):
        if running[at]:
            company.end(at)

    company.judge(tmp_path / "undisturbed")
