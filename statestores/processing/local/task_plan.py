"""The tasks of a topology on a state: which there are, in an order that all processes know."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeAlias

from statestores.changelog.options import ChangelogOptions
from statestores.metrics import RecordingLevel, set_recording_level
from statestores.processing.local.edge_task import EdgeTask
from statestores.processing.local.identity import StateIdentity
from statestores.processing.local.local_task import LocalTask
from statestores.processing.local.outputs import TopicOutputs
from statestores.processing.local.partition_log import task_mark
from statestores.processing.local.topics import AnyTopic
from statestores.processing.runtime import LEAST_COLUMN_ROWS, LEAST_RUN_ROWS
from statestores.processing.topology import Graph, SubTopology
from statestores.spi import Durability
from statestores.state_root import StateRoot
from statestores.tasks import Standby, TaskId, open_task

RunningTask: TypeAlias = LocalTask | EdgeTask
"""A task that is open, of the topology or at its edge."""

_STEP = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTask:
    """A task that may be opened."""

    name: str
    """Its name, such as ``0_1``."""

    part: str
    """The part of the topology, or ``@source/`` or ``@sink/`` and a topic."""

    partition: int
    """The partition of its stores."""

    stores: tuple[str, ...]
    """The stores that are worth a copy: none of a source or sink, whose stores are small."""

    reads: tuple[str, ...] = ()
    """The topics that it reads, unless it is that of a sink."""

    is_global: bool = False
    """Whether it keeps a global table."""

    global_stores: tuple[str, ...] = ()
    """The stores of global tables that have to be there before it is opened."""

    open: Callable[[ExitStack, Sequence[Standby]], RunningTask]
    """Opens it, for the stack to close, with the copies that take the places of its stores.

    Raises:
        StoreLockedError: Another process has it.
        StateStoreError: A store, a file or a topic cannot be opened.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSettings:
    """How tasks are opened."""

    backend: str | None
    """The backend of new stores."""

    options: Mapping[str, object] | None
    """The backend's own options."""

    durability: Durability
    """What a commit survives."""

    changelog_options: ChangelogOptions | None = None
    """How the changelogs of stores are written; ``None``: as ever."""

    clock_ms: Callable[[], int]
    """The wall clock."""

    is_detailed: bool
    """Whether each call of a store and each record of a step is measured: Kafka's level DEBUG."""

    least_column_rows: int = LEAST_COLUMN_ROWS
    """From how many records on a batch is processed as columns."""

    least_run_rows: int = LEAST_RUN_ROWS
    """From how many records on a smaller batch is processed as a run."""

    cache_max_bytes: int = 0
    """Memory of a task in which updates wait for its commit."""


def plan_parts(
    graph: Graph,
    counts: Mapping[str, int],
    root: StateRoot,
    identity: StateIdentity,
    topics: Mapping[str, AnyTopic],
    settings: TaskSettings,
    global_stores: dict[str, Any],
) -> list[PlannedTask]:
    """Return the tasks of *graph*, those of global tables first; the root has their stores.

    What keeps a global table puts its stores into *global_stores*, where joins find them.
    """
    planned = []
    for part in sorted(graph.sub_topologies, key=lambda each: not each.is_global):
        for number in range(graph.task_count(part, counts)):
            opening = _PartOpening(
                part, number, graph, root, identity, topics, settings, global_stores
            )
            planned.append(
                PlannedTask(
                    name=str(opening.task_id),
                    part=part.name,
                    partition=number,
                    stores=tuple(store.name for store in part.stores),
                    reads=tuple(topic.name for topic in part.source_topics),
                    is_global=part.is_global,
                    global_stores=part.global_stores,
                    open=opening,
                )
            )
    return planned


class _PartOpening:
    """Opens one task of a part."""

    def __init__(
        self,
        part: SubTopology,
        number: int,
        graph: Graph,
        root: StateRoot,
        identity: StateIdentity,
        topics: Mapping[str, AnyTopic],
        settings: TaskSettings,
        global_stores: dict[str, Any],
    ) -> None:
        self.task_id = TaskId(identity.groups[part.name], number)
        self._part, self._graph, self._root, self._state = part, graph, root, identity.state
        self._topics, self._settings, self._global_stores = topics, settings, global_stores

    def __call__(self, stack: ExitStack, standbys: Sequence[Standby] = ()) -> LocalTask:
        part, graph, settings, number = (
            self._part,
            self._graph,
            self._settings,
            self.task_id.partition,
        )
        mark = task_mark(self._state, self.task_id.group, number)
        written = [*part.sink_topics, *graph.errors.dead_letter_topics]
        outputs = TopicOutputs(
            {topic.name: self._topics[topic.name] for topic in written}, mark, number
        )
        task = open_task(
            self._root,
            self.task_id,
            [store.name for store in part.stores],
            backend=settings.backend,
            options=settings.options,
            durability=settings.durability,
            changelog_options=settings.changelog_options,
            standbys=standbys,
            outputs=outputs,
        )
        stack.callback(task.close)
        if settings.is_detailed:
            for logged in task.stores.values():
                set_recording_level(logged.store, RecordingLevel.DEBUG)
        local = LocalTask(
            part,
            task,
            self._topics,
            outputs,
            wall_ms=settings.clock_ms(),
            errors=graph.errors,
            max_task_idle_ms=graph.max_task_idle_ms,
            global_stores=self._global_stores,
            is_detailed=settings.is_detailed,
            least_column_rows=settings.least_column_rows,
            least_run_rows=settings.least_run_rows,
            cache_max_bytes=settings.cache_max_bytes,
        )
        stack.enter_context(local)
        if part.is_global:
            self._global_stores |= local.stores
            while local.advance(settings.clock_ms(), _STEP):
                pass  # others find the table as it is now (PRC-37)
        return local
