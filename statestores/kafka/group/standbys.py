"""Which standbys this instance keeps: by a rule over the members of the group (KFK-17).

Every instance asks the group who there is, and applies the same rule, so nobody has to agree. The
group's assignment of tasks is the broker's; a standby follows it, and does not lead it.
"""

from collections.abc import Callable, Mapping
from functools import partial

from statestores.kafka.group.members import GroupMembers, Members
from statestores.kafka.plan import Plan, TaskKey
from statestores.kafka.tasks.assigned_tasks import AssignedTasks
from statestores.kafka.tasks.restorer import Restorer
from statestores.kafka.tasks.task_stores import TaskStores


class Standbys:
    """Used by the thread that polls, which it never keeps waiting."""

    def __init__(
        self,
        plan: Plan,
        group: GroupMembers,
        restorer: Restorer,
        open_stores: Callable[[TaskKey], TaskStores],
        *,
        copies: int,
    ) -> None:
        """Keep *copies* of each task in the group."""
        self._plan = plan
        self._group = group
        self._restorer = restorer
        self._open_stores = open_stores
        self._copies = copies
        self._seen: Members | None = None
        self._kept: dict[TaskKey, None] = {}

    def look(self, here: AssignedTasks) -> None:
        """Keep what the rule says, as far as an answer has come; *here* are this one's own tasks.

        A task without an owner is in the middle of a move: its standby stays.
        """
        if not self._copies:
            return
        self._group.look()
        latest = self._group.latest
        if latest is None or latest is self._seen:
            return
        self._seen = latest
        chosen = self._plan.standbys(latest.owners, latest.clients, self._copies)
        mine: Mapping[TaskKey, object] = {**here.running, **here.restoring}
        kept = {
            key: partial(self._open_stores, key)
            for key in self._plan.task_keys
            if key not in mine
            and self._plan.part(key).stores
            and (self._group.client in chosen[key] if key in chosen else key in self._kept)
        }
        self._kept = dict.fromkeys(kept)
        wanted = {self._plan.task_id(key): each for key, each in kept.items()}
        if wanted.keys() != {each.task for each in self._restorer.standbys()}:
            self._restorer.follow(wanted)
