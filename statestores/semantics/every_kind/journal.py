"""What takes the changes of each commit before the engine does: the changelog, seen from below."""

from abc import ABC, abstractmethod

from statestores.spi.durability import Durability
from statestores.spi.offsets import Position, TopicPartition
from statestores.spi.records import Changes


class Journal(ABC):
    """A log of commits. When a call that appends raises, `end_offset` says what has become of it.

    If it has not moved, nothing was appended, unless the error is a `CommitInDoubtError`.
    """

    @property
    @abstractmethod
    def partition(self) -> TopicPartition:
        """The partition under which a store commits the journal's offset."""

    @property
    @abstractmethod
    def end_offset(self) -> int:
        """The offset that comes next."""

    @abstractmethod
    def append(self, changes: Changes, position: Position, durability: Durability) -> int:
        """Make *changes* and *position* durable; return the offset of the last change."""

    @abstractmethod
    def append_clear(self, durability: Durability) -> int:
        """Record durably that everything before is dropped; return the offset of this record."""
