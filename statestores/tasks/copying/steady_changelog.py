"""A changelog as a copy replays it, so that the copy stands at a commit and nowhere else (STB-2).

A writer may compact what is being read. What it leaves of the changes up to an offset is then not
the content at that offset: some are void only because of later changes. Whoever replays a log
whose end is pinned must notice that before what was read is committed.
"""

from abc import abstractmethod
from collections.abc import Iterator

from statestores.changelog import ChangelogReader, Frame, ReadOnlyChangelog
from statestores.errors import OffsetOutOfRangeError, StoreClosedError
from statestores.spi.offsets import Position

_LOOK_ROWS = 4096
"""Rows between two checks: fewer than a restore commits at a time."""


class SteadyLog(ReadOnlyChangelog):
    """A changelog with a pinned end, which raises where a compaction has made that no commit."""

    @property
    @abstractmethod
    def compacted_to(self) -> int:
        """The offset from which every change is there; reading from below it passes no commits."""

    def _refuse_compacted(self, where: object, compacted_to: int, start: int) -> None:
        """Accept what was read from *start* on, while the log is compacted to *compacted_to* now.

        Raises:
            OffsetOutOfRangeError: It was compacted meanwhile.
        """
        if compacted_to != self.compacted_to and start < compacted_to:
            raise OffsetOutOfRangeError(
                f"the changelog {str(where)!r} was compacted up to offset {compacted_to} while it "
                f"was read from {start} on; read it again"
            )


class SteadyChangelog(SteadyLog):
    """The changelog of a writer in a directory, up to where it ended when this was made."""

    def __init__(self, log: ChangelogReader) -> None:
        """Read *log*, and close it at the end."""
        self._log = log
        # Before the end: a compaction that this check misses, every later one finds.
        self._compacted_to = self._look()
        self._end_offset = log.end_offset
        self._position = log.position

    @property
    def store_kind(self) -> str:
        """The kind of store."""
        return self._log.store_kind

    @property
    def is_open(self) -> bool:
        """Whether `close` has not been called."""
        return self._log.is_open

    @property
    def first_offset(self) -> int:
        """The lowest offset that is still there."""
        return self._log.first_offset

    @property
    def end_offset(self) -> int:
        """Where the log ended when this was made."""
        if not self.is_open:
            raise StoreClosedError("the reader of the changelog is closed; open another one")
        return self._end_offset

    @property
    def position(self) -> Position:
        """The input that was reflected there."""
        return self._position

    @property
    def compacted_to(self) -> int:
        """The offset from which every change is there; reading from below it passes no commits."""
        return self._compacted_to

    def read(self, from_offset: int | None = None, to_offset: int | None = None) -> Iterator[Frame]:
        """Yield the frames, and raise `OffsetOutOfRangeError` at the end if they are no more."""
        start = self.first_offset if from_offset is None else from_offset
        stop = self._end_offset if to_offset is None else to_offset
        return self._checked(self._log.read(start, stop), start)

    def _checked(self, frames: Iterator[Frame], start: int) -> Iterator[Frame]:
        rows = 0
        for frame in frames:
            rows += max(1, frame.batch.num_rows)
            if rows >= _LOOK_ROWS:
                rows = 0
                self._refuse_compacted(self._log.directory, self._look(), start)
            yield frame
        self._refuse_compacted(self._log.directory, self._look(), start)

    def _look(self) -> int:
        first = self._log.segments()[0]
        return first.end_offset if first.compacted and first.end_offset is not None else 0

    def close(self) -> None:
        """Close the reader below."""
        self._log.close()
