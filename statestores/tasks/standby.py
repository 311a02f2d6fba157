"""A standby: a copy of a store that follows its changelog, and takes over in no time (KIP-535).

It never takes the writer's lock, and in an object store it fences nobody: so it follows while the
writer runs, on this machine or on another that sees the state root. Its engine lies in a directory
of its own.
"""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from statestores.arrow.progress import ProgressCallback
from statestores.arrow.restoring.restore import restore
from statestores.arrow.snapshots.reader import Snapshot
from statestores.changelog import ChangelogOptions, changelog_partition
from statestores.engine_creation import ENGINE_DIRECTORY
from statestores.errors import (
    InvalidArgumentError,
    InvalidStateStoreError,
    OffsetOutOfRangeError,
    SnapshotCorruptedError,
    StateStoreError,
    StorageError,
    StoreClosedError,
)
from statestores.logged_store import LoggedStore, join_changelog
from statestores.logged_store.object_opening import ReadyEngine, bring_up, ready_copy, take_over
from statestores.object_log import ObjectChangelog
from statestores.opening import BytesStore, typed_store
from statestores.spi.closing import Closing
from statestores.spi.metrics.metric import Metrics
from statestores.spi.offsets import offset_after
from statestores.spi.stores.store import Isolation, ReadOnlyStore
from statestores.staging.unfinished_write import finish_staged_writes
from statestores.state_root import StateRoot
from statestores.tasks.copying.source import CopySource
from statestores.tasks.copying.steady_changelog import SteadyLog
from statestores.tasks.follower import FOLLOW_INTERVAL_S, Follower
from statestores.tasks.lag import LagInfo, lag_of_owner
from statestores.tasks.task_metrics import UpdateMeter

_ATTEMPTS = 10
"""How often a poll begins again, when the writer deletes what it reads."""


