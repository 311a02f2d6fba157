"""The partitions of one store that can be read here, found anew by each operation.

Partitions come and go while an application runs. So nothing here keeps a store between two
operations, and what closes while it is read is an `InvalidStateStoreError`, which says: ask again.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

from statestores.errors import InvalidStateStoreError, StoreClosedError, UnknownStateStoreError
from statestores.partitioning import partitioner_by_name
from statestores.serdes.delegation import DelegatingReadOnlyStore
from statestores.spi.offsets import Position, TopicPartition
from statestores.spi.specification import StoreSpecification
from statestores.spi.store import ReadOnlyStore

S = TypeVar("S", bound=ReadOnlyStore)
T = TypeVar("T")


class StoreSource(Protocol):
    """Where stores come from: a `statestores.tasks.TaskManager`, or something like it."""

    def local_stores(
        self, name: str, *, include_stale: bool = False
    ) -> Mapping[int, ReadOnlyStore]:
        """Return a facade of each partition of the store *name* that can be read here now.

        Raises:
            UnknownStateStoreError: There is no such store.
            InvalidStateStoreError: Partitions are moving at this moment.
        """

    def specification(self, name: str) -> StoreSpecification[Any, Any]:
        """Return what the store *name* is.

        Raises:
            UnknownStateStoreError: There is no such store.
        """

    def partition_count(self, name: str) -> int:
        """Return how many partitions the store *name* has, here and elsewhere.

        Raises:
            UnknownStateStoreError: There is no such store.
        """


class LocalPartitions(Generic[S]):
    """Finds the partitions of one store that are here; what a composite store is made of."""

    def __init__(
        self,
        source: StoreSource,
        name: str,
        accepts: Callable[[ReadOnlyStore], bool],
        *,
        include_stale: bool = False,
        partition: int | None = None,
    ) -> None:
        """Look for *name* in *source*, or only for one *partition* of it."""
        self._source = source
        self._name = name
        self._accepts = accepts
        self._include_stale = include_stale
        self._partition = partition
        self._specification = source.specification(name)
        self._partitions = source.partition_count(name)
        self._partition_of = partitioner_by_name(self._specification.partitioner).partition

    @property
    def name(self) -> str:
        """The store's name."""
        return self._name

    @property
    def specification(self) -> StoreSpecification[Any, Any]:
        """What the store is."""
        return self._specification

    def find(self) -> dict[int, S]:
        """Return the partitions that are here now, in their order: at least one.

        Raises:
            InvalidStateStoreError: None is here, or they are moving.
            UnknownStateStoreError: What is here is of another type than was asked for.
        """
        found = self._source.local_stores(self._name, include_stale=self._include_stale)
        chosen: dict[int, Any] = {
            number: store
            for number, store in sorted(found.items())
            if self._partition is None or number == self._partition
        }
        if not chosen:
            wanted = "" if self._partition is None else f"partition {self._partition} of "
            raise InvalidStateStoreError(
                f"{wanted}{self._name!r} is not here now: it may have moved to another process, or "
                "is not open yet; find out where it is and try again"
            )
        for store in chosen.values():
            if not self._accepts(store):
                raise UnknownStateStoreError(
                    f"{self._name!r} is {self._specification.kind}, and was asked for as another "
                    "type"
                )
        return chosen

    def holding(self, key: bytes) -> S:
        """Return the partition that the store's partitioner gives *key*.

        Raises:
            InvalidStateStoreError: It is not here.
            InvalidTypeError: The key is not bytes.
            UnknownStateStoreError: As `find`.
        """
        number = self._partition_of(key, self._partitions)
        found = self.find()
        try:
            return found[number]
        except KeyError as error:
            raise InvalidStateStoreError(
                f"the key {key!r} is in partition {number} of {self._name!r}, which is not here; "
                f"here: {', '.join(map(str, found))}"
            ) from error

    def of_bytes(self, store: S) -> S:
        """Return *store* without its serdes: partitions are merged by the bytes of their keys."""
        inner: Any = store
        if isinstance(inner, DelegatingReadOnlyStore):
            inner = inner.store_of_bytes
        return inner  # type: ignore[no-any-return]  # of the same kind, without types

    def merge(
        self,
        read: Callable[[S], Iterator[T]],
        order: Callable[[T], Any],
        *,
        reverse: bool,
    ) -> Iterator[T]:
        """Yield what *read* gives of every partition, in one *order* (QRY-3).

        Raises:
            InvalidStateStoreError: A partition was closed before the end.
        """
        with reading(self._name):
            parts = [read(self.of_bytes(store)) for store in self.find().values()]
        return self._merged(parts, order, reverse=reverse)

    def _merged(
        self, parts: list[Iterator[T]], order: Callable[[T], Any], *, reverse: bool
    ) -> Iterator[T]:
        with reading(self._name):
            yield from heapq.merge(*parts, key=order, reverse=reverse)

    def one(self, key: bytes, read: Callable[[S], T]) -> T:
        """Return what *read* gives of the partition that has *key*.

        Raises:
            InvalidStateStoreError: It is not here, or is closed meanwhile.
        """
        with reading(self._name):
            return read(self.of_bytes(self.holding(key)))

    def iterate(self, key: bytes, read: Callable[[S], Iterator[T]]) -> Iterator[T]:
        """Yield what *read* gives of the partition that has *key*.

        Raises:
            InvalidStateStoreError: It is not here, or is closed before the end.
        """
        return self._merged([self.one(key, read)], lambda _: 0, reverse=False)

    def each(self, read: Callable[[S], T]) -> list[T]:
        """Return what *read* gives of every partition.

        Raises:
            InvalidStateStoreError: None is here, or one is closed meanwhile.
        """
        with reading(self._name):
            return [read(self.of_bytes(store)) for store in self.find().values()]


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
        """The partitions that are read, now. Reads of many keys are of these only."""
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
        """The input offsets that the partitions here reflect, together."""
        position = Position()
        for reached in self._partitions.each(lambda store: store.position):
            position = position.merge(reached)
        return position

    def _highest(self, time_of: Callable[[S], int | None]) -> int | None:
        """Return the highest of the partitions' times; ``None`` when none of them has one."""
        times = self._partitions.each(time_of)
        return max((time for time in times if time is not None), default=None)

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """Return the offset that the partition here which has one has committed."""
        found = self._partitions.each(lambda store: store.committed_offset(partition))
        return max((offset for offset in found if offset is not None), default=None)


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn "closed" into "not here now": the store moved while it was read (QRY-4)."""
    try:
        yield
    except StoreClosedError as error:
        raise InvalidStateStoreError(
            f"a partition of {name!r} was closed while it was read: it moves; try again"
        ) from error
