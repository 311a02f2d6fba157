"""Whether the group has assigned all partitions of a task to one instance, as it has to."""

import time
from collections.abc import Mapping

from statestores.errors import TopologyMismatchError
from statestores.kafka.plan import Plan, TaskKey
from statestores.spi import TopicPartition

_CO_PARTITION_SECONDS = 60.0
"""How long a task may have a part of its partitions: longer than any rebalance."""


def has_all_partitions(plan: Plan, key: TaskKey, owned: Mapping[TopicPartition, float]) -> bool:
    """Return whether the task *key* of *plan* has all of its partitions among those *owned*.

    For each of those it is known since when, by the monotonic clock.

    Raises:
        TopologyMismatchError: The topics have more partitions than the plan has tasks; or another
            instance has had a part of them for longer than any rebalance.
    """
    places = plan.places(key)
    planned = plan.tasks_of(key.part)
    here = [each for each in places if each in owned]
    if key.partition >= planned:
        raise TopologyMismatchError(
            f"the group assigns partition {key.partition} of {here[0].topic!r}, which had "
            f"{planned} when this instance began: keys are elsewhere now than their rows; "
            "start again to be told which of the application's own topics do not fit"
        )
    missing = [place for place in places if place not in owned]
    now = time.monotonic()
    if missing and any(now - owned[each] > _CO_PARTITION_SECONDS for each in here):
        raise TopologyMismatchError(
            f"the group assigns {', '.join(map(str, set(places) - set(missing)))} to this "
            f"instance and {', '.join(map(str, missing))} to another, and one task reads "
            "them all; have the broker's assignor 'range' enabled, and no other members "
            f"in the group {plan.application!r}"
        )
    return not missing
