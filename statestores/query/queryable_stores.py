"""Finding stores by name and type (KIP-67)."""

from typing import Any, TypeVar

from statestores.errors import InvalidTypeError, UnknownStateStoreError
from statestores.query.local_partitions import LocalPartitions, StoreSource
from statestores.query.position_bound import AtLeast
from statestores.query.store_types import QueryableStoreType
from statestores.semantics.every_kind.arguments import check_store_name
from statestores.spi.offsets import Position

T = TypeVar("T")


class QueryableStores:
    """The stores of an application, as its queries see them. Any thread may use it."""

    def __init__(self, source: StoreSource) -> None:
        """Query the stores of *source*, such as a `statestores.tasks.TaskManager`.

        Raises:
            InvalidTypeError: It is something else.
        """
        if not callable(getattr(source, "local_stores", None)):
            raise InvalidTypeError(f"stores come from a TaskManager or the like, got {source!r}")
        self._source = source

    def store(
        self,
        name: str,
        store_type: QueryableStoreType[T],
        *,
        include_stale: bool = False,
        partition: int | None = None,
        at_least: AtLeast | None = None,
    ) -> T:
        """Return the partitions of the store *name* that are here, read as one.

        The result holds nothing: each of its operations looks for the partitions anew, sees one
        commit of each of them, and raises `InvalidStateStoreError` while what it needs is not
        here; the same call may succeed later. A read of one key goes to the partition that the
        store's partitioner gives it, and is an error, not ``None``, when that is elsewhere. A key
        that is missed there and is in another partition here raises `MisplacedKeyError`.

        Args:
            name: The store's name.
            store_type: How it is read, such as `key_value_store`.
            include_stale: Whether standbys are read as well, which may be behind (KIP-535).
            partition: Read only this one, with keys too that the partitioner gives to another.
            at_least: The position that what is read must have reached (KIP-796): one for every
                partition that is read, or one for each by its number, as `positions` gives them; a
                partition without one is read as it is. It is judged on the commit that is read, by
                each operation, which raises `NotUpToBoundError` before anything is read. An input
                of which a partition has seen nothing has not been reached.

        Raises:
            UnknownStateStoreError: There is no store of that name, or it is not of that type.
            InvalidTypeError: The name is no ``str``, the type no `QueryableStoreType`, or
                *at_least* neither a position nor a mapping of such.
            InvalidArgumentError: The store has no such partition.
        """
        check_store_name(name)
        if not isinstance(store_type, QueryableStoreType):
            raise InvalidTypeError(
                "store_type must be a QueryableStoreType, such as key_value_store(), got "
                f"{store_type!r}"
            )
        partitions: LocalPartitions[Any] = LocalPartitions(
            self._source,
            name,
            store_type.accepts,
            include_stale=include_stale,
            partition=partition,
            at_least=at_least,
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
        return store_type.create(partitions)

    def positions(self, name: str, *, include_stale: bool = False) -> dict[int, Position]:
        """Return the input offsets that each partition of *name* here reflects, by its number.

        A position is what a later query can ask for: ``store(..., at_least=positions)``.

        Args:
            name: The store's name.
            include_stale: Whether standbys count as well, which may be behind (KIP-535).

        Raises:
            InvalidTypeError: The name is no ``str``.
            UnknownStateStoreError: There is no store of that name.
            InvalidStateStoreError: No partition of it is here now.
        """
        check_store_name(name)
        partitions: LocalPartitions[Any] = LocalPartitions(
            self._source, name, lambda _: True, include_stale=include_stale
        )
        return partitions.positions()
