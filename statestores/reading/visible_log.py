"""The changelog of one partition as readers see it, wherever it lies.

Whoever reads takes no lock and holds nothing open between calls. What is promised: an end that was
seen can be read up to, while others append, compact and delete, or an error says what is gone.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from statestores.changelog import Frame
from statestores.errors import OffsetOutOfRangeError
from statestores.spi.offsets import Position


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Where a partition ends, seen while no write of several partitions came in between."""

    offset: int
    """The end offset."""

    position: Position
    """The input that the changelog reflects."""

    has_log: bool
    """Whether there is a changelog, be it empty."""


@dataclass(frozen=True, slots=True)
class LogBeginning:
    """Where what is left of a changelog begins."""

    offset: int
    """The first offset that can be read."""

    complete_from: int
    """The offset from which every change is there: a compaction has dropped some before it."""


class VisibleLog(ABC):
    """Reads the changelog of one partition."""

    @property
    @abstractmethod
    def partition(self) -> int:
        """The number of the partition."""

    @property
    @abstractmethod
    def store(self) -> str:
        """The name of the store."""

    @property
    def history(self) -> str:
        """What has become of the changes before its beginning, after a semicolon, if it is known.

        For messages; empty where deletion or compaction may have dropped them.
        """
        return ""

    @abstractmethod
    def end(self) -> LogEnd:
        """Return where the partition ends.

        Raises:
            ChangelogCorruptedError, StorageError: It cannot be read.
        """

    @classmethod
    @abstractmethod
    def ends_of(cls, logs: Sequence[Self]) -> list[LogEnd]:
        """Return where each of *logs* ends, partitions of one store, at one moment.

        A write of several partitions is before all of them or after all of them.

        Requires: there is one.

        Raises:
            ChangelogCorruptedError, StorageError: One cannot be read.
        """

    @abstractmethod
    def frames(self, start: int, stop: int) -> Iterator[Frame]:
        """Yield the frames from *start* up to *stop*.

        Requires: *stop* is not above an end offset that was seen.

        Raises:
            OffsetOutOfRangeError: What comes next is gone.
            ChangelogCorruptedError, StorageError: It cannot be read.
        """

    @abstractmethod
    def first_offset(self) -> int:
        """Return the first offset that the changelog still has."""

    @abstractmethod
    def beginning(self) -> LogBeginning:
        """Return what deletion and compaction have left of the beginning."""

    @abstractmethod
    def compacted_to(self) -> int:
        """Return the offset before which a compaction has dropped changes; 0 if none has."""

    @abstractmethod
    def offset_at(self, time_ms: int) -> int:
        """Return the first offset that was appended at *time_ms* or later; the end if none was.

        By the writer's clock, and for all partitions of a staged write the same. A frame that
        compaction has merged counts as its last commit does. The log is read up to there.
        """

    @abstractmethod
    def change_bytes(self, start: int) -> float:
        """Return about how many stored bytes a change from *start* on takes; 0 if unknown.

        It is for planning.
        """

    def check_compaction(self, start: int, stop: int) -> None:
        """Accept a range of changes that ends where a compaction has dropped nothing yet needed.

        Raises:
            OffsetOutOfRangeError: Changes below *stop* were dropped for the sake of later ones.
        """
        compacted_to = self.compacted_to()
        if start < compacted_to > stop:
            raise OffsetOutOfRangeError(
                f"the content of partition {self.partition} of {self.store!r} before offset "
                f"{compacted_to} is gone: its changelog has been compacted; read it at a later "
                "offset, or at that of a snapshot"
            )
