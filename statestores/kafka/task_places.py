"""Where the tasks of an instance are, and how far their stores: what others may ask (KFK-19)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from statestores.kafka.plan import Plan, TaskKey
from statestores.kafka.tasks.assigned_tasks import AssignedTasks
from statestores.kafka.tasks.restore import Restore
from statestores.kafka.tasks.restorer import Restorer
from statestores.spi import TopicPartition

PlaceState: TypeAlias = Literal["running", "restoring", "standby"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogPlace:
    """How far a store is in its changelog."""

    store: str
    """The store's name."""

    changelog: TopicPartition
    """The partition of its topic."""

    next_offset: int
    """The first offset that the store does not reflect."""

    end: int
    """The offset after the last that was seen there: the store's own, where the task runs."""

    @property
    def lag(self) -> int:
        """How many offsets the store is behind."""
        return max(0, self.end - self.next_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlace:
    """A task of which this instance has stores."""

    part: str
    """The name of the part of the topology."""

    partition: int
    """The partition."""

    state: PlaceState
    """What becomes of it here. A standby follows what another instance writes."""

    stores: tuple[ChangelogPlace, ...]
    """Its stores; of one that is being restored, those that are not there yet."""


def task_places(plan: Plan, tasks: AssignedTasks, restorer: Restorer) -> tuple[TaskPlace, ...]:
    """Return where everything is; any thread may ask."""
    names = {plan.task_id(key): key for key in plan.task_keys}
    return (
        *(
            _place(
                key,
                "running",
                [
                    ChangelogPlace(store=name, changelog=each.changelog, next_offset=at, end=at)
                    for name, each in task.stores.logged.items()
                    for at in [each.reflected]
                ],
            )
            for key, task in list(tasks.running.items())
        ),
        *(_place(key, "restoring", _ways(each)) for key, each in list(tasks.restoring.items())),
        *(_place(names[each.task], "standby", _ways(each)) for each in restorer.standbys()),
    )


def names_of(places: Iterable[TaskPlace], state: PlaceState) -> tuple[str, ...]:
    """Return the names of the tasks that are in *state*."""
    found = sorted((each.part, each.partition) for each in places if each.state == state)
    return tuple(f"{part}_{partition}" for part, partition in found)


def _place(key: TaskKey, state: PlaceState, stores: list[ChangelogPlace]) -> TaskPlace:
    return TaskPlace(part=key.part, partition=key.partition, state=state, stores=tuple(stores))


def _ways(restore: Restore) -> list[ChangelogPlace]:
    return [
        ChangelogPlace(
            store=way.logged.store.name,
            changelog=place,
            next_offset=at,
            end=max(way.end, at),
        )
        for place, way in list(restore.remaining.items())
        for at in [way.kept]
    ]
