"""A changelog of files as readers see it: with what an unfinished write appends to it.

Readers take no lock, so a staged write may be committed, appended and finished while they look. The
intent says up to where the changelog's own frames count, and what comes after them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from statestores.begun_partitions import refuse_gone
from statestores.changelog import (
    ChangelogReader,
    Frame,
    SegmentInfo,
    change_schema,
    changelog_partition,
)
from statestores.changelog.log_reader import first_segment
from statestores.errors import OffsetOutOfRangeError, StoreLockedError, StoreNotFoundError
from statestores.files.failures import storage_error
from statestores.generations import place_in_root, refuse_replaced
from statestores.reading.locations import changelog_of
from statestores.reading.unfinished_imports import refuse_unimported
from statestores.reading.visible_log import LogBeginning, LogEnd, VisibleLog
from statestores.spi.offsets import Position
from statestores.spi.specification import StoreSpecification
from statestores.staging.unfinished_write import check_has_write
from statestores.staging.write_intent import WriteIntent, intended_frames, read_intent
from statestores.state_root import PartitionDirectory

T = TypeVar("T")

_ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class FilesEnd(LogEnd):
    """Where a partition ends, an unfinished write included."""

    log_offset: int
    """The end offset of the changelog up to which its own frames count."""

    intent: WriteIntent | None
    """The unfinished write that appends the rest; ``None`` when there is no rest."""


class VisibleChangelog(VisibleLog):
    """Reads the changelog of one partition from its directory."""

    def __init__(
        self, directory: PartitionDirectory, specification: StoreSpecification[Any, Any]
    ) -> None:
        """Read what is in *directory*, which need not exist yet: then there is nothing."""
        self._directory = directory
        self._specification = specification
        self._number = int(directory.path.name)

    @property
    def partition(self) -> int:
        return self._number

    @property
    def store(self) -> str:
        return self._specification.name

    @property
    def history(self) -> str:
        if not place_in_root(self.store_directory)[2]:
            return ""
        return (
            f"; the store {self.store!r} has been resharded, which ended the changelogs that it "
            "had: read its content once more, and the changes from the ends of these on"
        )

    def _opened(self) -> ChangelogReader:
        return changelog_of(self._directory, self._specification)

    def _first_segment(self) -> SegmentInfo:
        return first_segment(
            self._directory.changelog,
            self._specification.kind,
            partition=changelog_partition(self.store, self._number),
        )

    def frames(self, start: int, stop: int) -> Iterator[Frame]:
        """Yield the frames from *start* up to *stop*; when a write is finished meanwhile, go on."""
        gone: str | None = None
        while start < stop:
            end = self.end()
            try:
                for frame in self._frames_now(end, start, stop):
                    start = frame.last_offset + 1
                    yield frame
            except StoreNotFoundError:
                refuse_replaced(self.store_directory)
                if end.intent is None or gone == end.intent.write_id:
                    raise
                gone = end.intent.write_id  # finished meanwhile, or really gone: look again

    def _frames_now(self, end: FilesEnd, start: int, stop: int) -> Iterator[Frame]:
        """Yield frames from *start* on, from where they lie at *end*; at least one."""
        if start < end.log_offset:
            with self._opened() as log:
                yield from log.read(start, min(stop, end.log_offset))
        elif end.intent is not None and start < end.offset:
            schema = change_schema(self._specification.kind)
            for frame in intended_frames(
                self.store_directory, end.intent, self._number, schema, start
            ):
                if frame.base_offset >= stop:
                    return
                yield frame.within(start, stop)
        else:
            raise OffsetOutOfRangeError(
                f"partition {self._number} of {self._specification.name!r} reached {stop} and now "
                f"ends at {end.offset}: its changelog has been replaced"
            )

    def end(self) -> FilesEnd:
        """Return where the partition ends.

        An intent that is the same before and after the changelog is read says that no staged write
        has begun or gone on in between. What is to be imported is judged first (MIG-21): it can
        come at any moment, and then it is found.

        Raises:
            StoreMismatchError: An import has begun to bring the partition, and has not; or the
                changelog is gone.
            StoreCorruptedError: It ends before what a staged write has left.
        """
        refuse_unimported(self.store_directory, self._number)
        return consistently(self.store_directory, self.end_with)

    @classmethod
    def ends_of(cls, logs: Sequence[Self]) -> list[LogEnd]:
        home = logs[0].store_directory
        refuse_unimported(home, *(log.partition for log in logs))
        return consistently(home, lambda intent: [log.end_with(intent) for log in logs])

    def end_with(self, intent: WriteIntent | None) -> FilesEnd:
        """Return where the partition ends, *intent* being the last staged write.

        Raises:
            StoreCorruptedError: A write that is finished has left it further (LAY-39).
        """
        try:
            with self._opened() as log:
                (end, position), has_log = log.known_end, True
        except StoreNotFoundError:
            refuse_gone(self._directory)
            end, position, has_log = 0, Position(), False
        check_has_write(self.store_directory, intent, {self._number: end})
        write = None
        if intent is not None and not intent.finished:
            write = intent.partitions.get(self._number)
        if intent is None or write is None or end >= write.end_offset:
            return FilesEnd(end, position, has_log, end, None)
        own = min(end, write.base_offset)
        return FilesEnd(write.end_offset, position, has_log=True, log_offset=own, intent=intent)

    @property
    def store_directory(self) -> Path:
        """The directory of the store, of which this is one partition."""
        return self._directory.path.parent

    def compacted_to(self) -> int:
        try:
            first = self._first_segment()
        except StoreNotFoundError:
            return 0
        return first.end_offset or 0 if first.compacted else 0

    def offset_at(self, time_ms: int) -> int:
        end = self.end()
        for frame in self.frames(self.first_offset(), end.offset):
            if frame.appended_at_ms >= time_ms:
                return frame.base_offset
        return end.offset

    def first_offset(self) -> int:
        try:
            return self._first_segment().first_offset
        except StoreNotFoundError:
            return 0

    def beginning(self) -> LogBeginning:
        try:
            first = self._first_segment()
        except StoreNotFoundError:
            return LogBeginning(0, 0)
        complete = first.end_offset if first.compacted else None
        return LogBeginning(first.first_offset, complete or first.first_offset)

    def change_bytes(self, start: int) -> float:
        """Return about how many bytes of the files a change from *start* on takes; 0 if unknown.

        The mean of the segments from the one with *start* on. It is for planning: a segment that
        is replaced meanwhile is left out.
        """
        try:
            with self._opened() as log:
                end, segments = log.end_offset, log.segments()
        except StoreNotFoundError:
            return 0.0
        changes = size = 0
        for segment in segments:
            stop = end if segment.end_offset is None else segment.end_offset
            if stop <= start:
                continue
            try:
                size += segment.path.stat().st_size
            except FileNotFoundError:
                continue  # replaced by a compaction since
            except OSError as error:
                raise storage_error("look at", segment.path, error) from error
            changes += stop - segment.first_offset
        return size / changes if changes else 0.0


def consistently(store_directory: Path, look: Callable[[WriteIntent | None], T]) -> T:
    """Return what *look* gives while the last staged write stays the same.

    Raises:
        StoreLockedError: It does not stay the same for long enough.
    """
    before = read_intent(store_directory)
    for _ in range(_ATTEMPTS):
        seen = look(before)
        after = read_intent(store_directory)
        if after == before:
            return seen
        before = after
    raise StoreLockedError(
        f"writes to {str(store_directory)!r} follow each other too fast to be read; try again"
    )
