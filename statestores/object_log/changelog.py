"""The changelog of one partition in an object store, and its one writer: the partition's owner.

Invariant: the owner has one put under way. When nobody can tell what became of it, no other
follows: the log takes no more appends until it is opened again, which seals it (OBJ-11). So what is
pending is settled by one thread at a time, and a look from another thread settles nothing (OBJ-53).
"""

import logging
import os
from collections.abc import Callable, Iterator
from threading import RLock
from typing import NamedTuple, NoReturn, Self

import pyarrow as pa

from statestores.changelog.contract import OffsetRange
from statestores.changelog.encoded_rows import EncodedRows
from statestores.changelog.file_log import wall_clock_ms
from statestores.changelog.frame import (
    Frame,
    FrameKind,
    checksum_of,
)
from statestores.changelog.frame_bodies import BodyWriter
from statestores.changelog.next_frame import FrameAppends, next_frame
from statestores.changelog.options import ChangelogOptions, check_changelog_options
from statestores.changelog.range_reading import check_range
from statestores.changelog.rows import change_schema
from statestores.errors import (
    ChangelogCorruptedError,
    CommitInDoubtError,
    FencedError,
    InvalidTypeError,
    StateStoreError,
    StoreClosedError,
)
from statestores.failpoints import reach
from statestores.object_log.driver import run
from statestores.object_log.frames import StoredEntry
from statestores.object_log.names import Names
from statestores.object_log.owners import Grant, append, fenced, give_back, take
from statestores.object_log.reader import ObjectChangelogReader
from statestores.object_log.view import View
from statestores.spi.durability import Durability
from statestores.spi.forking import disown_after_fork, of_parent
from statestores.spi.offsets import Position
from statestores.storage import ObjectStorage
from statestores.text.advice import STORE_FINDS_OUT

_DEFAULTS = ChangelogOptions()
_log = logging.getLogger(__name__)


def unique_id() -> str:
    """Return an id that nobody else has."""
    return os.urandom(12).hex()


class _Pending(NamedTuple):
    """A frame that is being appended, and that the log's totals do not include yet."""

    number: int
    stored: StoredEntry
    data: bytes


