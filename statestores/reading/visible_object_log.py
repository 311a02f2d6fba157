"""A changelog in an object store as readers see it.

It remembers what it has seen of the log, so that looking again costs three small requests. One that
is *pinned* looks again only where what it has seen is folded or compacted: a task of a query reads
what its driver has planned, and not what has come since.
"""

from collections.abc import Iterator, Sequence
from typing import Self

from statestores.changelog import Frame
from statestores.errors import OffsetOutOfRangeError
from statestores.object_log import ObjectLog
from statestores.object_log.view import View
from statestores.reading.visible_log import LogBeginning, LogEnd, VisibleLog


class VisibleObjectLog(VisibleLog):
    """Reads the changelog of one partition from its object store."""

    def __init__(
        self, log: ObjectLog, partition: int, seen: View | None = None, *, pinned: bool = False
    ) -> None:
        """Read *partition* of *log*, of which *seen* is known; no further if that is *pinned*."""
        self._log = log
        self._partition = partition
        self._view = seen
        self._is_pinned = pinned

    @property
    def partition(self) -> int:
        return self._partition

    @property
    def store(self) -> str:
        return self._log.store

    @property
    def is_pinned(self) -> bool:
        """Whether it is read no further than it has been seen."""
        return self._is_pinned

    @property
    def log(self) -> ObjectLog:
        """The log of the store."""
        return self._log

    @property
    def log_id(self) -> str:
        """The id that the log was given when it was made."""
        return self._known().checkpoint.log

    @property
    def seen(self) -> View:
        """What has been seen of the log, without the bytes of entries: to be pinned elsewhere."""
        return self._known().of(self._partition)

    @property
    def history(self) -> str:
        if not self._known().checkpoint.generation:
            return ""
        return (
            f"; the store {self.store!r} has been resharded, which ended the changelogs that it "
            "had: read its content once more, and the changes from the ends of these on"
        )

    def end(self) -> LogEnd:
        return self._end(self._known() if self._is_pinned else self._look())

    @classmethod
    def ends_of(cls, logs: Sequence[Self]) -> list[LogEnd]:
        if any(each.is_pinned for each in logs):
            return [each.end() for each in logs]
        # One view of all partitions: the root log is where writes of several are committed.
        view = logs[0].log.view([each.partition for each in logs])
        return [each.take(view) for each in logs]

    def take(self, view: View) -> LogEnd:
        """Have seen *view*, and return where it ends."""
        self._view = view.of(self._partition)
        return self._end(view)

    def frames(self, start: int, stop: int) -> Iterator[Frame]:
        if start >= stop:
            return
        view = self._known()
        begin = view.parts[self._partition].begin
        if start < begin:
            raise OffsetOutOfRangeError(
                f"the changelog of partition {self._partition} of {self.store!r} begins at offset "
                f"{begin}, and {start} is asked for{self.history}"
            )
        if view.parts[self._partition].end < stop:
            view = self._look()
            if (end := view.parts[self._partition].end) < stop:
                raise OffsetOutOfRangeError(
                    f"partition {self._partition} of {self.store!r} reached {stop} and now ends at "
                    f"{end}: its changelog has been replaced"
                )
        reader = self._log.reader_at(view, self._partition)
        for frame in reader.read_seen(start, stop):
            self._view = reader.view
            yield frame

    def first_offset(self) -> int:
        return self._known().parts[self._partition].begin

    def beginning(self) -> LogBeginning:
        if not self._is_pinned:
            self._look()
        return LogBeginning(self.first_offset(), self.compacted_to())

    def compacted_to(self) -> int:
        return self._known().parts[self._partition].compacted_to

    def offset_at(self, time_ms: int) -> int:
        end = self.end()
        for frame in self.frames(self.first_offset(), end.offset):
            if frame.appended_at_ms >= time_ms:
                return frame.base_offset
        return end.offset

    def change_bytes(self, start: int) -> float:
        part = self._known().parts[self._partition]
        pieces = [each for each in part.segments if each.end > start]
        entries = [each for each in part.entries if each.last >= start]
        size = sum(each.size for each in pieces) + sum(each.size for each in entries)
        changes = sum(each.end - each.base for each in pieces)
        changes += sum(each.last + 1 - each.base for each in entries)
        return size / changes if changes else 0.0

    def _known(self) -> View:
        """Return what has been seen; look, if nothing has."""
        return self._look() if self._view is None else self._view

    def _look(self) -> View:
        """Return the log as it is now."""
        self._view = self._log.view([self._partition], self._view)
        return self._view

    def _end(self, view: View) -> LogEnd:
        part = view.parts[self._partition]
        return LogEnd(part.end, part.position, has_log=True)
