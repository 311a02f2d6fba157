"""A standby: a copy of a store that follows its changelog, and takes over in no time (KIP-535).

It never takes the writer's lock, so it follows while the writer runs, on this machine or on another
that sees the state root. Its engine lies in a directory of its own.
"""

import shutil
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

from statestores.arrow.progress import ProgressCallback
from statestores.arrow.snapshot_directory import list_snapshots
from statestores.changelog import ChangelogOptions, ChangelogReader, changelog_partition
from statestores.errors import (
    InvalidArgumentError,
    InvalidStateStoreError,
    StateStoreError,
    StorageError,
    StoreClosedError,
    StoreNotFoundError,
)
from statestores.logged_store import LoggedStore, bring_up, join_changelog
from statestores.opening import ENGINE_DIRECTORY, BytesStore, open_bytes_store, typed_store
from statestores.semantics.arguments import check_store_name
from statestores.semantics.local_path import local_path
from statestores.spi.closing import Closing
from statestores.spi.durability import Durability
from statestores.spi.metric import Metrics
from statestores.spi.store import Isolation, ReadOnlyStore
from statestores.staged_write import finish_staged_writes
from statestores.state_root import PartitionDirectory, StateRoot
from statestores.tasks.lag import LagInfo
from statestores.tasks.task_metrics import UpdateMeter

FOLLOW_INTERVAL_S = 0.1
"""How long a following standby waits before it looks for new changes, by default."""


