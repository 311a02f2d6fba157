"""What is believed of the group's members: what was asked lately, while nothing moves."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState

from statestores.kafka.group import members
from statestores.kafka.group.members import GroupMembers
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