class Standby(Closing):
    """One partition of a store, as far as this copy has come. Made by `open_standby`.

    `poll`, `follow` and `promote` belong to the thread that owns the standby; `read_only`, its
    facades and `lag` may be used from any.
    """

    def __init__(
        self,
        root: StateRoot,
        source: CopySource,
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
        with closed_on_failure(store):
            self._is_loading = source.is_unloaded(store)
        self._follower = Follower(f"standby-{store.name}-{partition}")
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
        """What keeps `follow` from going on, or has ended it; ``None`` while nothing does."""
        return self._follower.failure

    @property
    def is_following(self) -> bool:
        """Whether `follow` was called, and neither `stop` nor a `failure` has ended it."""
        return self._follower.is_running

    @property
    def lag(self) -> LagInfo:
        """How far the copy is, and how far the changelog; once promoted, how far the store.

        Raises:
            StoreClosedError: The standby is closed, or the promoted store is.
            ChangelogCorruptedError, StorageError: The changelog cannot be read.
        """
        store = self._store  # before: a promotion sets the other one first
        promoted = self._promoted
        if promoted is not None:
            return lag_of_owner(promoted)
        if store is None:
            store = self._opened()
        try:
            committed = store.committed_offset(self._logged)
        except StoreClosedError:
            self._opened()
            committed = None  # it is being begun anew
        next_offset = offset_after(committed)
        return self._source.lag(next_offset)

    def poll(self, *, progress: ProgressCallback | None = None) -> int:
        """Take what the changelog has beyond the copy; return how many rows and changes it took.

        A copy that the changelog has left behind, because its beginning was deleted, before or
        while it is read, is begun anew from the newest valid snapshot. Meanwhile it cannot be
        read, and facades of what it was are closed. Without a snapshot it stays what it is.

        Raises:
            StoreClosedError: The standby is closed or promoted.
            StoreReshardedError: The store has been resharded since the standby was opened.
            StoreMismatchError: The copy is ahead of the changelog, or of another store.
            StoreCorruptedError, OffsetOutOfRangeError, StorageError: What there is cannot be read,
                or is not enough.
        """
        with self._polling:
            return self._poll(progress)

    def _poll(self, progress: ProgressCallback | None) -> int:
        """Take what there is now, however often the writer deletes it while it is read."""
        attempts = 0
        while True:
            attempts += 1
            store = self._opened()
            if not store.is_open:  # it could not be begun anew
                store = self._store = self._open_copy()
            with self._source.missing(store) as missing:
                if missing is None:
                    return 0  # the writer has not begun
                log, snapshot = missing
                try:
                    return self._take(store, snapshot, log, progress)
                except OffsetOutOfRangeError:
                    if attempts == _ATTEMPTS:
                        raise
                except (SnapshotCorruptedError, StorageError):
                    if attempts == _ATTEMPTS or snapshot is None or snapshot.is_there:
                        raise

    def _take(
        self,
        store: BytesStore,
        snapshot: Snapshot | None,
        log: SteadyLog,
        progress: ProgressCallback | None,
    ) -> int:
        """Load *snapshot*, if there is one, and what *log* has beyond it or the copy."""
        committed = store.committed_offset(self._logged)
        next_offset = offset_after(committed)
        if snapshot is not None:
            was_readable, self._is_loading = not self._is_loading, True
            if committed is not None:
                store = self._begin_anew(store)
            elif was_readable:  # as one that has nothing: a facade would show half of the snapshot
                store = self._opened_again(store)
        elif next_offset < min(log.compacted_to, log.end_offset):
            # What compaction has left of those commits is none of them, until its end is reached.
            self._is_loading = True
            store = self._opened_again(store)
        report = restore(
            store, snapshot=snapshot, changelog=log, partition=self._logged, progress=progress
        )
        self._is_loading = False
        taken = report.snapshot_rows + report.changelog_rows
        self._meter.taken(taken)
        return taken

    def _opened_again(self, store: BytesStore) -> BytesStore:
        """Return *store*, opened again: facades of what it was show nothing of what it becomes."""
        store.close()
        reopened = self._store = self._open_copy()
        return reopened

    def _begin_anew(self, store: BytesStore) -> BytesStore:
        """Return an empty copy in place of *store*, so that no facade shows a half-loaded one."""
        store.close()
        try:
            with suppress(FileNotFoundError):  # of a backend that keeps nothing there
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

        What ends it is in `failure`; the copy can still be read. While what it needs of the
        changelog has been deleted and no snapshot has it, or the changelog is gone, as that of a
        disk which is not mounted, `failure` says so, and it keeps trying.

        Raises:
            StoreClosedError: The standby is closed or promoted.
            InvalidArgumentError: The interval is no number from 0, or the standby follows already.
        """
        self._opened()
        if self._follower.is_started:
            raise InvalidArgumentError(f"the standby of {self.name!r} follows already")
        self._follower.start(self.poll, interval_s)

    def stop(self) -> None:
        """End `follow`, and wait for the poll that is running. Idempotent."""
        self._follower.stop()

    def read_only(self, *, include_stale: bool = False) -> ReadOnlyStore:
        """Return a facade of the copy: some commit of the store, `lag` behind the last one.

        It stays valid when the standby is promoted, and one can also be had after that, so
        readers do not notice a failover.

        Raises:
            StoreClosedError: The standby is closed, or the promoted store is.
            InvalidStateStoreError: Stale reads were not asked for; or the copy is being loaded,
                and what it holds is not yet a commit of the store.
        """
        store = self._store  # before: a promotion sets the other one first
        promoted = self._promoted
        if promoted is not None:
            facade: ReadOnlyStore = promoted.store.read_only(Isolation.READ_COMMITTED)
            return facade
        if store is None:
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
        """Become the store's writer: take over the changelog, and read only what the copy lacks.

        The standby is then closed, and the logged store owns the engine; facades stay valid. When
        it raises, the standby stays what it was, and goes on following if it did.

        Raises:
            StoreClosedError: The standby is closed or promoted.
            StoreLockedError: The old writer still holds the changelog. In an object store it is
                fenced instead (TSK-20).
            FencedError: Another process takes the partition over at the same time.
            StateStoreError: As `statestores.open_logged_store`.
        """
        with self._handing_over():
            if self._root.storage is None:
                return self._take_over(changelog_options, progress)
            ready = self._made_ready()
            with ExitStack() as on_failure:
                taken = on_failure.enter_context(take_over(ready, changelog_options))
                promoted = self._taken_over(ready, taken, progress)
                on_failure.pop_all()
            return promoted

    @contextmanager
    def _handing_over(self) -> Iterator[None]:
        """Keep everybody else from the copy in the block; if that raises, it follows as before."""
        was_following = self.is_following
        self.stop()
        try:
            with self._polling:
                yield
        except BaseException:
            if was_following and self.is_open:
                self.follow(self._follower.interval_s)
            raise

    def _made_ready(self) -> ReadyEngine:
        """Return the copy, in an object store and near the end of its changelog, to take that over.

        Requires: `_handing_over`.

        Raises:
            StateStoreError: As `poll`.
        """
        self._poll(None)
        return ready_copy(self._root, self._opened(), self._partition)

    def _taken_over(
        self, ready: ReadyEngine, changelog: ObjectChangelog, progress: ProgressCallback | None
    ) -> LoggedStore[Any]:
        """Become the owner of *changelog*, which was taken over for what was made *ready*.

        Requires: `_handing_over`.

        Raises:
            FencedError: Somebody else has become it since. The standby stays one, and has commits.
            StateStoreError: As `poll`. The standby stays one, and *changelog* open.
        """
        part = changelog.view.parts[self._partition]
        committed = self._opened().committed_offset(self._logged)
        is_empty = committed is None and part.end > 0
        if is_empty or offset_after(committed) < max(part.begin, part.compacted_to):
            # What is no commit on the way there is not put into a copy that facades show.
            self._poll(progress)
        return self._become(bring_up(ready._replace(store=self._opened()), changelog, progress))

    def _become(self, promoted: LoggedStore[Any]) -> LoggedStore[Any]:
        """Be *promoted*, which has the store."""
        self._promoted = promoted  # first: see `read_only`
        self._store = None
        return promoted

    def _take_over(
        self, changelog_options: ChangelogOptions | None, progress: ProgressCallback | None
    ) -> LoggedStore[Any]:
        store = self._opened()
        finish_staged_writes(self._root, self.name)
        if not store.is_open or self._source.is_left_behind(store):
            # What is no commit on the way there is not put into a copy that facades show.
            self._poll(progress)
            store = self._opened()
        return self._become(
            join_changelog(
                store,
                self._root,
                self._partition,
                changelog_options=changelog_options,
                progress=progress,
            )
        )

    def metrics(self) -> Metrics:
        """Return how far the copy is, and the metrics of its store (MET-11).

        Any thread may ask. There are none once it is closed, or promoted: they are the promoted
        store's then. Where the changelog cannot be read, the lag is left out.
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


@contextmanager
def closed_on_failure(store: BytesStore) -> Iterator[None]:
    """Close *store* if what follows raises."""
    with ExitStack() as on_failure:
        on_failure.enter_context(store)
        yield
        on_failure.pop_all()
