"""The stores of the tasks that are here, for queries (KIP-67): a `StoreSource`."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from statestores.errors import InvalidStateStoreError, StoreClosedError, UnknownStateStoreError
from statestores.processing.local.sharing.task_share import TaskShare
from statestores.query.running_stores import RunningStore
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.store import Isolation, ReadOnlyStore
from statestores.state_root import StateRoot


class SharedStores:
    """What `statestores.query.QueryableStores` reads of a run; any thread may ask."""

    def __init__(self, share: Callable[[], TaskShare | None]) -> None:
        """Read what *share* has by then."""
        self._share = share

    def local_stores(self, name: str, *, include_stale: bool = False) -> dict[int, ReadOnlyStore]:
        """Return a facade of each partition of the store *name* that can be read here now.

        Raises:
            UnknownStateStoreError: The topology has no such store, or does not run.
        """
        self._root(name)
        share = self._share()
        if share is None:
            return {}
        copies = _standby_facades(share, name) if include_stale else {}
        return {**copies, **_active_facades(share, name)}

    def running(self, names: Iterable[str]) -> dict[str, RunningStore]:
        """Return what is here of the stores *names*: nothing at all before the run has begun."""
        share = self._share()
        if share is None:
            return {}
        found = {}
        for name in names:
            store = share.root.store(name)
            active = _active_facades(share, name)
            found[name] = RunningStore(
                specification=store.specification,
                partitions=store.partitions,
                active=active,
                standby={
                    number: facade
                    for number, facade in _standby_facades(share, name).items()
                    if number not in active
                },
            )
        return found

    def unready(self, name: str) -> dict[int, str]:
        """Return nothing: a task is here once it is open.

        Raises:
            UnknownStateStoreError: See `local_stores`.
        """
        self._root(name)
        return {}

    def specification(self, name: str) -> StoreSpecification[Any, Any]:
        """Return what the store *name* is.

        Raises:
            UnknownStateStoreError: See `local_stores`.
        """
        return self._root(name).store(name).specification

    def partition_count(self, name: str) -> int:
        """Return how many partitions the store *name* has, here and elsewhere.

        Raises:
            UnknownStateStoreError: See `local_stores`.
        """
        return self._root(name).store(name).partitions

    def _root(self, name: str) -> StateRoot:
        share = self._share()
        stores = {} if share is None else share.root.stores
        if share is None or name not in stores:
            raise UnknownStateStoreError(
                f"no store {name!r} is known here; there are: {', '.join(sorted(stores)) or 'none'}"
                ", and none before the run has begun"
            )
        return share.root


def _active_facades(share: TaskShare, name: str) -> dict[int, ReadOnlyStore]:
    found = {}
    for task in share.all_tasks():
        stores = task.task.stores
        if name in stores:
            with suppress(StoreClosedError):  # the task is given up just now
                store = stores[name].store
                found[task.task.id.partition] = store.read_only(Isolation.READ_COMMITTED)
    return found


def _standby_facades(share: TaskShare, name: str) -> dict[int, ReadOnlyStore]:
    found: dict[int, ReadOnlyStore] = {}
    for copies in share.all_copies():
        for partition, standby in copies.standbys(name).items():
            with suppress(InvalidStateStoreError, StoreClosedError):  # not filled, or promoted
                found[partition] = standby.read_only(include_stale=True)
    return found
