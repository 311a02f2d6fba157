"""What the composite stores of every kind have in common."""

from typing import Any, Generic, TypeVar

from statestores.errors import InvalidStateStoreError
from statestores.query.local_partitions import LocalPartitions
from statestores.query.position_bound import least_position
from statestores.spi.offsets import Position, TopicPartition
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.store import ReadOnlyStore
from statestores.spi.stores.stream_time import ReadOnlyTimedStore

S = TypeVar("S", bound=ReadOnlyStore)


class CompositeStore(ReadOnlyStore, Generic[S]):
    """What the composite stores of every kind have in common."""

    def __init__(self, partitions: LocalPartitions[S]) -> None:
        """Read *partitions* as one."""
        self._partitions = partitions

    @property
    def name(self) -> str:
        """The store's name."""
        return self._partitions.name

    @property
    def specification(self) -> StoreSpecification[Any, Any]:
        """What the store is."""
        return self._partitions.specification

    @property
    def local_partitions(self) -> list[int]:
        """The partitions that are read now. Reads of many keys cover only these."""
        return list(self._partitions.find())

    @property
    def is_open(self) -> bool:
        """Whether a partition is here."""
        try:
            self._partitions.find()
        except InvalidStateStoreError:
            return False
        return True

    @property
    def position(self) -> Position:
        """The input offsets that every partition here reflects, at least (QRY-8).

        An input that one of them has seen nothing of is left out: so the position never says that
        something has arrived which a partition lacks. Of inputs that go to one partition each it
        says nothing; `statestores.query.QueryableStores.positions` does, and a bound asks for it.
        """
        return least_position(self._partitions.positions())

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """Return the least offset that a partition here has committed for *partition* (QRY-8).

        Of a changelog's partition only one has committed any.
        """
        found = self._partitions.each(lambda store: store.committed_offset(partition))
        return min((offset for offset in found if offset is not None), default=None)


class TimedComposite(ReadOnlyTimedStore):
    """What composite stores of the kinds with a stream time also have in common."""

    _partitions: LocalPartitions[Any]

    @property
    def stream_time_ms(self) -> int | None:
        """The highest of the partitions' stream times; ``None`` when none of them has one."""
        times = self._partitions.each(lambda store: store.stream_time_ms)
        return max((time for time in times if time is not None), default=None)
