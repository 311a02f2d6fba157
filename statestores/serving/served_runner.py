"""The stores of whatever runs a topology, as they are served (`statestores.query.Runner`)."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import pyarrow as pa

from statestores.changelog import changelog_partition
from statestores.errors import (
    CapabilityNotSupportedError,
    StateStoreError,
    UnknownStateStoreError,
)
from statestores.query.commit_bound import ChangelogEnds
from statestores.query.metadata.instance import PartitionMetadata, Role
from statestores.query.running_stores import Runner, RunningStore
from statestores.reading.locations import changelog_end
from statestores.reading.partition_reader import PartitionReader
from statestores.spi.metrics.metric import Metrics
from statestores.spi.offsets import TopicPartition, offset_after
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.store import ReadOnlyStore
from statestores.state_root import StateRoot


class ChangeSource(Protocol):
    """Where changes are read that are in no state root. Any thread may ask it."""

    def changes(
        self, specification: StoreSpecification[Any, Any], partition: int, from_offset: int | None
    ) -> tuple[int, Iterator[pa.RecordBatch]]:
        """Return the end of a changelog, and its changes up to there; see `Served.changes`."""


class ServedRunner:
    """The stores of a runner: a `statestores.serving.Served`."""

    def __init__(
        self,
        runner: Runner,
        *,
        root: StateRoot | None = None,
        topology: str | None = None,
        changes: ChangeSource | None = None,
    ) -> None:
        """Serve what *runner* has.

        Args:
            runner: What runs.
            root: The state root that has the changelogs, if one has. Without it lags can only be
                judged where the runner knows where changelogs end.
            topology: The picture of the topology, as Mermaid text.
            changes: Where changes are read; by default in *root*.
        """
        self._runner, self._root, self._topology = runner, root, topology
        self._changes = changes

    @property
    def answers_from_copies(self) -> bool:
        """Active partitions answer; copies only where that is asked for."""
        return False

    def store_names(self) -> tuple[str, ...]:
        """Return the names of the stores."""
        return tuple(sorted(self._runner.running_stores()))

    def local_stores(
        self, name: str, *, include_stale: bool = False
    ) -> Mapping[int, ReadOnlyStore]:
        """Return what can be read here now."""
        found = self._store(name)
        return {**found.standby, **found.active} if include_stale else dict(found.active)

    def unready(self, name: str) -> Mapping[int, str]:
        """Return what becomes active here."""
        return dict.fromkeys(self._store(name).restoring, Role.RESTORING.value)

    def specification(self, name: str) -> StoreSpecification[Any, Any]:
        """Return what the store *name* is."""
        return self._store(name).specification

    def partition_count(self, name: str) -> int:
        """Return how many partitions it has."""
        return self._store(name).partitions

    def changelog_end(self, name: str, partition: int) -> tuple[TopicPartition, int]:
        """Return a partition's changelog, and where it ends now.

        Raises:
            CapabilityNotSupportedError: Neither a state root nor the runner knows it.
            StateStoreError: It cannot be read.
        """
        if self._root is None and isinstance(self._runner, ChangelogEnds):
            return self._runner.changelog_end(name, partition)
        root, specification = self._changelogs(name), self.specification(name)
        end = changelog_end(root.partition(name, partition), specification)
        return changelog_partition(name, partition), end

    def partitions(self, name: str) -> Mapping[int, PartitionMetadata]:
        """Return what is here of the store *name*."""
        store = self._store(name)
        found = {
            number: _as_told(Role.RESTORING, store.reached.get(number))
            for number in store.restoring
        }
        for role, facades in ((Role.STANDBY, store.standby), (Role.ACTIVE, store.active)):
            for number, facade in facades.items():
                told = store.reached.get(number)
                found[number] = (
                    self._described(name, number, role, facade)
                    if told is None and self._root is not None
                    else _as_told(role, told)
                )
        return dict(sorted(found.items()))

    def _described(
        self, name: str, number: int, role: Role, facade: ReadOnlyStore
    ) -> PartitionMetadata:
        try:
            log, end = self.changelog_end(name, number)
            committed = facade.committed_offset(log)
        except StateStoreError:  # it moves just now, or cannot be read: it hides no other
            return PartitionMetadata(role=role)
        current = offset_after(committed)
        return PartitionMetadata(role=role, current_offset=current, end_offset=max(end, current))

    def waiting(self) -> tuple[str, ...]:
        """Return what is restoring, or that it is not known yet what will be."""
        reason = self._runner.not_begun()
        return (() if reason is None else (reason,)) + tuple(
            f"partition {number} of {name!r} is restoring"
            for name, store in sorted(self._runner.running_stores().items())
            for number in sorted(store.restoring)
        )

    def catch_up(self, name: str) -> None:
        """Do nothing: copies follow on threads of their own."""

    def changes(
        self, name: str, partition: int, from_offset: int | None
    ) -> tuple[int, Iterator[pa.RecordBatch]]:
        """Read the changelog where it is.

        Raises:
            CapabilityNotSupportedError: It is nowhere that is known here.
            StateStoreError: It cannot be read.
        """
        if self._changes is not None:
            return self._changes.changes(self.specification(name), partition, from_offset)
        root = self._changelogs(name)
        reader = PartitionReader(root.partition(name, partition), self.specification(name))
        end = reader.end_offset
        return end, reader.changes(from_offset, end, typed=False)

    def metrics(self) -> Metrics:
        """Return the metrics of what runs."""
        return self._runner.metrics()

    def topology(self) -> str | None:
        """Return the picture that was given."""
        return self._topology

    def _changelogs(self, name: str) -> StateRoot:
        if self._root is None:
            raise CapabilityNotSupportedError(
                f"the changelogs of {name!r} are in no state root here; read them where they are"
            )
        return self._root

    def _store(self, name: str) -> RunningStore:
        stores = self._runner.running_stores()
        if name not in stores:
            known = ", ".join(sorted(stores)) or "none"
            raise UnknownStateStoreError(f"there is no store {name!r}; there are: {known}")
        return stores[name]


def _as_told(role: Role, reached: tuple[int, int] | None) -> PartitionMetadata:
    """Return what a runner says of a partition."""
    if reached is None:
        return PartitionMetadata(role=role)
    current, end = reached
    return PartitionMetadata(role=role, current_offset=current, end_offset=max(end, current))
