"""Which standbys this instance keeps: by a rule over the members of the group (KFK-17).

Every instance asks the group who there is, and applies the same rule, so nobody has to agree. The
group's assignment of tasks is the broker's; a standby follows it, and does not lead it.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

from statestores.kafka.client_settings import CLIENT_LOGGER
from statestores.kafka.cluster import Cluster, owners
from statestores.kafka.plan import Plan, TaskKey
from statestores.kafka.tasks.assigned_tasks import AssignedTasks
from statestores.kafka.tasks.restorer import Restorer
from statestores.kafka.tasks.task_stores import TaskStores

if TYPE_CHECKING:
    from concurrent.futures import Future

_LOOK_SECONDS = 1.0


class Standbys:
    """Used by the thread that polls, which it never keeps waiting."""

    def __init__(
        self,
        plan: Plan,
        cluster: Cluster,
        restorer: Restorer,
        open_stores: Callable[[TaskKey], TaskStores],
        *,
        copies: int,
        client: str,
    ) -> None:
        """Keep *copies* of each task in the group; this member's name there is *client*."""
        self._plan = plan
        self._cluster = cluster
        self._restorer = restorer
        self._open_stores = open_stores
        self._copies = copies
        self._client = client
        self._asked: Future[Any] | None = None
        self._due = 0.0
        self._kept: dict[TaskKey, None] = {}

    def look(self, here: AssignedTasks) -> None:
        """Keep what the rule says, as far as an answer has come; *here* are this one's own tasks.

        A task without an owner is in the middle of a move: its standby stays.
        """
        if not self._copies:
            return
        if self._asked is None:
            if time.monotonic() >= self._due:
                self._due = time.monotonic() + _LOOK_SECONDS
                self._asked = self._cluster.members(self._plan.application)
            return
        if not self._asked.done():
            return
        asked, self._asked = self._asked, None
        try:
            places, clients = owners(asked.result())
        except KafkaException as error:  # the next answer will do
            CLIENT_LOGGER.debug("the group's members are not known: %s", error)
            return
        chosen = self._plan.standbys(places, clients, self._copies)
        mine: Mapping[TaskKey, object] = {**here.running, **here.restoring}
        kept = {
            key: partial(self._open_stores, key)
            for key in self._plan.task_keys
            if key not in mine
            and self._plan.part(key).stores
            and (self._client in chosen[key] if key in chosen else key in self._kept)
        }
        self._kept = dict.fromkeys(kept)
        wanted = {self._plan.task_id(key): each for key, each in kept.items()}
        if wanted.keys() != {each.task for each in self._restorer.standbys()}:
            self._restorer.follow(wanted)