class ObjectChangelog(ObjectChangelogReader, FrameAppends):
    """The owner of a partition. Whoever opens it elsewhere fences this one (OBJ-10)."""

    def __init__(
        self,
        storage: ObjectStorage,
        names: Names,
        grant: Grant,
        view: View,
        options: ChangelogOptions,
        clock_ms: Callable[[], int],
    ) -> None:
        """Use `take_over`."""
        super().__init__(storage, names, grant.partition, view)
        self._grant = grant
        self._schema = change_schema(self.store_kind)
        self._bodies = BodyWriter(self._schema, options.compression)
        self._clock_ms = clock_ms
        self._pending: _Pending | None = None
        self._settling = RLock()  # an interrupt may come as it is let go of
        self._doubt: str | None = None
        self._is_fenced = False
        self._is_of_parent = False
        disown_after_fork(self)

    @classmethod
    def take_over(
        cls,
        reader: ObjectChangelogReader,
        options: ChangelogOptions = _DEFAULTS,
        *,
        committed_offset: int | None = None,
        clock_ms: Callable[[], int] = wall_clock_ms,
    ) -> Self:
        """Become the owner of the partition that *reader* reads; whoever was it is fenced.

        *committed_offset* is the last offset that the store has committed (LOG-16).

        Raises:
            ChangelogCorruptedError: It is damaged, or ends before the committed offset.
            FencedError: Another process has taken it over at the same time.
            CommitInDoubtError, StorageError: The object store does not answer; try again.
            UnsupportedFormatError: It is of a later release.
        """
        check_changelog_options(options)
        check_committed(reader, committed_offset)  # before anybody is fenced
        storage, names = reader.storage, reader.names
        grant, view = run(take(names, reader.partition, unique_id(), reader.view), storage)
        return cls(storage, names, grant, view, options, clock_ms)

    @property
    def end_offset(self) -> int:
        self.check_open()
        return self._view.parts[self._partition].end

    @property
    def position(self) -> Position:
        self.check_open()
        return self._view.parts[self._partition].position

    @property
    def end_as_known(self) -> int:
        """Where the log ends, as far as its owner knows: any thread may ask, and nothing is put."""
        self._check_not_closed()
        return self._view.parts[self._partition].end

    def appending(self) -> Grant:
        """Return the grant under which the next append will be, for whoever looks at it.

        Raises:
            FencedError: Another process has taken the partition over, as an append was told.
            CommitInDoubtError: The log takes no more appends until it is opened again.
            StoreClosedError: It is closed.
        """
        self.check_open()
        if self._is_fenced:
            raise fenced(self._names, self._partition, "and nothing of this commit was written")
        if self._doubt is not None:
            self._raise_doubt(None)
        return self._grant

    def read(self, from_offset: int | None = None, to_offset: int | None = None) -> Iterator[Frame]:
        start, stop = check_range(
            self.where, from_offset, to_offset, self.first_offset, self.end_offset
        )
        return self._unless_overtaken(self._frames(self._view.copy(), start, stop))

    def _unless_overtaken(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        """Yield *frames* as long as they are commits of this owner, or of those before it.

        What a compaction has left beyond the end is none of them: whoever has put one into a store
        shows what never was (OBJ-57). Only a later owner can have made that happen.

        Raises:
            FencedError: Another process has taken the partition over, and committed.
        """
        for frame in frames:
            self._refuse_overtaken()
            yield frame
        self._refuse_overtaken()

    def _refuse_overtaken(self) -> None:
        if self._overtaken_to > self.end_as_known:
            raise fenced(self._names, self._partition, "while it was being opened")

    def forget_read(self) -> None:
        """Give the memory back of what opening has read, once the store has it."""
        part = self._view.parts[self._partition]
        part.entries = [entry.without_data() for entry in part.entries]
        self._view.kept_bytes = 0

    def disown(self) -> None:
        """Be closed in a forked child; the parent's log goes on (COM-44)."""
        self._is_of_parent = self._open
        super().close()

    def close(self) -> None:
        """Close the log, and give the partition back, unless somebody else has it (OBJ-32)."""
        if not self._open:
            return
        given_up = self._is_fenced or self._doubt is not None or self._pending is not None
        super().close()
        if given_up:
            return
        try:
            steps = give_back(self._names, self._grant, unique_id(), self._view)
            run(steps, self._storage)
        except StateStoreError as error:
            _log.warning(
                "%r is closed, and its partition could not be given back (%s): writes of several "
                "partitions are refused until it is opened and closed again",
                self.where,
                error,
            )

    def _append(
        self,
        kind: FrameKind,
        batch: pa.RecordBatch | EncodedRows | None,
        position: Position,
        durability: Durability,
    ) -> OffsetRange:
        """Append one frame, and bring the log's totals up to date; a put is always durable."""
        if not isinstance(position, Position):
            raise InvalidTypeError(f"position must be a Position, got {position!r}")
        self.appending()
        end = self._view.parts[self._partition].end
        frame = next_frame(self._bodies, kind, batch, position, end, self._clock_ms())
        data = frame.stored()
        stored = StoredEntry(frame.header, checksum_of(data), position)
        del batch, frame  # before the put, while they are in the processor's cache
        reach("objects.append.before")
        self._pending = _Pending(self._grant.number, stored, data)
        try:
            self._settle()
        except FencedError:
            raise
        except StateStoreError as error:
            self._raise_doubt(error)
        except BaseException as interrupt:
            # The put may be under way still. It may be made again, so that it is known.
            try:
                self._settle()
            except StateStoreError:
                self._raise_doubt(interrupt)
            raise
        return OffsetRange(stored.header.base_offset, stored.header.last_offset)

    def _settle(self) -> None:
        """Carry out what is pending, or go on with it; each step may be repeated.

        Who comes while another thread does so waits for it, and finds nothing left to do.

        Raises:
            FencedError: It was not appended, and nothing will be.
            CommitInDoubtError, StorageError: Nobody can tell.
        """
        with self._settling:
            self._settle_pending()

    def _settle_pending(self) -> None:
        pending = self._pending
        if pending is None:
            return
        grant, part, name = self._grant, self._view.parts[self._partition], None
        if grant.number == pending.number:
            try:
                name = run(append(self._names, grant, pending.data), self._storage)
            except FencedError:
                self._is_fenced, self._pending = True, None
                raise
        reach("objects.append.settled")
        header = pending.stored.header
        if part.end == header.base_offset:
            if name is None:  # an interrupt came behind the put
                name = self._names.own(self._partition, grant.grant, pending.number)
            part.number = grant.number
            part.add(name, header.base_offset, pending.stored, pending.data, keep=False)
        self._forget_folded()
        self._pending = None

    def _forget_folded(self) -> None:
        """Know of what has been folded only the segments: an owner lives long."""
        view, known = self._view, self._grant.known
        if known.checkpoint is view.checkpoint:
            return  # as after nearly every append
        state = known.checkpoint.part(self._partition)
        if state.grant != self._grant.grant:
            return
        part = view.parts[self._partition]
        part.entries = [entry for entry in part.entries if entry.base >= state.end]
        part.segments = state.segments
        view.next = max(view.next, known.checkpoint.next)
        view.checkpoint, view.tag = known.checkpoint, known.tag

    def _check_not_closed(self) -> None:
        if self._is_of_parent:
            raise StoreClosedError(of_parent(f"the changelog in {self.where!r}"))
        super().check_open()

    def check_open(self) -> None:
        self._check_not_closed()
        if self._pending is not None and self._doubt is None:
            self._settle()  # an interrupt came in between

    def _raise_doubt(self, cause: BaseException | None) -> NoReturn:
        """Raise for an append that nobody knows the outcome of, and for every one after it."""
        if self._doubt is None:
            self._doubt = self._storage.last_failure() or "the object store did not answer"
            if isinstance(cause, CommitInDoubtError):
                raise cause
        raise CommitInDoubtError(
            f"{self.where!r} takes no more appends, since nobody can tell what became of one "
            f"({self._doubt}); {STORE_FINDS_OUT}"
        ) from cause


def check_committed(log: ObjectChangelogReader, committed_offset: int | None) -> None:
    """Accept a log that reaches to the *committed_offset* of its store (LOG-16).

    Raises:
        ChangelogCorruptedError: It ends before.
    """
    if committed_offset is None or committed_offset < log.view.parts[log.partition].end:
        return
    if committed_offset >= (end := log.end_offset):  # as it is now: the view may be an old one
        raise ChangelogCorruptedError(
            f"the store has committed offset {committed_offset}, and the changelog in "
            f"{log.where!r} ends before {end}: it is another one, or it has lost its end; put it "
            "back, or remove the engine on the local disk to restore what the changelog has"
        )
