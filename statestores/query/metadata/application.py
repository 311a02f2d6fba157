"""What is known of all instances: who has which store, where a key is, how far everybody is."""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Event, Lock, Thread, current_thread
from types import MappingProxyType
from typing import Any, TypeAlias

from statestores.errors import InvalidArgumentError, StateStoreError, UnknownStateStoreError
from statestores.partitioning import partitioner_by_name
from statestores.query.metadata.choice import Candidate, candidates_for, choose
from statestores.query.metadata.host import Host
from statestores.query.metadata.instance import InstanceMetadata, KeyMetadata, StoreMetadata
from statestores.query.metadata.membership import Membership
from statestores.serdes.raw_serde import serde_or_raw
from statestores.spi.specification import StoreSpecification

Listener: TypeAlias = Callable[["ApplicationMetadata"], object]
"""Told of a change, on the thread that noticed it."""

_WATCH_SECONDS = 0.25

_LOGGER = logging.getLogger("statestores.query")


class ApplicationMetadata:
    """The instances of an application, as they were known at one moment."""

    def __init__(self, instances: Mapping[str, InstanceMetadata]) -> None:
        """Know *instances*, by their names."""
        self._instances = MappingProxyType(dict(instances))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ApplicationMetadata) and self._instances == other._instances

    def __hash__(self) -> int:
        return hash(frozenset(self._instances))

    @property
    def instances(self) -> Mapping[str, InstanceMetadata]:
        """The instances by their names."""
        return self._instances

    def all_metadata(self) -> tuple[InstanceMetadata, ...]:
        """Return every instance (KIP-67)."""
        return tuple(each for _, each in sorted(self._instances.items()))

    def all_metadata_for_store(self, name: str) -> tuple[InstanceMetadata, ...]:
        """Return the instances that have a partition of the store *name*, in any role (KIP-67)."""
        return tuple(each for each in self.all_metadata() if each.of(name))

    def store(self, name: str) -> StoreMetadata:
        """Return what the store *name* is.

        Raises:
            UnknownStateStoreError: No instance knows it.
        """
        for each in self.all_metadata():
            if name in each.stores:
                return each.stores[name]
        known = sorted({name for each in self._instances.values() for name in each.stores})
        raise UnknownStateStoreError(
            f"no instance knows a store {name!r}; known: {', '.join(known) or 'none'}"
        )

    def candidates(self, name: str, partition: int, *, local: str | None = None) -> list[Candidate]:
        """Return the instances that have *partition* of the store *name*."""
        return candidates_for(self.all_metadata(), name, partition, local=local)

    def query_metadata_for_key(self, store: StoreSpecification[Any, Any], key: Any) -> KeyMetadata:
        """Return where *key* of *store* is: active and standbys (KIP-535).

        Raises:
            UnknownStateStoreError: No instance knows the store.
            SerializationError, InvalidTypeError: It is no key of the store.
        """
        count = self.store(store.name).partitions
        encoded = serde_or_raw(store.key).encode(key)
        return self.query_metadata_for_partition(
            store.name, partitioner_by_name(store.partitioner).partition(encoded, count)
        )

    def query_metadata_for_partition(self, name: str, partition: int) -> KeyMetadata:
        """Return where *partition* of the store *name* is.

        Raises:
            UnknownStateStoreError: No instance knows the store.
            InvalidArgumentError: It has no such partition.
        """
        count = self.store(name).partitions
        if type(partition) is not int or not 0 <= partition < count:
            raise InvalidArgumentError(
                f"{name!r} has the partitions 0 to {count - 1}, got {partition!r}"
            )
        order = choose(self.candidates(name, partition), include_stale=True).order
        actives = [each.host for each in order if each.role.value == "active"]
        copies = [each.host for each in order if each.role.value != "active"]
        return KeyMetadata(
            partition=partition,
            active=actives[0] if actives else None,
            standbys=tuple(host for host in copies if host is not None),
        )

    def lags(self, name: str) -> dict[int, dict[str, int | None]]:
        """Return how far behind each instance is, by partition of *name*; restoring ones too."""
        found: dict[int, dict[str, int | None]] = {}
        for each in self.all_metadata_for_store(name):
            for number, part in each.of(name).items():
                found.setdefault(number, {})[each.instance] = part.offset_lag
        return dict(sorted(found.items()))

    def placement(self) -> frozenset[tuple[str, Host | None, str, int, str]]:
        """Return who has what in which role: what listeners are told of, lags left out."""
        return frozenset(
            (each.instance, each.host, store, number, part.role.value)
            for each in self._instances.values()
            for store, numbered in each.partitions.items()
            for number, part in numbered.items()
        ) | frozenset((name, each.host, "", -1, "") for name, each in self._instances.items())


class MetadataWatch:
    """Looks at a membership again and again, and tells listeners of changes."""

    def __init__(self, membership: Membership, *, interval_s: float = _WATCH_SECONDS) -> None:
        """Watch *membership*, every *interval_s* seconds once `start` was called."""
        self._membership = membership
        self._interval_s = interval_s
        self._lock = Lock()
        self._listeners: list[Listener] = []
        self._now = ApplicationMetadata({})
        self._placement: object = None
        self._looks = 0
        self._seen_by_look = 0
        self._news: deque[ApplicationMetadata] = deque()
        self._is_telling = False
        self._stop = Event()
        self._thread: Thread | None = None

    @property
    def now(self) -> ApplicationMetadata:
        """What was seen at the last look."""
        return self._now

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Tell *listener* of each change of who has what; return what ends that."""
        with self._lock:
            self._listeners.append(listener)

        def end() -> None:
            with self._lock, suppress(ValueError):
                self._listeners.remove(listener)

        return end

    def look(self) -> ApplicationMetadata:
        """Look now, tell listeners if anything has changed, and return what there is.

        Looks of several threads overlap: what a look has found that began before the last one is
        dropped, since it may be older; and news that come while listeners are told are told by
        whoever is telling, in their order.

        Raises:
            StateStoreError: It cannot be found out.
        """
        with self._lock:
            self._looks += 1
            begun = self._looks
        found = ApplicationMetadata(self._membership.instances())
        placement = found.placement()
        with self._lock:
            if begun < self._seen_by_look:
                return self._now
            self._seen_by_look = begun
            if placement != self._placement:
                self._news.append(found)
            self._now, self._placement = found, placement
        self._tell()
        return found

    def _tell(self) -> None:
        """Tell listeners what is new, unless another thread does."""
        while True:
            with self._lock:
                if self._is_telling or not self._news:
                    return
                self._is_telling = True
                news, told = self._news.popleft(), list(self._listeners)
            try:
                for listener in told:
                    try:
                        listener(news)
                    except Exception:
                        _LOGGER.exception("a listener of metadata failed; the next change is told")
            finally:
                with self._lock:
                    self._is_telling = False

    def start(self) -> None:
        """Begin to look, on a thread of its own. Idempotent."""
        if self._thread is None:
            self._thread = Thread(target=self._run, name="metadata-watch", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            with suppress(StateStoreError):  # the next look may find it out
                self.look()
            self._stop.wait(self._interval_s)

    def close(self) -> None:
        """End the thread. Idempotent; a listener may call it."""
        self._stop.set()
        if self._thread is not None and self._thread is not current_thread():
            self._thread.join()
            self._thread = None