class Standby(Closing):
    """One partition of a store, as far as this copy has come. Made by `open_standby`.

    `poll`, `follow` and `promote` belong to the thread that owns the standby; `read_only`, its
    facades and `lag` may be used from any.
    """

    def __init__(
        self,
        root: StateRoot,
        source: PartitionDirectory,
        partition: int,
        directory: Path,
        open_copy: Callable[[], BytesStore],
    ) -> None:
        """Open the copy in *directory*, with *open_copy*."""
        store = open_copy()
        self._root = root
        self._source = source
        self._directory = directory
        self._open_copy = open_copy
        self._store: BytesStore | None = store
        self._specification = store.specification
        self._partition = partition
        self._logged = changelog_partition(store.name, partition)
        self._promoted: LoggedStore[Any] | None = None
        self._is_loading = self._has_to_load(store, first_offset=0)
        self._follower: threading.Thread | None = None
        self._stop_following = threading.Event()
        self._failure: StateStoreError | None = None
        self._polling = threading.Lock()
        self._meter = UpdateMeter()

    @property
    def name(self) -> str:
        """The store's name."""
        return self._specification.name

    @property
    def partition(self) -> int:
        """The partition's number."""
        return self._partition

    @property
    def is_open(self) -> bool:
        """Whether the standby has been neither closed nor promoted."""
        return self._store is not None

    @property
    def failure(self) -> StateStoreError | None:
        """What has ended `follow`; ``None`` while nothing has."""
        return self._failure

    @property
    def lag(self) -> LagInfo:
        """How far the copy is, and how far the changelog.

        Raises:
            StoreClosedError: The standby is closed or promoted.
            ChangelogCorruptedError, StorageError: The changelog cannot be read.
        """
        store = self._opened()
        committed = store.committed_offset(self._logged)
        current = 0 if committed is None else committed + 1
        try:
            with ChangelogReader.open(self._source.changelog, self._specification.kind) as log:
                return LagInfo(current, log.end_offset)
        except StoreNotFoundError:
            return LagInfo(current, current)

    def poll(self, *, progress: ProgressCallback | None = None) -> int:
        """Take what the changelog has beyond the copy; return how many rows and changes that was.

        A copy that the changelog has left behind, because its beginning was deleted, is begun
        anew from the newest valid snapshot. Meanwhile it cannot be read, and facades of what it
        was are closed.

        Raises:
            StoreClosedError: The standby is closed or promoted.
            StoreMismatchError: The copy is ahead of the changelog, or of another store.
            ChangelogCorruptedError, OffsetOutOfRangeError, StorageError: What there is cannot be
                read, or is not enough.
        """
        with self._polling:
            return self._poll(progress)

    def _poll(self, progress: ProgressCallback | None) -> int:
        store = self._opened()
        try:
            log = ChangelogReader.open(self._source.changelog, self._specification.kind)
        except StoreNotFoundError:
            return 0  # the writer has not begun
        with log:
            self._is_loading = self._has_to_load(store, log.first_offset)
            if self._is_loading and store.committed_offset(self._logged) is not None:
                store = self._begin_anew(store)
            report = bring_up(store, log, self._source, self._logged, progress)
        self._is_loading = False
        taken = report.snapshot_rows + report.changelog_rows
        self._meter.taken(taken)
        return taken

    def _has_to_load(self, store: BytesStore, first_offset: int) -> bool:
        """Return whether a snapshot comes before the changelog, which begins at *first_offset*."""
        committed = store.committed_offset(self._logged)
        if committed is None:
            return bool(list_snapshots(self._source.snapshots))
        return first_offset > committed + 1

    def _begin_anew(self, store: BytesStore) -> BytesStore:
        """Return an empty copy in place of *store*, so that no facade shows a half-loaded one."""
        store.close()
        try:
            shutil.rmtree(self._directory / ENGINE_DIRECTORY)
        except OSError as error:
            raise StorageError(
                f"cannot remove the outdated copy in {str(self._directory)!r}: "
                f"{error.strerror or error}"
            ) from error
        self._store = self._open_copy()
        return self._store

    def follow(self, interval_s: float = FOLLOW_INTERVAL_S) -> None:
        """Begin to `poll` on a thread of its own, every *interval_s* seconds.

        What ends it is in `failure`; the copy can still be read.

        Raises:
            StoreClosedError: The standby is closed or promoted.
            InvalidArgumentError: The interval is negative, or the standby follows already.
        """
        self._opened()
        if interval_s < 0:
            raise InvalidArgumentError(f"interval_s must be from 0, got {interval_s!r}")
        if self._follower is not None:
            raise InvalidArgumentError(f"the standby of {self.name!r} follows already")
        self._failure = None
        self._stop_following.clear()
        name = f"standby-{self.name}-{self._partition}"
        self._follower = threading.Thread(
            target=self._follow, args=(interval_s,), name=name, daemon=True
        )
        self._follower.start()

    def _follow(self, interval_s: float) -> None:
        while not self._stop_following.wait(interval_s):
            try:
                self.poll()
            except StateStoreError as error:
                if error.retryable:
                    continue
                self._failure = error
                return

    def stop(self) -> None:
        """End `follow`, and wait for the poll that is running. Idempotent."""
        self._stop_following.set()
        if self._follower is not None:
            self._follower.join()
            self._follower = None

    def read_only(self, *, include_stale: bool = False) -> ReadOnlyStore:
        """Return a facade of the copy: some commit of the store, `lag` behind the last one.

        It stays valid when the standby is promoted, and one can be had after it as well: so
        readers notice nothing of a failover.

        Raises:
            StoreClosedError: The standby is closed, or the promoted store is.
            InvalidStateStoreError: Stale reads were not asked for; or the copy is being loaded,
                and what it holds is not yet a commit of the store.
        """
        if self._promoted is not None:
            facade: ReadOnlyStore = self._promoted.store.read_only(Isolation.READ_COMMITTED)
            return facade
        store = self._opened()
        if not include_stale:
            raise InvalidStateStoreError(
                f"partition {self._partition} of {self.name!r} is a standby here, which may be "
                "behind; read it with include_stale=True, or ask the active one"
            )
        if self._is_loading:
            raise InvalidStateStoreError(
                f"the standby of partition {self._partition} of {self.name!r} is loading; try again"
            )
        opened = typed_store(store, self._specification)
        return opened.read_only(Isolation.READ_COMMITTED)

    def promote(
        self,
        *,
        changelog_options: ChangelogOptions | None = None,
        progress: ProgressCallback | None = None,
    ) -> LoggedStore[Any]:
        """Become the store's writer: take over the changelog, and only what is missing of it.

        The standby is then closed, and the logged store owns the engine; facades stay valid. When
        it raises, the standby stays what it was.

        Raises:
            StoreClosedError: The standby is closed or promoted.
            StoreLockedError: The old writer still holds the changelog.
            StateStoreError: As `statestores.open_logged_store`.
        """
        self.stop()
        with self._polling:
            store = self._opened()
            finish_staged_writes(self._root, self.name)
            promoted = join_changelog(
                store,
                self._root,
                self._partition,
                changelog_options=changelog_options,
                progress=progress,
            )
            self._promoted, self._store = promoted, None
        return promoted

    def metrics(self) -> Metrics:
        """Return how far the copy is, and the metrics of its store (MET-11).

        Any thread may ask. There are none once it is closed, or promoted: they are the promoted
        store's then. What the changelog lacks to be readable leaves out the lag.
        """
        store = self._store
        if store is None:
            return ()
        lag: LagInfo | None = None
        with suppress(StateStoreError):
            lag = self.lag
        tags = {"partition": str(self._partition)}
        return self._meter.metrics(store.metrics(), lag, tags)

    def close(self) -> None:
        """Stop following and close the copy. Idempotent."""
        self.stop()
        with self._polling:
            store, self._store = self._store, None
            if store is not None:
                store.close()

    def _opened(self) -> BytesStore:
        store = self._store
        if store is None:
            raise StoreClosedError(
                f"the standby of partition {self._partition} of {self.name!r} is closed or promoted"
            )
        return store


def open_standby(
    root: StateRoot | str | PathLike[str],
    name: str,
    partition: int,
    directory: str | PathLike[str],
    *,
    backend: str | None = None,
    options: Mapping[str, object] | None = None,
    durability: Durability = Durability.POWER_LOSS,
) -> Standby:
    """Open a copy of *partition* of the store *name*, whose engine lies in *directory*.

    Nothing is read yet: call `Standby.poll`, or `Standby.follow`. *durability* is that of the
    store's commits once it is promoted.

    Raises:
        StoreNotFoundError: There is no such state root or store.
        InvalidArgumentError: The store has no such partition, or *directory* is the active one's.
        StateStoreError: As `statestores.open_store`.
    """
    check_store_name(name)
    state = root if isinstance(root, StateRoot) else StateRoot.open(root)
    source = state.partition(name, partition)
    own = local_path(directory, "directory")
    if own.resolve() == source.path.resolve():
        raise InvalidArgumentError(
            f"{str(own)!r} is where the active store of partition {partition} of {name!r} lies; "
            "give the standby a directory of its own"
        )
    specification = state.store(name).specification

    def open_copy() -> BytesStore:
        return open_bytes_store(
            own,
            specification,
            backend=backend,
            options=options,
            durability=durability,
            restorable=True,
        )

    return Standby(state, source, partition, own, open_copy)
