"""Who shares a state, for whoever asks: what the files of the instances say (SRV-23).

Nothing has to be renewed for it: an instance is there while it holds the lock of its file, so one
that was killed is gone at once.
"""

from collections.abc import Mapping
from contextlib import suppress
from os import PathLike

from statestores.errors import InvalidArgumentError
from statestores.processing.local.sharing.instances import Instance, read_instances
from statestores.query.metadata import (
    Host,
    InstanceMetadata,
    PartitionMetadata,
    Role,
    StoreMetadata,
)
from statestores.state_root import StateRoot
from statestores.tasks import TaskId


class StateMembership:
    """The instances of a topology on a state: a `statestores.query.metadata.Membership`."""

    def __init__(self, state: str | PathLike[str]) -> None:
        """Look at the state root *state*, which may be made later."""
        self._state = state
        self._known: dict[str, StoreMetadata] = {}

    def publish(self, instance: InstanceMetadata) -> None:
        """Do nothing: a run says of itself what it has."""

    def leave(self, instance: str) -> None:
        """Do nothing: a run that ends removes its file."""

    def instances(self) -> Mapping[str, InstanceMetadata]:
        """Return the instances that run now, as they said a moment ago.

        Raises:
            StoreCorruptedError, UnsupportedFormatError, StorageError: A file cannot be read.
        """
        found = read_instances(self._state)
        if any(name not in self._known for each in found for name in _stores(each)):
            self._known = {
                name: StoreMetadata(
                    description=entry.specification.describe(), partitions=entry.partitions
                )
                for name, entry in StateRoot.open(self._state).stores.items()
            }
        ends = {
            (name, _partition(task.task)): end
            for each in found
            for task in each.active
            for name, end in task.stores.items()
        }
        return {each.instance: self._metadata(each, ends) for each in found}

    def _metadata(self, told: Instance, ends: Mapping[tuple[str, int], int]) -> InstanceMetadata:
        host = None
        if told.endpoint is not None:
            with suppress(InvalidArgumentError):  # an endpoint may be anything that a user says
                host = Host.of(told.endpoint)
        partitions: dict[str, dict[int, PartitionMetadata]] = {}
        for copy in told.standby:
            for name, current in copy.stores.items():
                end = ends.get((name, _partition(copy.task)))
                partitions.setdefault(name, {})[_partition(copy.task)] = PartitionMetadata(
                    role=Role.STANDBY,
                    current_offset=current,
                    end_offset=None if end is None else max(end, current),
                )
        for task in told.active:
            for name, end in task.stores.items():
                partitions.setdefault(name, {})[_partition(task.task)] = PartitionMetadata(
                    role=Role.ACTIVE, current_offset=end, end_offset=end
                )
        return InstanceMetadata(
            instance=told.instance, host=host, stores=self._known, partitions=partitions
        )


def _stores(instance: Instance) -> set[str]:
    active = {name for task in instance.active for name in task.stores}
    return active | {name for task in instance.standby for name in task.stores}


def _partition(task: str) -> int:
    return TaskId.parse(task).partition
