"""At least once, a process that was stopped writes nothing once others have its tasks."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import forked_programs
import psutil
import pytest
from confluent_kafka import KafkaError, KafkaException
from kafka_cluster import TestCluster, wait_for
from kafka_zombie import Sets

from statestores.errors import BrokerError, InstanceFencedError
from statestores.kafka.group import confirmation
from statestores.kafka.group.confirmation import Confirmation
from statestores.kafka.plan import TaskKey
from statestores.kafka.tasks.assigned_tasks import AssignedTasks
from statestores.processing import Record
from statestores.spi import TopicPartition

_PROGRAM = Path(__file__).parents[1] / "kit" / "kafka_zombie.py"
_KEYS = 3
_PLACE = TopicPartition("numbers", 0)


@pytest.mark.crash
@pytest.mark.timeout(300)
@pytest.mark.spec("KFK-2", "KFK-44")
@pytest.mark.parametrize("protocol", ["consumer", pytest.param("classic", marks=pytest.mark.long)])
def test_a_process_that_was_stopped_overwrites_nothing(
    cluster: TestCluster, tmp_path: Path, protocol: str
) -> None:
    """It went on with its commit, over what another instance had made of its tasks since.

    Its rows, of before, stood in the changelog behind those of the new owner, and whoever restored
    the store lacked what that one had counted: 30 of 100 records, where it was stopped for longer
    than the session may be silent. Now it asks the group before it writes a change.
    """
    name = cluster.name("sets")
    sets = Sets(name)
    cluster.create(sets.numbers, sets.sets)
    cluster.miss_soon(name)
    given = 0

    def give() -> None:
        nonlocal given
        numbers = range(given, given + 2 * _KEYS)
        cluster.append(sets.numbers, [Record(f"key-{n % _KEYS}", n, 1 + n) for n in numbers])
        given += 2 * _KEYS

    def run(state: str) -> None:
        ended = forked_programs.run(_PROGRAM, cluster.address, name, tmp_path / state, protocol)
        assert ended.returncode == 0, ended.stderr

    give()
    arguments = (cluster.address, name, tmp_path / "stopped", protocol, 1)
    with forked_programs.Forked(_PROGRAM, *arguments) as stopped:
        process = psutil.Process(stopped.process)
        wait_for(lambda: process.status() == psutil.STATUS_STOPPED, "the stop", stopped.errors)
        for _ in range(2):
            run("other")
            give()
        process.resume()
        assert stopped.wait() == 0, stopped.errors()
    give()
    run("restored")

    last = {each.key: each.value for each in cluster.read(sets.sets)}
    assert {number for numbers in last.values() for number in numbers} == set(range(given))


class _Group:
    """Answers commits with what it was told to, then as it takes them; it stands for the client."""

    def __init__(self, *answers: int) -> None:
        self.answers = list(answers)
        self.asked = 0

    def commit(self, *, offsets: list[Any], asynchronous: bool) -> list[Any]:
        self.asked += 1
        error = self.answers.pop(0) if self.answers else None
        if error is None:
            return offsets
        raise KafkaException(KafkaError(error))


@pytest.mark.spec("KFK-44")
@pytest.mark.parametrize("code", [KafkaError.UNKNOWN_MEMBER_ID, KafkaError.FENCED_MEMBER_EPOCH])
def test_a_member_that_is_given_up_is_told(code: int) -> None:
    """Whether it asks, or commits."""
    with pytest.raises(InstanceFencedError, match=r"session\.timeout\.ms"):
        Confirmation().ask({_PLACE: 1}, _Group(code))  # type: ignore[arg-type]  # for a consumer
    with pytest.raises(InstanceFencedError):
        Confirmation().commit({_PLACE: 1}, _Group(code))  # type: ignore[arg-type]


@pytest.mark.spec("KFK-44")
def test_a_failure_of_one_partition_is_one() -> None:
    """The client returns it, and raises nothing."""
    refused = SimpleNamespace(error=KafkaError(KafkaError.UNKNOWN_MEMBER_ID))
    group: Any = SimpleNamespace(commit=lambda **_: [SimpleNamespace(error=None), refused])

    with pytest.raises(InstanceFencedError):
        Confirmation().ask({_PLACE: 1}, group)


@pytest.mark.spec("KFK-44")
def test_a_member_is_asked_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each commit of offsets is an answer, which holds for as long as no group misses a member."""
    group: Any = _Group()
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    asking = Confirmation()

    asking.ask({_PLACE: 1}, group)
    asking.ask({_PLACE: 1}, group)
    assert group.asked == 1
    asking.commit({_PLACE: 2}, group)
    now += 0.9
    asking.ask({_PLACE: 2}, group)
    assert group.asked == 2
    now += 0.2
    asking.ask({_PLACE: 2}, group)
    assert group.asked == 3


@pytest.mark.spec("KFK-44")
def test_a_member_waits_for_a_generation_it_has_not_heard_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is told so too when it is no member any more; then that comes next."""
    monkeypatch.setattr(confirmation, "_PAUSE_SECONDS", 0.0)
    group: Any = _Group(KafkaError.STALE_MEMBER_EPOCH, KafkaError.NOT_COORDINATOR)
    Confirmation().ask({_PLACE: 1}, group)
    assert group.asked == 3
    gone: Any = _Group(KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID)
    with pytest.raises(InstanceFencedError):
        Confirmation().ask({_PLACE: 1}, gone)


@pytest.mark.spec("KFK-44")
def test_a_group_that_refuses_ends_the_run() -> None:
    """A right that is missing does not come."""
    group: Any = _Group(KafkaError.GROUP_AUTHORIZATION_FAILED)
    with pytest.raises(BrokerError, match="right"):
        Confirmation().ask({_PLACE: 1}, group)


@pytest.mark.spec("KFK-44")
def test_stores_keep_nothing_that_the_group_refuses() -> None:
    """They committed first, and never took what others had written before their own rows."""
    done: list[str] = []

    def refuse(offsets: Any, consumer: Any) -> None:
        done.append("offsets")
        raise InstanceFencedError("given up")

    nothing: Any = None
    writer: Any = SimpleNamespace(
        end_step=lambda: done.append("flushed"),
        confirm=lambda committed, consumer: done.append(f"asked with {committed[_PLACE]}"),
        commit=lambda offsets, consumer: None,
        commit_offsets=refuse,
    )
    task: Any = SimpleNamespace(
        has_uncommitted=True,
        runtime=SimpleNamespace(commit_requested=False),
        committed={_PLACE: 1},
        prepare_commit=lambda: {_PLACE: 2},
        append_changes=lambda: iter([None]),
        commit_stores=lambda: done.append("stores"),
    )
    tasks = AssignedTasks(
        nothing,
        nothing,
        nothing,
        writer,
        nothing,
        commit_records=1,
        least_column_rows=1,
        least_run_rows=1,
        cache_max_bytes=0,
        clock_ms=lambda: 0,
    )
    tasks.running[TaskKey("part", 0)] = task

    with pytest.raises(InstanceFencedError):
        tasks.commit(0, nothing)

    assert done == ["flushed", "asked with 1", "flushed", "asked with 1", "offsets"]
