"""One stay of an instance in its group, from joining to leaving: it polls, processes and commits.

All of it is on the thread that has called `run`. Who is given up by the group or the broker begins
another stay, with another member and another producer.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from statestores.kafka.client_settings import ClientSettings, GroupProtocol, OffsetReset
from statestores.kafka.cluster import Cluster
from statestores.kafka.global_tables import GlobalTables
from statestores.kafka.group.idle import GroupIdle
from statestores.kafka.group.members import GroupMembers
from statestores.kafka.group.membership import Membership
from statestores.kafka.group.standbys import Standbys
from statestores.kafka.plan import Plan, TaskKey
from statestores.kafka.run_arguments import Guarantee, Until
from statestores.kafka.tasks.assigned_tasks import AssignedTasks
from statestores.kafka.tasks.plain_writer import PlainWriter
from statestores.kafka.tasks.restorer import Restorer
from statestores.kafka.tasks.task_stores import TaskStores
from statestores.kafka.writer import TransactionalWriter, Writer
from statestores.stopping import StopRequest

if TYPE_CHECKING:
    from statestores.spi import TopicPartition

_WAIT_SECONDS = 0.05
_PURGE_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StayOptions:
    """How an instance is a member, and works; see `run` for what each means."""

    guarantee: Guarantee
    protocol: GroupProtocol
    offset_reset: OffsetReset
    commit_seconds: float
    commit_records: int
    least_column_rows: int
    least_run_rows: int
    cache_max_bytes: int
    standby_replicas: int
    until: Until
    clock_ms: Callable[[], int]


class Stay:
    """`run` is called once; `tasks`, `membership` and `lag` are for any thread."""

    def __init__(
        self,
        plan: Plan,
        cluster: Cluster,
        settings: ClientSettings,
        options: StayOptions,
        open_stores: Callable[[TaskKey], TaskStores],
        restorer: Restorer,
        tables: GlobalTables,
        *,
        instance: str,
        stopping: StopRequest,
    ) -> None:
        """Join the group, as *instance*, until it is *stopping*.

        Raises:
            InvalidOptionError: A client refuses its settings.
            BrokerError: The cluster does not answer, or allows no transactions.
        """
        self._plan, self._cluster, self._options, self._tables = plan, cluster, options, tables
        self._stopping = stopping
        self.lag: Mapping[TopicPartition, int] = MappingProxyType({})
        """See `KafkaProgress.lag`."""
        self._writer: Writer = (
            TransactionalWriter(settings, f"{plan.application}-{instance}", plan.largest_batch)
            if options.guarantee == "exactly_once"
            else PlainWriter(settings, plan.largest_batch, stopping)
        )
        try:
            self.tasks = AssignedTasks(
                plan,
                open_stores,
                restorer,
                self._writer,
                lambda: tables.stores,
                commit_records=options.commit_records,
                least_column_rows=options.least_column_rows,
                least_run_rows=options.least_run_rows,
                cache_max_bytes=options.cache_max_bytes,
                clock_ms=options.clock_ms,
            )
            of_member = settings.consumer(
                plan.application,
                protocol=options.protocol,
                assignor=_assignor(options.protocol, plan),
                offset_reset=options.offset_reset,
                instance=instance,
            )
            group = GroupMembers(plan, cluster, client=of_member["client.id"])
            self.membership = Membership(
                plan,
                of_member,
                self.tasks,
                group,
                self._writer,
                begins_late=options.offset_reset == "latest",
                is_eager=options.protocol == "classic" and plan.needs_co_partitioning,
                clock_ms=options.clock_ms,
            )
        except BaseException:
            self._writer.close()
            raise
        self._standbys = Standbys(
            plan, group, restorer, open_stores, copies=options.standby_replicas
        )
        self._idle = GroupIdle(plan, cluster, settings, offset_reset=options.offset_reset)

    def run(
        self,
        is_paused: Callable[[], bool],
        committed: Callable[[], object],
    ) -> None:
        """Work until it is over, and leave; *committed* is called after each commit.

        Raises:
            InstanceFencedError: The group or the broker has given up this instance.
            StateStoreError: See `KafkaRunner.run`.
        """
        try:
            self._work(is_paused, committed)
            self.membership.leave(self._options.clock_ms())
        except BaseException:
            self.membership.abandon()
            raise
        finally:
            self._idle.close()
            self._writer.close()

    def _work(
        self,
        is_paused: Callable[[], bool],
        committed: Callable[[], object],
    ) -> None:
        membership, tasks, options = self.membership, self.tasks, self._options
        due = time.monotonic() + options.commit_seconds
        purge_due = time.monotonic() + _PURGE_SECONDS
        wait_seconds = 0.0
        while not self._stopping.is_set():
            if is_paused() is not membership.is_paused:
                (membership.resume if membership.is_paused else membership.pause)()
            has_come = membership.poll(wait_seconds)
            self._standbys.look(tasks)
            self._tables.advance()
            done = membership.process(options.clock_ms())
            now = time.monotonic()
            if now >= due or tasks.wants_commit:
                due = now + options.commit_seconds
                self._tables.commit()
                self._commit(committed)
                self.lag = MappingProxyType(membership.lag())
            if now >= purge_due:
                purge_due = now + _PURGE_SECONDS
                offsets = tasks.offsets_of(self._plan.internal)
                self._cluster.delete_before(offsets | tasks.superfluous())
            wait_seconds = 0.0 if done else min(_WAIT_SECONDS, max(0.0, due - now))
            if options.until == "idle" and not (done or has_come or self._commit(committed)):
                wait_seconds = _WAIT_SECONDS
                reached = membership.reached()
                if reached is not None and self._idle.is_reached(reached):
                    return

    def _commit(self, committed: Callable[[], object]) -> bool:
        """Commit what was done, and tell of it."""
        if not self.membership.commit(self._options.clock_ms()):
            return False
        committed()
        return True


def _assignor(protocol: GroupProtocol, plan: Plan) -> str:
    """Return what assigns tasks: ``range`` where these need several partitions together (KFK-4).

    It goes by the order of the members' names, so who comes or goes may shift tasks between others.
    Where a task reads one topic, each may go anywhere, and all stay where they are that can.
    """
    if plan.needs_co_partitioning:
        return "range"
    return "uniform" if protocol == "consumer" else "cooperative-sticky"
