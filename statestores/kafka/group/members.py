"""Who is in the group, and what each has, as the broker's coordinator said lately.

A member that is assigned nothing may never be told so: with KIP-848 the client calls back when an
assignment changes, and nothing that stays nothing does not.
"""

import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import ConsumerGroupState, KafkaException

from statestores.errors import TopologyMismatchError
from statestores.kafka.client_settings import CLIENT_LOGGER
from statestores.kafka.cluster import REQUEST_SECONDS, Cluster
from statestores.spi import TopicPartition

if TYPE_CHECKING:
    from concurrent.futures import Future

    from statestores.kafka.plan import Plan

_LOOK_SECONDS = 1.0
_SETTLED_SECONDS = 10.0
"""How old an answer may be of a group in which nothing moves. Each question is a risk: librdkafka
may abort the process when the coordinator goes away meanwhile (see the caveats)."""


class Members(NamedTuple):
    """An answer."""

    owners: Mapping[TopicPartition, str]
    """Which client has which partition. What moves just now has no owner."""

    clients: frozenset[str]
    """All members, by their clients' names."""

    is_stable: bool
    """Whether each member has what it is meant to have, and nothing moves."""


class GroupMembers:
    """Used by the thread that polls, which it never keeps waiting."""

    def __init__(self, plan: "Plan", cluster: Cluster, *, client: str) -> None:
        """Know nothing yet; this member's name in the group is *client*."""
        self._group = plan.application
        self._inputs = plan.inputs
        self._cluster = cluster
        self.client = client
        self.latest: Members | None = None
        self._asked: Future[Any] | None = None
        self._due = 0.0

    def look(self) -> None:
        """Take an answer if one has come, or ask: once a second, or less if nothing moves."""
        now = time.monotonic()
        if self._asked is None:
            if now >= self._due:
                self._due = now + _LOOK_SECONDS
                self._asked = self._cluster.members(self._group)
            return
        if not self._asked.done():
            return
        asked, self._asked = self._asked, None
        try:
            described = asked.result()
        except KafkaException as error:  # the next answer will do
            CLIENT_LOGGER.debug("the group's members are not known: %s", error)
            return
        self.latest = Members(
            owners={
                TopicPartition(place.topic, place.partition): str(member.client_id)
                for member in described.members
                for place in member.assignment.topic_partitions
            },
            clients=frozenset(str(member.client_id) for member in described.members),
            is_stable=described.state is ConsumerGroupState.STABLE,
        )
        if self.latest.is_stable and self.client in self.latest.clients:
            self._due = time.monotonic() + _SETTLED_SECONDS

    def forget(self) -> None:
        """Believe no answer to what was asked before now: this member's assignment has changed."""
        self.latest = self._asked = None
        self._due = 0.0

    @property
    def nothing_is_left(self) -> bool:
        """Whether this one is a member, and others have every partition; any thread may ask."""
        latest = self.latest
        return (
            latest is not None
            and self.client in latest.clients
            and latest.is_stable
            and self._inputs <= latest.owners.keys()
            and self.client not in latest.owners.values()
        )


def check_members(group: str, topics: Collection[str], cluster: Cluster) -> None:
    """Accept who is in *group*, as far as the cluster says: all read some of *topics* (KFK-46).

    Raises:
        TopologyMismatchError: One reads another topic.
    """
    try:
        described = cluster.members(group).result(REQUEST_SECONDS)
    except (KafkaException, TimeoutError) as error:  # there is no group yet, or nobody may look
        CLIENT_LOGGER.debug("the group's members are not known: %s", error)
        return
    for member in described.members:
        read = {str(each.topic) for each in member.assignment.topic_partitions}
        others = sorted(read.difference(topics))
        if others:
            raise TopologyMismatchError(
                f"the member {str(member.client_id)!r} of the group {group!r}, at "
                f"{member.host}, reads {', '.join(map(repr, others))}, and this topology does not: "
                "two topologies of one name would write to the same changelogs. Give this one a "
                "name of its own; or, if it is to replace the other, stop all instances first, and "
                "wait until the session of one that was killed is over"
            )
