"""Global tables of several processes: each has all rows, whoever keeps the tables, and dies."""

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from forked_programs import Forked
from global_lives import (
    GOODS_COUNT,
    LETTERS,
    PARTITIONS,
    PEOPLE_COUNT,
    SOLD,
    append_sales,
    append_tables,
    run_shared,
    topology,
    written,
)

from statestores.processing.local import read_instances

_PROGRAM = Path(__file__).parents[1] / "kit" / "global_lives.py"
_PATIENCE_SECONDS = 120.0
_TABLES = {part.name for part in topology().build().sub_topologies if part.is_global}
_SALES = 60
_FAILPOINTS = ("task.recorded", "task.output-appended", "task.carried-out")

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


class _Company:
    """Processes that share one state."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state = directory / "state"
        self.processes: dict[int, Forked] = {}
        self.expected: list[str] = []

    def start(self, at: int, failpoint: str | None = None, times: int = 1) -> None:
        """Start a process, which dies at *failpoint*."""
        arguments = {"directory": str(self.directory), "failpoint": failpoint, "at": times}
        self.processes[at] = Forked(_PROGRAM, json.dumps(arguments))

    def until(self, is_over: Callable[[], bool]) -> None:
        """Wait for a state."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not is_over():
            assert time.monotonic() < deadline, [each.errors() for each in self.processes.values()]
            time.sleep(0.05)

    def end(self, at: int) -> None:
        """Kill a process, or note that it has died."""
        with self.processes.pop(at) as process:
            process.kill()
            assert process.wait() == -signal.SIGKILL, process.errors()

    def shares(self) -> list[int]:
        """Return how many tasks with a join each process has."""
        return sorted(
            sum(task.part not in _TABLES for task in each.active)
            for each in read_instances(self.state)
        )

    def owners(self) -> set[int]:
        """Return the processes that run the task of a table."""
        return {
            each.process
            for each in read_instances(self.state)
            for task in each.active
            if task.part in _TABLES
        }

    def sell(self, version: int) -> None:
        """Append sales, and wait until they are sold at what the tables have of *version*."""
        append_sales(self.directory, 0, _SALES, version)
        self.expected += [
            f"goods-{at % GOODS_COUNT} {100 * version + at % GOODS_COUNT} name-{version}"
            for at in range(_SALES)
        ]
        self.until(lambda: len(written(self.directory, SOLD)) >= len(self.expected))

    def is_followed(self, version: int) -> bool:
        """Whether each process has what the tables have of *version*."""
        instances = read_instances(self.state)
        active = {task.task: task for each in instances for task in each.active}
        tables = {name: task for name, task in active.items() if task.part in _TABLES}
        copies = [copy for each in instances for copy in each.standby if copy.task in tables]
        return (
            len(tables) == len(_TABLES)
            and sum(sum(task.reads.values()) for task in tables.values())
            == version * (PEOPLE_COUNT + 1 + GOODS_COUNT)
            and len(copies) == len(_TABLES) * (len(instances) - 1)
            and all(dict(copy.stores) == dict(tables[copy.task].stores) for copy in copies)
        )

    def judge(self) -> None:
        """Finish, and compare with what has to be there."""
        run_shared(self.directory)
        sold = [record.value for record in written(self.directory, SOLD)]

        assert sorted(sold) == sorted(self.expected)


@pytest.mark.crash
@pytest.mark.spec("PRC-92", "PRC-37", "PRC-68", "PRC-49")
def test_each_process_has_all_rows_and_takes_them_over(tmp_path: Path) -> None:
    """The first dies in a table's commit; of three more, one that keeps a table between sales."""
    append_tables(tmp_path, 1)
    company = _Company(tmp_path)
    company.start(0, "task.output-appended")
    company.until(lambda: not company.processes[0].is_running())
    company.end(0)
    for at in range(3):
        company.start(at)
    company.until(lambda: company.shares() == [1] * PARTITIONS)
    company.sell(1)
    append_tables(tmp_path, 2)
    company.until(lambda: company.is_followed(2))
    company.sell(2)
    owner = min(company.owners())
    company.end(next(at for at, each in company.processes.items() if each.process == owner))
    company.until(lambda: company.shares() == [1, 2])
    company.sell(2)
    append_tables(tmp_path, 3)
    company.until(lambda: company.is_followed(3))
    company.sell(3)
    for at in list(company.processes):
        company.end(at)

    company.judge()
    letters = [record.key for record in written(tmp_path, LETTERS)]
    assert letters == [b"broken"] * 3


@pytest.mark.soak
@pytest.mark.crash
@pytest.mark.spec("PRC-92", "PRC-49")
def test_a_table_is_killed_in_its_commit(tmp_path: Path) -> None:
    """At each failpoint; whoever comes next has every row, and each dead letter is there once."""
    company = _Company(tmp_path)
    for version, failpoint in enumerate(_FAILPOINTS, start=1):
        append_tables(tmp_path, version)
        company.start(0, failpoint)
        company.until(lambda: not company.processes[0].is_running())
        company.end(0)
    company.start(1)
    company.until(lambda: company.is_followed(len(_FAILPOINTS)))
    company.start(2)
    company.until(lambda: company.shares() == [1, 2])
    company.sell(len(_FAILPOINTS))
    company.end(1)
    company.end(2)

    company.judge()
    letters = [record.key for record in written(tmp_path, LETTERS)]
    assert letters == [b"broken"] * len(_FAILPOINTS)
