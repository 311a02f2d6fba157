"""What is believed of the group's members: what was asked lately, while nothing moves."""

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException
from kafka_cluster import TestCluster
from kafka_threads import ThreadedInstance

import statestores as ss
from statestores.errors import TopologyMismatchError
from statestores.kafka import run
from statestores.kafka.group import members
from statestores.kafka.group.members import GroupMembers, check_members
from statestores.kafka.plan import Plan
from statestores.processing import Topic, Topology

_TOPIC: Topic[bytes, bytes] = Topic("orders", partitions=2)


class _Coordinator:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[Future[Any]] = []

    def members(self, group: str) -> "Future[Any]":
        """Note who asks."""
        assert group == "shop"
        self.asked.append(Future())
        return self.asked[-1]

    def answer(self, state: ConsumerGroupState, **owned: list[int]) -> None:
        """Answer the last question: which client has which partitions."""
        members = [
            SimpleNamespace(
                client_id=client,
                assignment=SimpleNamespace(
                    topic_partitions=[
                        SimpleNamespace(topic=_TOPIC.name, partition=number) for number in numbers
                    ]
                ),
            )
            for client, numbers in owned.items()
        ]
        self.asked[-1].set_result(SimpleNamespace(state=state, members=members))


@pytest.fixture
def coordinator() -> _Coordinator:
    return _Coordinator()


@pytest.fixture
def group(coordinator: Any, monkeypatch: pytest.MonkeyPatch) -> GroupMembers:
    monkeypatch.setattr(members, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(members, "_SETTLED_SECONDS", 0.0)
    shop = Topology("shop")
    shop.stream(_TOPIC).to(Topic("copies", partitions=2))
    plan = Plan(shop.build(), {_TOPIC.name: 2, "copies": 2})
    return GroupMembers(plan, coordinator, client="me")


@pytest.mark.spec("KFK-24")
def test_what_was_asked_before_an_assignment_changed_is_not_believed(
    coordinator: _Coordinator, group: GroupMembers
) -> None:
    """A member that had lost everything took an old answer, and ended with its input unread."""
    group.look()
    coordinator.answer(ConsumerGroupState.STABLE, me=[], other=[0, 1])
    group.look()
    before = group.nothing_is_left

    group.look()
    group.forget()
    coordinator.answer(ConsumerGroupState.STABLE, me=[], other=[0, 1])  # of what was asked before
    group.look()
    meanwhile = group.nothing_is_left
    coordinator.answer(ConsumerGroupState.STABLE, me=[], other=[0, 1])
    group.look()

    assert (before, meanwhile, group.nothing_is_left) == (True, False, True)


@pytest.mark.spec("KFK-24")
def test_nothing_is_left_only_once_nothing_moves(
    coordinator: _Coordinator, group: GroupMembers
) -> None:
    """A new member was ready before the others had given up what it was to get."""
    for state, expected in (
        (ConsumerGroupState.UNKNOWN, False),
        (ConsumerGroupState.STABLE, True),
    ):
        group.look()
        coordinator.answer(state, me=[], other=[0, 1])
        group.look()

        assert group.nothing_is_left is expected


def _counting(name: str, topic: Topic[str, int]) -> Topology:
    topology = Topology(name)
    counts = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
    topology.stream(topic).group_by_key().count(counts)
    return topology


@pytest.mark.spec("KFK-46")
@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_another_topology_of_the_name_is_refused_while_one_runs(
    cluster: TestCluster, tmp_path: Path, protocol: Any
) -> None:
    """A copy with another input joined the group, and counted in the changelog of the first.

    Each got what it reads, so both ran: 30 were counted of a key that had come 20 times in one.
    """
    name = cluster.name("counting")
    one = Topic(f"{name}-one", key=ss.utf8, value=ss.int64, partitions=1)
    other = Topic(f"{name}-other", key=ss.utf8, value=ss.int64, partitions=1)
    cluster.create(one, other)

    def run_beside(topology: Topology, state: str) -> None:
        run(
            topology,
            bootstrap_servers=cluster.address,
            state=tmp_path / state,
            backend="sqlite",
            group_protocol=protocol,
            until="idle",
        )

    running = ThreadedInstance(
        cluster, _counting(name, one), tmp_path / "one", group_protocol=protocol
    )
    with running:
        running.wait_for("running", 1)
        with pytest.raises(TopologyMismatchError, match=f"{one.name}.*a name of its own"):
            run_beside(_counting(name, other), "other")
    run_beside(_counting(name, one), "one")


@pytest.mark.spec("KFK-46")
def test_a_member_that_reads_less_is_let_be() -> None:
    """What reads more is what is to come after it; and who does not answer is not asked again."""

    def member(*topics: str) -> Any:
        places = [SimpleNamespace(topic=each) for each in topics]
        return SimpleNamespace(
            client_id="it", host="here", assignment=SimpleNamespace(topic_partitions=places)
        )

    def cluster(answer: Callable[[float], Any]) -> Any:
        return SimpleNamespace(members=lambda group: SimpleNamespace(result=answer))

    def silence(seconds: float) -> Any:
        raise KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))

    reading = SimpleNamespace(members=[member(), member("a")])
    check_members("counting", ["a", "b"], cluster(lambda _: reading))
    check_members("counting", ["b"], cluster(silence))

    with pytest.raises(TopologyMismatchError, match="'a'"):
        check_members("counting", ["b"], cluster(lambda _: reading))
