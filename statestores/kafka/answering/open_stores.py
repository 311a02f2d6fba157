"""The stores that an instance has open now, for whoever reads them while it runs (SRV-22)."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from confluent_kafka import KafkaException

from statestores.errors import (
    CapabilityNotSupportedError,
    InvalidStateStoreError,
    NotUpToBoundError,
    StoreClosedError,
    UnknownStateStoreError,
)
from statestores.kafka.broker_errors import error_of
from statestores.kafka.cluster import Cluster
from statestores.kafka.global_tables import GlobalTables
from statestores.kafka.plan import Plan
from statestores.kafka.tasks.assigned_tasks import AssignedTasks
from statestores.kafka.tasks.restorer import Restorer
from statestores.kafka.tasks.task_stores import LoggedStore
from statestores.query.running_stores import RunningStore
from statestores.spi.offsets import TopicPartition
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.store import Isolation, ReadOnlyStore


@dataclass(slots=True)
class _Found:
    """What is here of one store."""

    active: dict[int, ReadOnlyStore] = field(default_factory=dict)
    standby: dict[int, ReadOnlyStore] = field(default_factory=dict)
    restoring: set[int] = field(default_factory=set)
    reached: dict[int, tuple[int, int]] = field(default_factory=dict)


class OpenStores(NamedTuple):
    """Where the open stores of an instance are found; parts that are not there yet are ``None``."""

    plan: Plan
    cluster: Cluster
    tables: GlobalTables | None
    restorer: Restorer | None
    tasks: AssignedTasks | None

    def running(self) -> dict[str, RunningStore]:
        """Return all stores of the topology, as they are here now; any thread may ask."""
        plan = self.plan
        found: dict[str, _Found] = {}
        for number, logged, end in self._copies():
            each = found.setdefault(logged.store.name, _Found())
            _add_facade(each.standby, number, logged.store)
            each.reached[number] = (logged.reached, max(end, logged.reached))
        for key, restore in [] if self.tasks is None else list(self.tasks.restoring.items()):
            ways = {way.logged.store.name: way for way in list(restore.remaining.values())}
            for store in plan.part(key).stores:
                each = found.setdefault(store.name, _Found())
                each.restoring.add(key.partition)
                each.standby.pop(key.partition, None)
                each.reached.pop(key.partition, None)
                way = ways.get(store.name)
                if way is not None:
                    each.reached[key.partition] = (way.kept, max(way.end, way.kept))
        for number, logged in self._active():
            each = found.setdefault(logged.store.name, _Found())
            each.restoring.discard(number)
            each.standby.pop(number, None)
            _add_facade(each.active, number, logged.store)
            each.reached[number] = (logged.reached, logged.reached)
        return {
            store.name: self._described(store, partitions, found.get(store.name, _Found()))
            for store, partitions in self._specifications()
        }

    def changelog_end(self, name: str, partition: int) -> tuple[TopicPartition, int]:
        """Return a partition's changelog, and where it ends, for whoever judges a lag (SRV-6).

        The end is the high watermark: what a transaction holds open counts as missing, since who
        has been replaced cannot know whether it is its own. A store that has reached it reflects
        every change, although offsets of other things may follow its last one; then the end is
        said to be where the store is.

        Raises:
            InvalidStateStoreError: The partition is not here now.
            NotUpToBoundError: The broker does not answer, so nothing is known of the bound.
            CapabilityNotSupportedError: It is a global table, of many partitions.
            UnknownStateStoreError: There is no such store.
        """
        logged = self._logged(name, partition)
        # In this order: what is read is of a later commit than these, and the end later still.
        reflected, reached = logged.reflected, logged.reached
        try:
            end = self.cluster.end_now(logged.changelog)
        except KafkaException as error:
            raise NotUpToBoundError(
                f"the broker does not say where the changelog of partition {partition} of "
                f"{name!r} ends ({error_of(error).name()}), so no lag can be judged; try again, or "
                "read without max_lag"
            ) from error
        return logged.changelog, reflected if end <= reached else end

    def _logged(self, name: str, partition: int) -> LoggedStore:
        for number, logged in self._active():
            if number == partition and logged.store.name == name:
                return logged
        for number, logged, _ in self._copies():
            if number == partition and logged.store.name == name:
                return logged
        specifications = dict(self._partition_counts())
        if name not in specifications:
            known = ", ".join(sorted(specifications)) or "none"
            raise UnknownStateStoreError(f"there is no store {name!r}; there are: {known}")
        if any(name == store.name for part in self.plan.global_parts for store in part.stores):
            raise CapabilityNotSupportedError(
                f"{name!r} is a global table, whose lag nobody judges; read it without max_lag"
            )
        raise InvalidStateStoreError(f"partition {partition} of {name!r} is not here; try again")

    def _active(self) -> Iterator[tuple[int, LoggedStore]]:
        for key, task in [] if self.tasks is None else list(self.tasks.running.items()):
            for logged in task.stores.logged.values():
                yield key.partition, logged

    def _copies(self) -> Iterator[tuple[int, LoggedStore, int]]:
        for standby in [] if self.restorer is None else self.restorer.standbys():
            for way in list(standby.remaining.values()):
                yield standby.task.partition, way.logged, way.end

    def _specifications(self) -> Iterator[tuple[StoreSpecification[Any, Any], int]]:
        plan = self.plan
        for part in plan.parts:
            for store in part.stores:
                yield store, plan.graph.task_count(part, plan.counts)
        for part in plan.global_parts:
            for store in part.stores:
                yield store, 1

    def _partition_counts(self) -> Iterator[tuple[str, int]]:
        return ((store.name, count) for store, count in self._specifications())

    def _described(
        self, store: StoreSpecification[Any, Any], partitions: int, found: _Found
    ) -> RunningStore:
        table = None if self.tables is None else self.tables.opened.get(store.name)
        if table is not None:
            _add_facade(found.active, 0, table)
        return RunningStore(
            specification=store,
            partitions=partitions,
            active=found.active,
            standby=found.standby,
            restoring=frozenset(found.restoring),
            reached=found.reached,
        )


def _add_facade(facades: dict[int, ReadOnlyStore], number: int, store: Any) -> None:
    with suppress(StoreClosedError):  # its task is given up just now
        facades[number] = store.read_only(Isolation.READ_COMMITTED)  # of every kind
