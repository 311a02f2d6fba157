"""A driver of two stores dies at any step of a micro-batch, without Spark."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count as numbers
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from stateful_plans import QUERY, plan_of, results_of
from stateful_words import STORE, count, state_of

import statestores as ss
from statestores import failpoints
from statestores.arrow import put_many
from statestores.errors import CommitConflictError, StoreNotFoundError
from statestores.spark import OpenStores
from statestores.spark.given_root import GivenRoot
from statestores.spark.stateful_functions.batches import MicroBatches
from statestores.spark.stateful_functions.micro_batch import MicroBatch
from statestores.spark.stateful_functions.output import emitted_rows
from statestores.spark.stateful_functions.plan import StatefulPlan, add_stores
from statestores.spark.stateful_functions.task import StatefulTask, TaskResult
from statestores.staging.operator_file import read_record

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

_LENGTHS = ss.KeyValue("lengths", key=ss.utf8, value=ss.int64)
_WORDS = ["a", "b", "ä", "日本", "", "🦀", "a b", "a"]

_STEPS = (
    "json.written",
    "json.renamed",
    "publish.checked",
    "publish.committed",
    "publish.appended",
    "publish.finished",
)


class _DriverDiesError(Exception):
    """Nobody catches it on the way."""


def _twice(batches: Iterator[pa.RecordBatch], stores: OpenStores) -> Iterator[pa.Table]:
    """Count words in one store, and keep the counts in another one."""
    for table in count(batches, stores):
        put_many(stores["lengths"], pa.table({"key": table["word"], "value": table["count"]}))
        yield table


def _die() -> None:
    raise _DriverDiesError


class _Drivers:
    """Drivers of one operator, each of which knows only what is in the files."""

    def __init__(self, plan: StatefulPlan) -> None:
        self.plan = plan
        self.computed = 0
        self.when_computed: Callable[[], object] | None = None
        """Called when all tasks have staged."""

    def run(self, number: int) -> dict[str, int]:
        """Run a micro-batch in a life of its own; return what it has emitted."""

        def compute(task: StatefulTask) -> list[TaskResult]:
            self.computed += 1
            results = results_of(task, _words(number))
            if self.when_computed is not None:
                self.when_computed()
            return results

        batch = MicroBatch(query=QUERY, number=number, is_in_sequence=True)
        done = MicroBatches(self.plan).run(batch, compute)
        place = self.plan.outputs(done.write_id)
        tables = [rows for file in done.outputs for rows in emitted_rows(place, file)]
        rows = [(row["word"], row["count"]) for table in tables for row in table.to_pylist()]
        assert len(dict(rows)) == len(rows)
        return dict(rows)

    def dies(self, number: int, step: str, at: int) -> bool:
        """Run it until the driver comes to *step* for the time *at*; return whether it did."""
        failpoints.arm(step, _die, at=at)
        try:
            self.run(number)
        except _DriverDiesError:
            return True
        finally:
            failpoints.disarm()
        return False

    def have_committed(self, number: int) -> bool:
        """Return whether the micro-batch is the one that has the record."""
        record = read_record(self.plan.directory)
        return record is not None and record.number == number


def _words(number: int) -> list[str]:
    return _WORDS[: 4 + number % 5]


@pytest.fixture
def drivers(tmp_path: Path) -> _Drivers:
    """Drivers of an operator that counts words in two stores."""
    stores: tuple[ss.KeyValue[Any, Any], ...] = (STORE, _LENGTHS)
    add_stores(GivenRoot(tmp_path / "state"), stores, 2)
    plan = plan_of(tmp_path / "state", function=_twice)
    return _Drivers(replace(plan, specifications=stores))


@pytest.mark.parametrize("step", _STEPS)
def test_two_stores_have_a_micro_batch_or_not(step: str, drivers: _Drivers, tmp_path: Path) -> None:
    """Whatever a driver that dies has come to, the next one goes on from there.

    A driver of each micro-batch dies when it comes to the step once more than the one before it,
    until there is no such time.
    """
    state, totals = tmp_path / "state", Counter[str]()
    for number in numbers():
        has_died = drivers.dies(number, step, number + 1)
        is_committed, computed = drivers.have_committed(number), drivers.computed
        emitted = drivers.run(number)
        totals.update(_words(number))

        assert drivers.computed == computed + (not is_committed)
        assert emitted == {word: totals[word] for word in _words(number)}
        assert state_of(state) == state_of(state, "lengths") == dict(totals)
        if not has_died:
            break

    assert number >= 1


def test_a_second_driver_that_gives_up_takes_nothing_away(
    drivers: _Drivers, tmp_path: Path
) -> None:
    """Two drivers had one checkpoint, and the tasks of one of them failed in a micro-batch.

    What it had staged goes, and that of the other driver, which has the same name, went as well.
    The other one committed: the micro-batch counted then, and its changes and rows were nowhere, so
    that the state had to be put back. It is told before it commits, and goes on when it begins
    again; once it is about to commit, nothing is taken from it.
    """
    totals = Counter[str]()
    for number, step in enumerate(("", *_STEPS)):
        batch = MicroBatch(query=QUERY, number=number, is_in_sequence=True)
        give_up = partial(MicroBatches(drivers.plan).give_up, batch)
        if step:
            failpoints.arm(step, give_up)
        else:
            drivers.when_computed = give_up
            with pytest.raises(StoreNotFoundError, match="another driver of the query"):
                drivers.run(number)
            drivers.when_computed = None
            assert not drivers.have_committed(number)
        try:
            emitted = drivers.run(number)
        finally:
            failpoints.disarm()
        totals.update(_words(number))

        assert emitted == {word: totals[word] for word in _words(number)}
        assert state_of(tmp_path / "state") == dict(totals)
        assert state_of(tmp_path / "state", "lengths") == dict(totals)


def test_a_second_driver_that_commits_first_is_named(drivers: _Drivers, tmp_path: Path) -> None:
    """The driver that came second was told that another query had used the function since.

    And to begin with a new checkpoint, which counts all of its input once more. With the one that
    it has, it gets what the other one has emitted.
    """
    twin = _Drivers(drivers.plan)
    drivers.when_computed = partial(twin.run, 0)
    with pytest.raises(CommitConflictError, match="start the query again with the checkpoint"):
        drivers.run(0)
    drivers.when_computed = None

    assert drivers.run(0) == twin.run(0) == dict(Counter(_words(0)))
    assert (drivers.computed, twin.computed) == (1, 1)
    assert state_of(tmp_path / "state") == dict(Counter(_words(0)))
