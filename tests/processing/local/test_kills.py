"""``kill -9`` of the local runner, anywhere: nothing is lost, nothing doubled, nothing else."""

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from forked_nursery import ForkedNursery
from local_lives import (
    append_orders,
    expected_counts,
    expected_paid,
    expected_seen,
    run_all,
    written,
)

from statestores.errors import MissingDriverError
from statestores.registry import load_backend
from statestores_conformance.faults.crash_nursery import Nursery

_PROGRAM = Path(__file__).parents[1] / "kit" / "local_lives.py"
_PATIENCE_SECONDS = 60.0
_ORDERS_PER_LIFE = 40
"""Three commits of the first task, and as many of each of the two behind it."""

_OF_A_COMMIT = (
    "task.record-written",
    "task.recording",
    "task.recorded",
    "task.output-appended",
    "task.outputs-appended",
    "task.carried-out",
    "task.forgotten",
    "changelog.append.before",
    "changelog.append.written",
    "changelog.append.durable",
    "logged.appended",
    "commit.apply.before",
    "commit.apply.after",
)
_AT_ANY_TIME = 4
_SOAK_KILLS = 200
_SEED = 15


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    """Give the process that forks those that are killed."""
    with ForkedNursery(_PROGRAM) as nursery:
        yield nursery


class _Lives:
    """Lives over one state, one after the other, each with new input."""

    def __init__(self, nursery: Nursery, directory: Path, backend: str) -> None:
        self.nursery, self.directory, self.backend = nursery, directory, backend
        self.orders = self.killed = 0

    def end_at(self, failpoint: str, at: int) -> None:
        """Kill one at a failpoint, if it comes there so often."""
        self._begin(failpoint, at)
        code = self.nursery.wait(_PATIENCE_SECONDS)
        assert code in (0, -signal.SIGKILL), self.nursery.errors()
        self.killed += code != 0

    def end_after(self, seconds: float) -> None:
        """Kill one wherever it is by then."""
        self._begin(None, 1)
        time.sleep(seconds)
        code = self.nursery.kill()
        assert code in (0, -signal.SIGKILL), self.nursery.errors()
        self.killed += code != 0

    def judge(self, undisturbed: Path) -> None:
        """Finish, and compare with a run that nothing has happened to, and with a loop."""
        run_all(self.directory, backend=self.backend)
        append_orders(undisturbed, 0, self.orders)
        run_all(undisturbed, backend=self.backend)
        found, seen = written(self.directory), expected_seen(self.orders)

        assert [each.record for each in found["seen-0"]] == seen
        for name, partition in written(undisturbed).items():
            assert found[name] == partition, name
        paid = [each.record.value for each in found["paid-0"]]
        assert sorted(each for each in paid if not each.endswith("None")) == sorted(
            expected_paid(self.orders)
        )
        counted = [each.record for name in ("counts-0", "counts-1") for each in found[name]]
        for value, times in expected_counts(seen).items():
            rising = [record.value for record in counted if record.key == value]
            assert rising == list(range(1, times + 1)), value

    def _begin(self, failpoint: str | None, at: int) -> None:
        append_orders(self.directory, self.orders, _ORDERS_PER_LIFE)
        self.orders += _ORDERS_PER_LIFE
        self.nursery.start(
            {
                "directory": str(self.directory),
                "failpoint": failpoint,
                "at": at,
                "backend": self.backend,
            }
        )


@pytest.mark.crash
@pytest.mark.spec("PRC-49", "PRC-50", "TSK-14")
def test_a_topology_that_is_killed_loses_and_doubles_nothing(
    nursery: Nursery, tmp_path: Path
) -> None:
    """At every failpoint of a commit, and at any time, over one state and one set of topics."""
    dice = random.Random(_SEED)
    lives = _Lives(nursery, tmp_path / "lives", "sqlite")
    for failpoint in _OF_A_COMMIT:
        lives.end_at(failpoint, dice.randint(1, 3))
    killed_by_name = lives.killed
    for _ in range(_AT_ANY_TIME):
        lives.end_after(dice.uniform(0.02, 0.25))

    assert killed_by_name == len(_OF_A_COMMIT)
    lives.judge(tmp_path / "undisturbed")


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.crash
@pytest.mark.spec("PRC-49", "PRC-50", "TSK-14")
@pytest.mark.parametrize("backend", ["sqlite", "rocksdb", "leveldb"])
def test_a_topology_that_is_killed_hundreds_of_times_loses_and_doubles_nothing(
    nursery: Nursery, tmp_path: Path, backend: str
) -> None:
    """The same for each backend, ten times as often, at later moments."""
    try:
        load_backend(backend)
    except MissingDriverError as error:
        pytest.skip(str(error))
    dice = random.Random(f"{_SEED} {backend}")
    lives = _Lives(nursery, tmp_path / "lives", backend)
    while lives.killed < _SOAK_KILLS:
        for failpoint in _OF_A_COMMIT:
            lives.end_at(failpoint, dice.randint(1, 9))
        for _ in range(_AT_ANY_TIME):
            lives.end_after(dice.uniform(0.02, 0.4))

    lives.judge(tmp_path / "undisturbed")
