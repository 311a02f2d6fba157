"""Finding stores by name and type, or by what they are (KIP-67)."""

from collections.abc import Callable
from typing import Any, TypeVar, Unpack, overload

from statestores.errors import InvalidTypeError, UnknownStateStoreError
from statestores.query.local_partitions import LocalPartitions, StoreSource
from statestores.query.position_bound import AtLeast
from statestores.query.read_terms import GivenTerms, ReadTerms
from statestores.query.store_types import QueryableStoreType, type_of_kind
from statestores.semantics.every_kind.arguments import check_store_name
from statestores.spi.kinds import KEY_VALUE, TIMESTAMPED_KEY_VALUE
from statestores.spi.offsets import Position
from statestores.spi.session_specification import Session
from statestores.spi.specification import (
    KeyValue,
    StoreSpecification,
    TimestampedKeyValue,
    Versioned,
)
from statestores.spi.stores.key_value import ReadOnlyKeyValueStore
from statestores.spi.stores.session import ReadOnlySessionStore
from statestores.spi.stores.store import ReadOnlyStore
from statestores.spi.stores.timestamped_key_value import ReadOnlyTimestampedKeyValueStore
from statestores.spi.stores.versioned import ReadOnlyVersionedStore
from statestores.spi.stores.window import ReadOnlyWindowStore
from statestores.spi.window_specification import Window

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

_A_TABLE_AS_PLAIN = (TIMESTAMPED_KEY_VALUE, KEY_VALUE)
_OF_A_TABLE = (
    "; a table or an aggregate of a topology keeps a time with each value, also where it was given "
    "a KeyValue: ask with a TimestampedKeyValue of the same types"
)


class QueryableStores:
    """The stores of an application, as its queries see them. Any thread may use it."""

    def __init__(self, source: StoreSource) -> None:
        """Query the stores of *source*, such as a `statestores.tasks.TaskManager`.

        Raises:
            InvalidTypeError: It is something else.
        """
        if not callable(getattr(source, "local_stores", None)):
            raise InvalidTypeError(
                "stores come from a TaskManager or the like, and those of a path from "
                f"statestores.serving.FollowedRoot, got {source!r}"
            )
        self._source = source

    @overload
    def store(
        self,
        name: KeyValue[K, V],
        store_type: None = None,
        **terms: Unpack[GivenTerms],
    ) -> ReadOnlyKeyValueStore[K, V]: ...

    @overload
    def store(
        self,
        name: TimestampedKeyValue[K, V],
        store_type: None = None,
        **terms: Unpack[GivenTerms],
    ) -> ReadOnlyTimestampedKeyValueStore[K, V]: ...

    @overload
    def store(
        self,
        name: Versioned[K, V],
        store_type: None = None,
        **terms: Unpack[GivenTerms],
    ) -> ReadOnlyVersionedStore[K, V]: ...

    @overload
    def store(
        self,
        name: Window[K, V],
        store_type: None = None,
        **terms: Unpack[GivenTerms],
    ) -> ReadOnlyWindowStore[K, V]: ...

    @overload
    def store(
        self,
        name: Session[K, V],
        store_type: None = None,
        **terms: Unpack[GivenTerms],
    ) -> ReadOnlySessionStore[K, V]: ...

    @overload
    def store(
        self,
        name: str,
        store_type: QueryableStoreType[T],
        **terms: Unpack[GivenTerms],
    ) -> T: ...

    def store(
        self,
        name: str | StoreSpecification[Any, Any],
        store_type: QueryableStoreType[Any] | None = None,
        *,
        include_stale: bool = False,
        partition: int | None = None,
        at_least: AtLeast | None = None,
        max_lag: int | None = None,
    ) -> Any:
        """Return the partitions of the store *name* that are here, read as one.

        The result holds nothing: each of its operations looks for the partitions anew, sees one
        commit of each of them, and raises `InvalidStateStoreError` while what it needs is not
        here; the same call may succeed later. A read of one key goes to the partition that the
        store's partitioner gives it, and is an error, not ``None``, when that is elsewhere. A key
        that is missed there and is in another partition here raises `MisplacedKeyError`.

        Args:
            name: The store's name; or its specification, which also says how it is read, and of
                which types keys and values are.
            store_type: How it is read, such as `key_value_store`; left out with a specification.
            include_stale: Whether standbys are read as well, which may be behind (KIP-535).
            partition: Read only this one, with keys too that the partitioner gives to another.
            at_least: The position that what is read must have reached (KIP-796): one for every
                partition that is read, or one for each by its number, as `positions` gives them; a
                partition without one is read as it is. It is judged on the commit that is read, by
                each operation, which raises `NotUpToBoundError` before anything is read. An input
                of which a partition has seen nothing has not been reached.
            max_lag: How many changes what is read may lack of those that its changelog had when the
                read began (KIP-535). Judged likewise.

        Raises:
            UnknownStateStoreError: There is no store of that name, or it is not of that type, or
                other than the specification says.
            InvalidTypeError: The name is no ``str``, the type no `QueryableStoreType`, or
                *at_least* neither a position nor a mapping of such.
            InvalidArgumentError: The store has no such partition.
        """
        wanted: StoreSpecification[Any, Any] | None = None
        if isinstance(name, StoreSpecification):
            wanted, name = name, name.name
            store_type = type_of_kind(wanted.kind) if store_type is None else store_type
        check_store_name(name)
        if not isinstance(store_type, QueryableStoreType):
            raise InvalidTypeError(
                "store_type must be a QueryableStoreType, such as key_value_store(), or left out "
                f"where a specification is given; got {store_type!r}"
            )
        terms = ReadTerms(
            include_stale=include_stale, partition=partition, at_least=at_least, max_lag=max_lag
        )
        partitions = self._partitions(name, store_type.accepts, terms)
        self._check_specification(partitions.specification, wanted)
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

    def _partitions(
        self, name: str, accepts: Callable[[ReadOnlyStore], bool], terms: ReadTerms
    ) -> LocalPartitions[Any]:
        """Return what finds the partitions of the store *name*."""
        return LocalPartitions(self._source, name, accepts, terms)

    @staticmethod
    def _check_specification(
        present: StoreSpecification[Any, Any], wanted: StoreSpecification[Any, Any] | None
    ) -> None:
        """Accept a store that is what the caller says, but for what may change at an opening.

        Raises:
            UnknownStateStoreError: It is another one.
        """
        if wanted is None:
            return
        has, asked = present.describe(), wanted.describe()
        for field in sorted(has.keys() | asked.keys()):
            if has.get(field) != asked.get(field) and field not in wanted.changeable:
                advice = _OF_A_TABLE if (present.kind, wanted.kind) == _A_TABLE_AS_PLAIN else ""
                raise UnknownStateStoreError(
                    f"the store {wanted.name!r} has {field} {has.get(field)!r}, and was asked for "
                    f"with {asked.get(field)!r}{advice}"
                )

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
            self._source, name, lambda _: True, ReadTerms(include_stale=include_stale)
        )
        return partitions.positions()
