"""Resetting a topology: what goes, what stays, who keeps it from going, and a crash in between."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dying import Died, die
from local_lives import (
    COUNTS,
    ORDERS,
    PAID,
    SEEN,
    append_orders,
    payment,
    run_all,
    topology,
    written,
)

import statestores as ss
from statestores import failpoints
from statestores.errors import InvalidTypeError, StoreLockedError, TopologyMismatchError
from statestores.files.directory_lock import DirectoryLock
from statestores.processing import LocalTopics, Topic, Topology
from statestores.processing.local import Items, ParquetSink, Reset, plan_reset, run
from statestores.processing.local.sharing.instances import InstanceFile
from statestores.spi import TopicPartition

_ORDERS = 60
_MOST_STEPS = 40

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


def _plan(directory: Path, made: Topology | None = None, **more: Any) -> Reset:
    return plan_reset(
        made or topology(), state=directory / "state", topics=directory / "topics", **more
    )


def _run(directory: Path) -> None:
    run_all(directory, backend="memory")


def _begun(directory: Path) -> None:
    append_orders(directory, 0, _ORDERS)
    _run(directory)


@pytest.mark.spec("PRC-73")
def test_a_reset_says_what_it_removes_and_removes_it(tmp_path: Path) -> None:
    """The state and the internal topic; the next run writes the outputs a second time."""
    _begun(tmp_path)
    once = written(tmp_path)
    once_paid = [number for number in range(_ORDERS) if payment(number) is not None]
    planned = _plan(tmp_path)

    assert [(item.what, item.name) for item in planned.items] == [
        ("internal topic", "lives-by-value-repartition"),
        ("state", "lives"),
    ]
    assert planned.positions == {
        TopicPartition("orders", 0): _ORDERS,
        TopicPartition("payments", 0): len(once_paid),
    }
    assert written(tmp_path) == once  # nothing was removed yet
    planned.carry_out()
    assert _plan(tmp_path).items == ()
    _run(tmp_path)
    twice = written(tmp_path)
    for name, records in once.items():
        values = [each.record for each in records]
        assert [each.record for each in twice[name]] == values + values, name


@pytest.mark.spec("PRC-73")
def test_outputs_are_removed_when_that_is_asked_for(tmp_path: Path) -> None:
    """Then the next run leaves what the first one did; the input stays."""
    _begun(tmp_path)
    once = written(tmp_path)
    planned = _plan(tmp_path, outputs=True)

    assert {item.name for item in planned.items if item.what == "output topic"} == {
        SEEN.name,
        PAID.name,
        COUNTS.name,
    }
    planned.carry_out()
    with LocalTopics(tmp_path / "topics") as topics:
        assert topics.topic(ORDERS).end_offset() == _ORDERS
        assert topics.partitions("seen") is None
    _run(tmp_path)
    assert written(tmp_path) == once


@pytest.mark.spec("PRC-73")
def test_sources_are_read_again(tmp_path: Path) -> None:
    """Their topics lie in the state; what a sink has written stays, and is not mixed with more."""
    words = Topic("words", key=ss.utf8, value=ss.utf8)
    made = Topology("sourced")
    made.stream(words).to(Topic("out", key=ss.utf8, value=ss.utf8))

    def run_it(files: str) -> int:
        return run(
            made,
            state=tmp_path / "state",
            topics=tmp_path / "topics",
            sources={"words": Items(["a", "b"])},
            sinks={"out": ParquetSink(tmp_path / files)},
            until="idle",
            backend="memory",
        ).processed

    assert (run_it("one"), run_it("one")) == (2, 0)
    planned = _plan(tmp_path, made, outputs=True)
    assert planned.sources == ("words",)
    planned.carry_out()
    assert run_it("two") == 2


@pytest.mark.spec("PRC-73")
def test_the_internal_topics_of_an_earlier_form_go_too(tmp_path: Path) -> None:
    """A topology that was changed beyond what its state takes is what a reset is for."""
    _begun(tmp_path)
    changed = Topology("lives")
    changed.stream(ORDERS).to(SEEN)
    planned = _plan(tmp_path, changed)
    planned.carry_out()

    assert planned.items[0].name == "lives-by-value-repartition"
    assert not (tmp_path / "topics" / "lives-by-value-repartition").exists()


@pytest.mark.spec("PRC-74")
def test_nothing_is_reset_while_somebody_runs_it(tmp_path: Path) -> None:
    """An instance, before and after the plan; a task, or a topic, of a program that is none."""
    _begun(tmp_path)
    planned = _plan(tmp_path)
    with InstanceFile(tmp_path / "state", "lives", {}):
        with pytest.raises(StoreLockedError, match="runs 'lives'"):
            _plan(tmp_path)
        with pytest.raises(StoreLockedError, match="runs 'lives'"):
            planned.carry_out()
    for held in ("state/@tasks/0_0", "topics/lives-by-value-repartition/1"):
        lock = DirectoryLock.acquire(tmp_path / held)
        with pytest.raises(StoreLockedError, match="is open in process"):
            planned.carry_out()
        lock.release()

    append_orders(tmp_path, _ORDERS, _ORDERS)
    _run(tmp_path)
    append_orders(tmp_path / "alone", 0, 2 * _ORDERS)
    _run(tmp_path / "alone")
    assert written(tmp_path) == written(tmp_path / "alone")


@pytest.mark.spec("PRC-74")
def test_the_state_of_another_topology_is_not_reset(tmp_path: Path) -> None:
    """Nor what is no topology, nor what is not there."""
    assert _plan(tmp_path).items == ()
    _plan(tmp_path).carry_out()
    assert not (tmp_path / "state").exists()
    _begun(tmp_path)
    other = Topology("other")
    other.stream(ORDERS).to(SEEN)

    with pytest.raises(TopologyMismatchError, match="of the topology 'lives'"):
        _plan(tmp_path, other)
    with pytest.raises(InvalidTypeError):
        plan_reset("lives", state=tmp_path, topics=tmp_path)  # type: ignore[arg-type]


@pytest.mark.spec("PRC-74")
@pytest.mark.parametrize(
    "failpoint",
    [
        "reset.removed",
        *(pytest.param(each, marks=pytest.mark.long) for each in ("reset.begun", "json.renamed")),
    ],
)
def test_a_reset_that_is_killed_is_ended_by_the_next_one(
    tmp_path: Path, armed: Callable[..., None], failpoint: str
) -> None:
    """Wherever it was: until it is ended, nobody runs on what is left."""
    _begun(tmp_path)
    once = written(tmp_path)
    for step in range(1, _MOST_STEPS):
        armed(failpoint, die, at=step)
        try:
            _plan(tmp_path, outputs=True).carry_out()
        except Died:
            failpoints.disarm()
            with pytest.raises(TopologyMismatchError, match="has not ended"):
                _run(tmp_path)
            rest = _plan(tmp_path)
            assert rest.is_begun
            rest.carry_out()
            assert _plan(tmp_path, outputs=True).items == ()
            _run(tmp_path)
            assert written(tmp_path) == once
        else:
            failpoints.disarm()
            break

    assert step > 1
