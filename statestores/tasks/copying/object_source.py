"""A partition in an object store, as standbys copy it; nobody is fenced (OBJ-36).

It remembers what it has seen of the log, so that looking again costs a few small requests.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from statestores.arrow.restore_mark import restore_mark
from statestores.arrow.snapshots.object_snapshots import ObjectSnapshots
from statestores.arrow.snapshots.reader import Snapshot
from statestores.changelog import Frame, changelog_partition
from statestores.errors import StoreClosedError
from statestores.files.log_origin import LogOrigin, note_origin, read_origin
from statestores.object_log import ObjectLog
from statestores.object_log.view import View
from statestores.opening import BytesStore
from statestores.spi.offsets import Position, offset_after
from statestores.tasks.copying.source import CopySource, Missing
from statestores.tasks.copying.steady_changelog import SteadyLog
from statestores.tasks.lag import LagInfo


class SteadyObjectChangelog(SteadyLog):
    """The changelog of one partition in an object store, up to where *view* has seen it.

    What is folded meanwhile is the same changes elsewhere. What is compacted is not the content at
    the end that was seen, since some changes are void only because of later ones: then no frame of
    it is given.
    """

    def __init__(
        self, log: ObjectLog, view: View, partition: int, forget: Callable[[], None]
    ) -> None:
        """Read *partition* of *log*; call *forget* when *view* turns out to be of no use."""
        self._forget = forget
        self._reader = log.reader_at(view, partition)
        self._part = view.parts[partition]
        self._partition = partition

    @property
    def store_kind(self) -> str:
        return self._reader.store_kind

    @property
    def is_open(self) -> bool:
        return self._reader.is_open

    @property
    def first_offset(self) -> int:
        return self._part.begin

    @property
    def end_offset(self) -> int:
        if not self.is_open:
            raise StoreClosedError("the reader of the changelog is closed; open another one")
        return self._part.end

    @property
    def position(self) -> Position:
        return self._part.position

    @property
    def compacted_to(self) -> int:
        return self._part.compacted_to

    def read(self, from_offset: int | None = None, to_offset: int | None = None) -> Iterator[Frame]:
        """Yield the frames, and raise `OffsetOutOfRangeError` where they are no more."""
        start = self.first_offset if from_offset is None else from_offset
        stop = self._part.end if to_offset is None else to_offset
        return self._checked(start, stop)

    def _checked(self, start: int, stop: int) -> Iterator[Frame]:
        for frame in self._reader.read_seen(start, stop):
            compacted_to = self._reader.view.parts[self._partition].compacted_to
            if compacted_to != self.compacted_to:
                self._forget()
            self._refuse_compacted(self._reader.where, compacted_to, start)
            yield frame

    def close(self) -> None:
        self._reader.close()


class ObjectSource(CopySource):
    """Copies from an object store."""

    def __init__(self, log: ObjectLog, partition: int) -> None:
        """Copy *partition* of *log*; nothing is read yet."""
        self._log = log
        self._partition = partition
        self._logged = changelog_partition(log.store, partition)
        self._seen: View | None = None
        self._looking = Lock()

    def lag(self, next_offset: int) -> LagInfo:
        return LagInfo(next_offset, self._look().parts[self._partition].end)

    def is_unloaded(self, store: BytesStore) -> bool:
        if store.committed_offset(restore_mark(store.specification)) is not None:
            return True
        return self.is_left_behind(store)

    def is_left_behind(self, store: BytesStore) -> bool:
        committed = store.committed_offset(self._logged)
        next_offset = offset_after(committed)
        return next_offset < self._look().parts[self._partition].compacted_to

    @contextmanager
    def missing(self, store: BytesStore) -> Iterator[Missing | None]:
        view = self._look()
        with SteadyObjectChangelog(self._log, view, self._partition, self._forget) as steady:
            yield Missing(steady, self._snapshot_for(store, view))

    def _snapshot_for(self, store: BytesStore, view: View) -> Snapshot | None:
        """Return what *store* loads before the changelog.

        If it has nothing, since that is shorter, or less than what the changelog begins with.
        """
        part = view.parts[self._partition]
        end, committed = part.end, store.committed_offset(self._logged)
        if not end or (committed is not None and part.begin <= committed + 1):
            return None
        snapshots = ObjectSnapshots(
            log=self._log, log_id=view.checkpoint.log, partition=self._partition
        )
        return snapshots.newest_valid(to_offset=end - 1).snapshot

    def knows(self, directory: Path) -> bool:
        """Return whether *directory* says that its engine is a copy of this; it may say nothing.

        Raises:
            StoreMismatchError: It is one of another log or partition (OBJ-18).
            StateStoreError: The log, or what the directory says, cannot be read.
        """
        return read_origin(directory, self._origin())

    def note_in(self, directory: Path, store: BytesStore) -> None:
        """Note in *directory*, where *store* lies, that it is a copy of this.

        Raises:
            StoreMismatchError: It has rows already, and nobody knows of which log (OBJ-18).
            StateStoreError: The log cannot be read, or the directory not be written.
        """
        note_origin(directory, self._origin(), store.committed_offset(self._logged))

    def _origin(self) -> LogOrigin:
        return LogOrigin(log=self._look().checkpoint.log, partition=self._partition)

    def _forget(self) -> None:
        """Look at the log from its checkpoint on the next time: what was seen is there no more."""
        with self._looking:
            self._seen = None

    def _look(self) -> View:
        """Return the log as it is now."""
        with self._looking:
            view = self._log.view([self._partition], self._seen)
            self._seen = view.of(self._partition)  # without what entries hold
        return view
