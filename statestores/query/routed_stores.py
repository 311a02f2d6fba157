"""Stores by name and type, wherever their partitions are (KIP-67, KIP-535)."""

from collections.abc import Callable, Mapping
from typing import Any

from statestores.errors import InvalidArgumentError, UnknownStateStoreError
from statestores.query.local_partitions import LocalPartitions, StoreSource
from statestores.query.metadata.application import ApplicationMetadata, MetadataWatch
from statestores.query.metadata.membership import Membership
from statestores.query.queryable_stores import QueryableStores
from statestores.query.questions import RemoteStores
from statestores.query.read_terms import ReadTerms
from statestores.query.routed_partitions import RoutedPartitions
from statestores.query.side_by_side import SideBySide
from statestores.serdes.descriptions import specification_from_description
from statestores.spi.closing import Closing
from statestores.spi.offsets import Position
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.store import ReadOnlyStore

DEFAULT_TIMEOUT_S = 5.0
"""How long a query is asked again, by default: as long as a lease, so that a failover is over."""


class _Elsewhere:
    """What is known of stores where none is: a `StoreSource` of an asking side alone."""

    def __init__(self, watch: MetadataWatch) -> None:
        self._watch = watch

    def local_stores(
        self, name: str, *, include_stale: bool = False
    ) -> Mapping[int, ReadOnlyStore]:
        """Return nothing: all of it is elsewhere."""
        return {}

    def unready(self, name: str) -> Mapping[int, str]:
        """Return nothing, likewise."""
        return {}

    def specification(self, name: str) -> StoreSpecification[Any, Any]:
        """Return what instances say that the store *name* is."""
        return specification_from_description(dict(self._known().store(name).description))

    def partition_count(self, name: str) -> int:
        """Return how many partitions they say that it has."""
        return self._known().store(name).partitions

    def changelog_end(self, name: str, partition: int) -> Any:
        """Refuse: lags are judged by the instances that are asked."""
        raise UnknownStateStoreError(f"{name!r} is not here")

    def _known(self) -> ApplicationMetadata:
        return self._watch.now if self._watch.now.instances else self._watch.look()


class RoutedStores(QueryableStores, Closing):
    """The stores of an application, here and at its other instances. Any thread may use it."""

    def __init__(
        self,
        membership: Membership,
        remote: RemoteStores,
        *,
        local: StoreSource | None = None,
        instance: str | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        """Ask the instances of *membership*, by *remote*.

        Args:
            membership: Who is there.
            remote: How others are asked, such as a `statestores.serving.FlightStores`.
            local: What is here: a `statestores.tasks.TaskManager`, for one; ``None``: nothing.
            instance: The name under which what is here is published.
            timeout_s: How long a query is asked again, when whoever has the key cannot answer.

        Raises:
            InvalidArgumentError: Only one of *local* and *instance* is given.
        """
        if (local is None) != (instance is None):
            raise InvalidArgumentError(
                f"give local and instance together, or neither; got {local!r} and {instance!r}"
            )
        self.watch = MetadataWatch(membership)
        self._remote = remote
        self._asking = SideBySide()
        self._instance = instance
        self._timeout_s = timeout_s
        source: Any = _Elsewhere(self.watch) if local is None else local
        super().__init__(source)
        self.watch.look()
        self.watch.start()

    @property
    def metadata(self) -> ApplicationMetadata:
        """Who has what, as far as is known: a quarter of a second old, or less."""
        return self.watch.now

    def positions(self, name: str, *, include_stale: bool = False) -> dict[int, Position]:
        """Return the input offsets that each partition of *name* reflects, wherever it is.

        Raises:
            UnknownStateStoreError: There is no store of that name.
            StateStoreError: A partition cannot be asked, in time.
        """
        terms = ReadTerms(include_stale=include_stale)
        return self._partitions(name, lambda _: True, terms).positions()

    def _partitions(
        self, name: str, accepts: Callable[[ReadOnlyStore], bool], terms: ReadTerms
    ) -> LocalPartitions[Any]:
        return RoutedPartitions(
            self._source,
            name,
            accepts,
            terms,
            watch=self.watch,
            remote=self._remote,
            asking=self._asking,
            instance=self._instance,
            timeout_s=self._timeout_s,
        )

    def close(self) -> None:
        """End what looks for instances, and what asks them. Idempotent."""
        self.watch.close()
        self._asking.close()
