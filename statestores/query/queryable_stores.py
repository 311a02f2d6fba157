"""Finding stores by name and type (KIP-67)."""

from typing import Any, TypeVar

from statestores.errors import InvalidArgumentError, UnknownStateStoreError
from statestores.query.local_partitions import LocalPartitions, StoreSource
from statestores.query.store_types import QueryableStoreType

T = TypeVar("T")


class QueryableStores:
    """The stores of an application, as its queries see them. Any thread may use it."""

    def __init__(self, source: StoreSource) -> None:
        """Query the stores of *source*, such as a `statestores.tasks.TaskManager`."""
        self._source = source

    def store(
        self,
        name: str,
        store_type: QueryableStoreType[T],
        *,
        include_stale: bool = False,
        partition: int | None = None,
    ) -> T:
        """Return the partitions of the store *name* that are here, read as one.

        The result holds nothing: each of its operations looks for the partitions anew, sees one
        commit of each of them, and raises `InvalidStateStoreError` while what it needs is not
        here; the same call may succeed later. A read of one key goes to the partition that the
        store's partitioner gives it, and is an error, not ``None``, when that is elsewhere.

        Args:
            name: The store's name.
            store_type: How it is read, such as `key_value_store`.
            include_stale: Whether standbys are read as well, which may be behind (KIP-535).
            partition: Read only this one.

        Raises:
            UnknownStateStoreError: There is no store of that name, or it is not of that type.
            InvalidArgumentError: The store has no such partition.
        """
        count = self._source.partition_count(name)
        if partition is not None and (type(partition) is not int or not 0 <= partition < count):
            raise InvalidArgumentError(
                f"{name!r} has the partitions 0 to {count - 1}, got {partition!r}"
            )
        accepted = [
            store_type.accepts(store)
            for store in self._source.local_stores(name, include_stale=True).values()
        ]
        if not all(accepted):
            raise UnknownStateStoreError(
                f"{name!r} is {self._source.specification(name).kind}, which "
                f"{type(store_type).__name__.strip('_')} does not accept"
            )
        partitions: LocalPartitions[Any] = LocalPartitions(
            self._source,
            name,
            store_type.accepts,
            include_stale=include_stale,
            partition=partition,
        )
        return store_type.create(partitions)
