"""What can be served: the stores of a process, what it says of them, and their changes."""

import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Protocol

import pyarrow as pa

from statestores.query.local_partitions import StoreSource
from statestores.query.metadata.host import Host
from statestores.query.metadata.instance import (
    InstanceMetadata,
    PartitionMetadata,
    Role,
    StoreMetadata,
)
from statestores.reading.partition_places import place_of
from statestores.reading.partition_reader import PartitionReader
from statestores.spi.metrics.metric import Metrics
from statestores.spi.offsets import TopicPartition
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.store import ReadOnlyStore
from statestores.tasks import LagInfo, TaskManager, TaskState

_ROLES = {
    TaskState.RUNNING: Role.ACTIVE,
    TaskState.RESTORING: Role.RESTORING,
    TaskState.PROMOTING: Role.PROMOTING,
    TaskState.STANDBY: Role.STANDBY,
}

_LAGS_SECONDS = 0.1
"""How long lags are believed; each look at them looks at the end of every changelog here."""


class Served(StoreSource, Protocol):
    """A process whose stores are read from elsewhere. Any thread may use it."""

    @property
    def answers_from_copies(self) -> bool:
        """Whether copies that lack nothing answer reads that are not stale.

        So it is where nothing but copies is: see `statestores.serving.FollowedRoot`.
        """

    def store_names(self) -> tuple[str, ...]:
        """Return the names of the stores."""

    def partitions(self, name: str) -> Mapping[int, PartitionMetadata]:
        """Return what is here of the store *name*, with how far it is.

        Raises:
            UnknownStateStoreError: There is no such store.
        """

    def waiting(self) -> tuple[str, ...]:
        """Return what cannot be read yet, in words: nothing once everything here can."""

    def catch_up(self, name: str) -> None:
        """Let the copies of the store *name* take what its changelogs have now, if they can.

        Raises:
            StateStoreError: A changelog cannot be read; the copies of the others have taken theirs.
        """

    def changes(
        self, name: str, partition: int, from_offset: int | None
    ) -> tuple[int, Iterator[pa.RecordBatch]]:
        """Return the end of a partition's changelog, and its changes up to there, as bytes.

        Args:
            name: The store.
            partition: The partition.
            from_offset: Where to begin; ``None``: at the first change that there still is.

        Raises:
            CapabilityNotSupportedError: Changes cannot be read here.
            OffsetOutOfRangeError: The changelog does not have that offset.
            StateStoreError: It cannot be read.
        """

    def metrics(self) -> Metrics:
        """Return the metrics of the stores."""

    def topology(self) -> str | None:
        """Return the picture of the topology, as Mermaid text; ``None`` when there is none."""


class ServedTasks:
    """The tasks and standbys of a `TaskManager`, as they are served."""

    def __init__(self, manager: TaskManager, *, topology: str | None = None) -> None:
        """Serve what *manager* has; *topology* is a picture of what writes it, as Mermaid text."""
        self._manager = manager
        self._topology = topology
        self._lags: tuple[float, Mapping[str, Mapping[int, LagInfo]]] = (0.0, {})

    @property
    def answers_from_copies(self) -> bool:
        """Active partitions answer; copies only where that is asked for."""
        return False

    def store_names(self) -> tuple[str, ...]:
        """Return the names of the stores of all groups."""
        return self._manager.store_names

    def local_stores(
        self, name: str, *, include_stale: bool = False
    ) -> Mapping[int, ReadOnlyStore]:
        """Return what can be read here now."""
        return self._manager.local_stores(name, include_stale=include_stale)

    def unready(self, name: str) -> Mapping[int, str]:
        """Return what becomes active here."""
        return self._manager.unready(name)

    def specification(self, name: str) -> StoreSpecification[Any, Any]:
        """Return what the store *name* is."""
        return self._manager.specification(name)

    def partition_count(self, name: str) -> int:
        """Return how many partitions it has."""
        return self._manager.partition_count(name)

    def changelog_end(self, name: str, partition: int) -> tuple[TopicPartition, int]:
        """Return a partition's changelog, and where it ends now."""
        return self._manager.changelog_end(name, partition)

    def partitions(self, name: str) -> Mapping[int, PartitionMetadata]:
        """Return the tasks here that have the store *name*."""
        lags = self._lags_now().get(name, {})
        group = self._manager.group_of(name)
        found = {}
        for task_id, state in sorted(self._manager.states.items()):
            if task_id.group == group:
                lag = lags.get(task_id.partition)
                found[task_id.partition] = PartitionMetadata(
                    role=_ROLES[state],
                    current_offset=None if lag is None else lag.current_offset,
                    end_offset=None if lag is None else lag.end_offset,
                )
        return found

    def _lags_now(self) -> Mapping[str, Mapping[int, LagInfo]]:
        """Return the lags of a moment ago: of all stores, which are asked for one by one."""
        taken, lags = self._lags
        if time.monotonic() - taken > _LAGS_SECONDS:
            lags = self._manager.all_local_store_partition_lags()
            self._lags = (time.monotonic(), lags)
        return lags

    def waiting(self) -> tuple[str, ...]:
        """Return the tasks that are restoring or promoting."""
        return tuple(
            f"task {task_id} is {state.value}"
            for task_id, state in sorted(self._manager.states.items())
            if state in (TaskState.RESTORING, TaskState.PROMOTING)
        )

    def catch_up(self, name: str) -> None:
        """Do nothing: copies follow on threads of their own."""

    def changes(
        self, name: str, partition: int, from_offset: int | None
    ) -> tuple[int, Iterator[pa.RecordBatch]]:
        """Read the changelog in the state root, without its lock."""
        specification = self._manager.specification(name)
        reader = PartitionReader(place_of(self._manager.root, name, partition), specification)
        end = reader.end_offset
        return end, reader.changes(from_offset, end, typed=False)

    def metrics(self) -> Metrics:
        """Return the metrics of tasks, standbys and restores."""
        return self._manager.metrics()

    def topology(self) -> str | None:
        """Return the picture that was given."""
        return self._topology


def instance_of(
    served: Served, instance: str, *, host: Host | None = None, http: Host | None = None
) -> InstanceMetadata:
    """Return what *served* says of itself under the name *instance*."""
    names = served.store_names()
    return InstanceMetadata(
        instance=instance,
        host=host,
        http=http,
        stores=MappingProxyType(
            {
                name: StoreMetadata(
                    description=served.specification(name).describe(),
                    partitions=served.partition_count(name),
                )
                for name in names
            }
        ),
        partitions=MappingProxyType({name: served.partitions(name) for name in names}),
    )
