"""A task: the stores of one group in one partition, opened, committed and closed together."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, TypeVar, overload

from statestores.arrow.snapshots.native_writing import SnapshotFormat
from statestores.errors import (
    CommitConflictError,
    InvalidArgumentError,
    StateStoreError,
    StoreClosedError,
    StoreNotFoundError,
)
from statestores.logged_store import LoggedStore
from statestores.semantics.every_kind.arguments import check_store_name
from statestores.semantics.every_kind.self_description import check_description
from statestores.serdes.typed_stores.processor_store import for_processors
from statestores.spi.closing import Closing
from statestores.spi.metrics.catalog import tagged
from statestores.spi.metrics.metric import Metrics
from statestores.spi.offsets import Position, TopicPartition
from statestores.spi.session_specification import Session
from statestores.spi.specification import (
    KeyValue,
    StoreSpecification,
    TimestampedKeyValue,
    Versioned,
)
from statestores.spi.stores.key_value import KeyValueStore
from statestores.spi.stores.session import SessionStore
from statestores.spi.stores.timestamped_key_value import TimestampedKeyValueStore
from statestores.spi.stores.versioned import VersionedStore
from statestores.spi.stores.window import WindowStore
from statestores.spi.window_specification import Window
from statestores.tasks.commits.task_commits import TaskCommits
from statestores.tasks.lag import LATEST_OFFSET, LagInfo, lag_of_owner
from statestores.tasks.rebuilding import Rebuild
from statestores.tasks.task_id import TaskId

K = TypeVar("K")
V = TypeVar("V")

PICTURE_FILE = "topology.mmd"
"""What writes the state, as a Mermaid diagram in that directory: for people, not for decisions."""


class Task(Closing):
    """The owner of its stores: one thread at a time uses it. Made by `open_task`."""

    def __init__(
        self,
        task_id: TaskId,
        stores: Mapping[str, LoggedStore[Any]],
        commits: TaskCommits,
        rebuilds: Sequence[Rebuild],
    ) -> None:
        """Take over open stores, and what commits them as one."""
        self._id = task_id
        self._stores = dict(stores)
        self._commits = commits
        self._rebuilds = tuple(rebuilds)
        self._open = True
        self._is_half_committed = False
        self._is_half_rolled_back = False

    def __repr__(self) -> str:
        names = ", ".join(sorted(self._stores))
        return f"<task {self._id}, stores: {names}{'' if self._open else ', closed'}>"

    @property
    def id(self) -> TaskId:
        """The task's name."""
        return self._id

    @property
    def is_open(self) -> bool:
        """Whether `close` has not been called."""
        return self._open

    @property
    def stores(self) -> dict[str, LoggedStore[Any]]:
        """The logged stores by name; see `logged_store`."""
        return dict(self._stores)

    @property
    def rebuilds(self) -> tuple[Rebuild, ...]:
        """The stores that were damaged, and have been restored from scratch."""
        return self._rebuilds

    @overload
    def store(self, name: TimestampedKeyValue[K, V]) -> TimestampedKeyValueStore[K, V]: ...
    @overload
    def store(self, name: KeyValue[K, V]) -> KeyValueStore[K, V]: ...
    @overload
    def store(self, name: Versioned[K, V]) -> VersionedStore[K, V]: ...
    @overload
    def store(self, name: Window[K, V]) -> WindowStore[K, V]: ...
    @overload
    def store(self, name: Session[K, V]) -> SessionStore[K, V]: ...
    @overload
    def store(self, name: str) -> Any: ...
    def store(self, name: str | StoreSpecification[Any, Any]) -> Any:
        """Return the store *name* for processors, with keys and values of its serdes.

        By its specification instead of its name, a type checker knows what it is.

        It is a store of its kind, except for what would tear a task's commit apart: `commit`,
        `rollback`, `truncate`, `clear_offsets`, `advance_position` and `close` raise
        `CapabilityNotSupportedError` and say who commits (KIP-1035). A runtime that needs them
        has `logged_store`.

        Raises:
            StoreNotFoundError: The task has no such store.
            StoreMismatchError: It is other than the specification says.
        """
        wanted = name if isinstance(name, StoreSpecification) else None
        name = name.name if isinstance(name, StoreSpecification) else name
        store = self.logged_store(name).store
        if wanted is not None:
            has = store.specification.describe()
            check_description(has, wanted, wanted.changeable, evolving=False)
        return for_processors(
            store,
            f"the stores of the task {self._id} commit together, by `Task.commit`; a runtime has "
            f"the whole store by `Task.logged_store({name!r}).store`",
        )

    def logged_store(self, name: str) -> LoggedStore[Any]:
        """Return the store *name* with its changelog: the door of the runtime that owns the task.

        Committing it commits this store alone.

        Raises:
            InvalidTypeError: The name is no ``str``.
            StoreNotFoundError: The task has no such store.
        """
        check_store_name(name)
        try:
            return self._stores[name]
        except KeyError as error:
            raise StoreNotFoundError(
                f"the task {self._id} has no store {name!r}; it has: {', '.join(self._stores)}"
            ) from error

    @property
    def position(self) -> Position:
        """The last input offsets that the stores reflect; reading goes on at `next_offset`.

        The stores commit together, so what one of them has seen, all of them reflect.
        """
        position = Position()
        for store in self._stores.values():
            position = position.merge(store.position)
        return position

    def next_offset(self, partition: TopicPartition) -> int:
        """Return where to resume reading *partition* of the input: 0 at the beginning (COM-47).

        One more than the last offset that the last commit reflects.

        Raises:
            StoreClosedError: The task is closed.
            CommitConflictError: A commit stopped halfway: open the task again.
        """
        self._check_whole()
        return max(store.next_offset(partition) for store in self._stores.values())

    def commit(self, position: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit the pending writes of every store, and the input *position*, as one (TSK-3).

        What the task's outputs have pending is part of it (TSK-14). With writes in one store, and
        nothing to emit, this costs that store's commit. Else they are recorded first, which writes
        them twice.

        Raises:
            StoreClosedError: The task is closed.
            CommitConflictError: An earlier commit stopped halfway: it is committed. Close the
                task and open it again.
            InvalidTypeError, InvalidArgumentError: The position is malformed.
            FencedError: The task is in an object store, and another process has taken it over;
                nothing of this was committed.
            StorageError: The disk is full or failed. Commit again: that says whether this one
                was committed before it failed.
        """
        self._check_whole()
        reached = self.position.merge(Position(position or {}))
        for store in self._stores.values():
            if store.changelog_partition in reached:
                raise InvalidArgumentError(
                    f"{store.changelog_partition} is the changelog of {store.name!r}, a store of "
                    f"the task {self._id}, and a position names what the task reads; leave it out"
                )
        pending = [store for store in self._stores.values() if store.store.has_pending_writes]
        committed = pending or list(self._stores.values())[:1]
        if len(committed) > 1 or self._commits.emits:
            self._commit_several(committed, reached)
        else:  # one store commits as one anyway
            self._commit_one(committed[0], reached)
        # It is committed, and there is nothing to roll back: whoever does not get to the end of
        # this method is told so.
        self._commits.note(committed, self._stores.values())
        self._is_half_committed = False

    def _commit_one(self, store: LoggedStore[Any], reached: Position) -> None:
        """Commit the only store; the task counts as half committed then, and not if it raises."""
        try:
            self._is_half_committed = True
            store.commit(reached)
        except BaseException:  # also an interrupt; the store itself knows what it has of the commit
            self._is_half_committed = False
            raise

    def _commit_several(self, pending: Sequence[LoggedStore[Any]], reached: Position) -> None:
        """Commit by a record, which is the commit point; the task counts as half committed then."""
        is_committed = False
        try:
            self._is_half_committed = True  # until more is known
            carry_out = self._commits.record(pending, reached)
            is_committed = True
            carry_out()
        except BaseException:  # also an interrupt
            self._is_half_committed = is_committed or self._commits.is_recorded()
            raise

    def rollback(self) -> None:
        """Forget what every store has pending.

        Raises:
            StoreClosedError: The task is closed.
            CommitConflictError: A commit stopped halfway: it is committed.
        """
        self._check_open()
        self._check_not_half_committed()
        done = 0
        self._is_half_rolled_back = True  # no commit of the rest, should this be interrupted
        try:
            self._commits.forget()
            for store in self._stores.values():
                store.store.rollback()
                done += 1
        except StateStoreError:
            self._is_half_rolled_back = done > 0  # a commit would take what the others have
            raise
        self._is_half_rolled_back = False

    def snapshot(self, *, snapshot_format: SnapshotFormat = "arrow") -> dict[str, int]:
        """Write a snapshot of each store that has a commit; return the offsets by store.

        *snapshot_format* is that of `LoggedStore.snapshot`.

        Raises:
            InvalidArgumentError, CapabilityNotSupportedError, StoreClosedError, StorageError: See
                `LoggedStore.snapshot`.
        """
        self._check_open()
        written = {
            name: store.snapshot(snapshot_format=snapshot_format)
            for name, store in self._stores.items()
        }
        return {name: info.offset for name, info in written.items() if info is not None}

    def lags(self) -> dict[str, LagInfo]:
        """Return for each store how far it is; an open task's stores have everything.

        Any thread may ask.
        """
        self._check_open()
        return {name: lag_of_owner(store) for name, store in self._stores.items()}

    @property
    def offset_sum(self) -> int:
        """What an assignor is told: an active task has everything (KIP-441)."""
        return LATEST_OFFSET

    def metrics(self) -> Metrics:
        """Return the metrics of every store, tagged with the task (MET-10). Any thread may ask."""
        tags = {"task-id": str(self._id)}
        return tuple(
            metric for store in self._stores.values() for metric in tagged(store.metrics(), tags)
        )

    def close(self) -> None:
        """Close the stores; pending writes are forgotten. Idempotent."""
        self._open = False
        with ExitStack() as stack:
            stack.callback(self._commits.close)
            for store in self._stores.values():
                stack.callback(store.close)

    def _check_whole(self) -> None:
        """Accept an open task whose last commit or rollback has not stopped halfway."""
        self._check_open()
        self._check_not_half_committed()
        if self._is_half_rolled_back:
            raise CommitConflictError(
                f"a rollback of the task {self._id} has not ended: some of its stores have "
                "forgotten their writes; roll back again, or close the task and open it again"
            )

    def _check_not_half_committed(self) -> None:
        if self._is_half_committed:
            raise CommitConflictError(
                f"a commit of the task {self._id} is recorded and has not ended; close the task "
                "and open it again"
            )

    def _check_open(self) -> None:
        if not self._open:
            raise StoreClosedError(f"the task {self._id} is closed; open it again")
