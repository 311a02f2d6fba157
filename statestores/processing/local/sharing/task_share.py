"""The tasks that this process has: taken, given up, and told to the other processes.

One thread polls. Each task belongs to one thread, which gives it up when it is asked to: between
two records, after a commit.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from statestores.errors import StoreLockedError
from statestores.processing.local.edges import source_part
from statestores.processing.local.sharing.assignment import assign, share_of
from statestores.processing.local.sharing.copies import Copies, copies_for
from statestores.processing.local.sharing.global_tables import GlobalTables
from statestores.processing.local.sharing.instances import (
    ActiveTask,
    Instance,
    InstanceFile,
    read_instances,
    remove_dead_instances,
)
from statestores.processing.local.sources.source_task import SourceTask
from statestores.processing.local.task_plan import PlannedTask, RunningTask
from statestores.processing.local.topics import AnyTopic
from statestores.semantics.expiry.wall_clock import wall_clock_ms
from statestores.spi import TopicPartition
from statestores.spi.closing import Closing
from statestores.state_root import StateRoot

if TYPE_CHECKING:
    from statestores.processing.runtime import TaskCounts

_LOGGER = logging.getLogger("statestores.processing")

POLL_SECONDS = 0.2
"""How often an instance looks who else is there, and says what it has."""

_HEARTBEAT_MS = 500
_SILENT_MS = 3_000
"""After how long without a word an instance gets no more tasks: it is stopped, or waits for
something. What it has, it keeps, and the others share the rest."""

_TELL_AFTER_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class _Owned:
    """A task that is open here."""

    task: RunningTask
    thread: int
    closing: ExitStack


class TaskShare(Closing):
    """What one process does of a topology."""

    def __init__(
        self,
        plan: Iterable[PlannedTask],
        topics: Mapping[str, AnyTopic],
        root: StateRoot,
        file: InstanceFile,
        *,
        threads: int,
        endpoint: str | None,
        tables: GlobalTables,
        copies: Copies | None,
        standbys: int,
        is_stopping: Callable[[], bool],
    ) -> None:
        """Have nothing yet; `poll` takes tasks.

        With *copies*, each task has so many *standbys* among the instances, some of them here.
        """
        self.copies = copies
        """The standbys that are here."""
        self._standbys = standbys
        self._plan = {each.name: each for each in plan}
        self._sources = {each.part: each.name for each in self._plan.values()}
        self._topics, self._file = topics, file
        self.root = root
        """The state root."""
        self._state = root.path
        self.endpoint = endpoint
        """Where this process can be asked, if it can."""
        self._is_stopping = is_stopping
        self._tables = tables
        self._spread_out = [name for name in self._plan if name not in tables.tasks]
        self._lock = Lock()
        self._mine: dict[str, _Owned] = {}
        self._by_thread: list[tuple[RunningTask, ...]] = [()] * threads
        self._leaving: frozenset[str] = frozenset()
        self._others: tuple[Instance, ...] = ()
        self._locked_since: dict[str, float] = {}
        self._due = 0.0
        self.counts: list[TaskCounts] = []
        """What was counted, by tasks that are here no longer too."""

    @property
    def instance(self) -> str:
        """The name of this process among those that share the tasks."""
        return self._file.instance.instance

    @property
    def has_polled(self) -> bool:
        """Whether what was free at the beginning is taken, and open."""
        return self._due > 0

    def all_tasks(self) -> list[RunningTask]:
        """Return the tasks that are here; any thread may ask."""
        return [task for tasks in self._by_thread for task in tasks]

    def all_copies(self) -> list[Copies]:
        """Return the copies that are here: standbys, and those of global tables."""
        return [each for each in (self.copies, self._tables.copies) if each is not None]

    def tasks(self, thread: int) -> tuple[RunningTask, ...]:
        """Return the tasks that *thread* runs."""
        return self._by_thread[thread]

    def poll(self) -> None:
        """Look who is there, if it is time: take what is free, and ask for what is too much.

        Raises:
            StateStoreError: A task cannot be opened, or a file not be read or written.
        """
        now = time.monotonic()
        if now < self._due:
            return
        own = self._file.instance
        others = [each for each in read_instances(self._state) if each.instance != own.instance]
        remove_dead_instances(self._state)
        self._others = tuple(others)
        heard_ms = wall_clock_ms() - _SILENT_MS
        counted = [each for each in others if each.written_ms > heard_ms]
        silent = [each for each in others if each.written_ms <= heard_ms]
        held = {task.task for each in silent for task in each.active}
        kept = held - self._tables.tasks.keys()
        order = sorted((*counted, own), key=lambda each: (each.since_ms, each.instance))
        place = order.index(own)
        lacking = [
            each
            for at, each in enumerate(order)
            if sum(task.task not in self._tables.tasks for task in each.active)
            < share_of(len(self._spread_out) - len(kept), at, len(order))
        ]
        elsewhere = {task.task for each in others for task in each.active}
        assignment = assign(
            [name for name in self._spread_out if name not in kept],
            mine=self._mine.keys() - self._tables.tasks.keys(),
            elsewhere=elsewhere,
            place=place,
            instances=len(order),
            copies=() if self.copies is None else self.copies.tasks,
            copies_elsewhere={
                copy.task for each in lacking if each is not own for copy in each.standby
            },
        )
        self._leaving = frozenset(assignment.release)
        taken = self._take_several(
            [name for name in assignment.claim if not self._plan[name].global_stores],
            assignment.most,
        )
        self._keep_tables(elsewhere)
        joining = [name for name in assignment.claim if self._plan[name].global_stores]
        if joining and self._have_tables(held):
            taken += self._take_several(joining, assignment.most - taken)
        if self.copies is not None:
            self._keep_copies(self.copies, [each.instance for each in order])
        for copies in self.all_copies():
            copies.remove_left(self._plan[name] for name in self._mine)
        self._publish(force=bool(taken))
        self._due = time.monotonic() + POLL_SECONDS

    def give_up(self, thread: int, commit: Callable[[RunningTask], object]) -> None:
        """Commit and close those tasks of *thread* that others are to have.

        Raises:
            StateStoreError: The commit failed.
        """
        if not self._leaving:
            return
        for name, owned in list(self._mine.items()):
            if name in self._leaving and owned.thread == thread:
                commit(owned.task)
                with self._lock:
                    del self._mine[name]
                    self._spread()
                owned.closing.close()

    def is_feeding(self, topic: str) -> bool:
        """Whether the source of *topic* has more, here or wherever its task is."""
        name = self._sources[source_part(topic)]
        owned = self._mine.get(name)
        if owned is not None:
            return _is_feeding(owned.task)
        told = [task for each in self._others for task in each.active if task.task == name]
        return not told or any(task.is_feeding for task in told)

    def is_all_done(self) -> bool:
        """Whether every task, wherever it is, has committed all that there is.

        What the others say was true a moment ago. So the ends of the topics are looked at after
        that: if nobody was behind then, nobody had anything to do, or to emit, at that moment.
        """
        if not self._others and self._mine.keys() == self._plan.keys():
            return True
        done = self._told()
        if done.keys() != self._plan.keys() or any(task.is_feeding for task in done.values()):
            return False
        return all(
            self._topics[place.topic].logs[place.partition].end_offset == offset
            for task in done.values()
            for place, offset in task.reads.items()
        )

    def readers(self) -> dict[str, Mapping[TopicPartition, int]]:
        """Return how far each task that is known of has committed."""
        return {name: task.reads for name, task in self._told().items()}

    def close(self) -> None:
        """Close the tasks; what is not committed is forgotten. Idempotent."""
        with ExitStack() as stack:
            for copies in self.all_copies():
                stack.callback(copies.close)
            for owned in self._mine.values():
                stack.callback(owned.closing.close)
            self._mine = {}
            self._spread()

    def _take_several(self, names: Iterable[str], most: int) -> int:
        """Open up to *most* of the tasks *names*; return how many were opened."""
        taken = 0
        for name in names:
            if taken == most or self._is_stopping():
                break
            taken += self._take(name)
        return taken

    def _keep_tables(self, elsewhere: Collection[str]) -> None:
        """Take global tables that nobody has, and follow those of others."""
        tables = self._tables
        for name in tables.tasks:
            if (
                name not in self._mine
                and name not in elsewhere
                and not self._is_stopping()
                and tables.may_open(name, self.is_feeding)
                and self._take(name)
            ):
                tables.opened(name)
        tables.follow(self._mine.keys())

    def _have_tables(self, silent: Collection[str]) -> bool:
        """Whether global tables are as far as tasks need that are opened now."""
        told = {task.task: task for each in self._others for task in each.active}
        return self._tables.are_ready(self._mine.keys(), told, silent, self.is_feeding)

    def _take(self, name: str) -> bool:
        """Open the task *name*, unless another process has it."""
        copies, planned = self.copies, self._plan[name]
        standbys = () if copies is None else copies.take(name)
        try:
            with ExitStack() as stack:
                task = planned.open(stack, [each for each in standbys if each.failure is None])
                closing = stack.pop_all()
        except StoreLockedError as error:
            if copies is not None:
                copies.give_back(planned, standbys)
            self._tell_locked(name, error)
            return False
        finally:
            if copies is None or name not in copies.tasks:
                for each in standbys:
                    each.close()  # what was not promoted
        self._locked_since.pop(name, None)
        self.counts.append(task.counts)
        with self._lock:
            thread = min(range(len(self._by_thread)), key=lambda at: len(self._by_thread[at]))
            self._mine[name] = _Owned(task, thread, closing)
            self._spread()
        return True

    def _tell_locked(self, name: str, error: StoreLockedError) -> None:
        """Say whom a task waits for, once it has waited for a while."""
        now = time.monotonic()
        if now - self._locked_since.setdefault(name, now) > _TELL_AFTER_SECONDS:
            self._locked_since[name] = now
            _LOGGER.warning("the task %s waits: %s", name, error)

    def _spread(self) -> None:
        """Note which thread has what."""
        spread: list[list[RunningTask]] = [[] for _ in self._by_thread]
        for owned in self._mine.values():
            spread[owned.thread].append(owned.task)
        self._by_thread[:] = map(tuple, spread)

    def _keep_copies(self, copies: Copies, instances: Sequence[str]) -> None:
        """Follow what others run, as far as it is this instance's to follow."""
        me = self._file.instance.instance
        owners = {
            task.task: each.instance for each in self._others for task in each.active
        } | dict.fromkeys(self._mine, me)
        with_stores = [name for name in self._spread_out if self._plan[name].stores]
        wanted = copies_for(me, instances, owners, with_stores, self._standbys)
        wanted |= {
            name for name in copies.tasks if name not in owners
        }  # until somebody has taken it
        copies.keep([self._plan[name] for name in with_stores if name in wanted])

    def _told(self) -> dict[str, ActiveTask]:
        """Return what is known of each task that somebody has: of those here as it is now."""
        told = {task.task: task for each in self._others for task in each.active}
        return told | {each.task: each for each in self._active()}

    def _active(self) -> list[ActiveTask]:
        with self._lock:
            return [
                ActiveTask(
                    task=name,
                    part=self._plan[name].part,
                    reads=dict(owned.task.committed),
                    stores={
                        store: logged.changelog.end_offset
                        for store, logged in owned.task.task.stores.items()
                    },
                    is_feeding=_is_feeding(owned.task),
                )
                for name, owned in self._mine.items()
            ]

    def _publish(self, *, force: bool) -> None:
        """Say what is here, if that has changed or nothing has been said for long."""
        active, told = tuple(self._active()), self._file.instance
        is_silent = wall_clock_ms() - told.written_ms >= _HEARTBEAT_MS
        copies = frozenset().union(*(each.tasks for each in self.all_copies()))
        is_known = (told.active, told.endpoint) == (active, self.endpoint)
        if force or is_silent or not is_known or {each.task for each in told.standby} != copies:
            standby = [copy for each in self.all_copies() for copy in each.reports()]
            self._file.publish(active, standby, self.endpoint)


def _is_feeding(task: RunningTask) -> bool:
    return isinstance(task, SourceTask) and task.is_feeding
