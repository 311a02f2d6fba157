"""What a source is, and what reads it for a task.

A source fills a topic (PRC-59). How far it has come is in a store of its task, so it is committed
with what it has appended.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from statestores.processing.record import RawRecord
from statestores.processing.topic import Topic
from statestores.spi import KeyValueStore


class Place(NamedTuple):
    """Where in a source something is, for messages and for choosing a partition."""

    source: str
    """The file, or what else the source is called."""

    number: int
    """The number of the line, row or item in it, from 0."""

    byte: int | None = None
    """The byte of the file at which a line begins."""

    name: str = ""
    """What a file is called wherever its directory lies; empty for items."""

    def __str__(self) -> str:
        at = "" if self.byte is None else f", byte {self.byte}"
        return f"{self.source!r}, offset {self.number}{at}"


class SourceOutput(Protocol):
    """Takes what a reader has read."""

    def take(self, record: RawRecord, place: Place) -> None:
        """Add *record* to the topic."""

    def refuse(self, error: Exception, place: Place, data: bytes | None = None) -> None:
        """Do with what cannot be a record, *data* as it was read, what the error policy says.

        Raises:
            ProcessingError: It says to fail, or what failed is not of the record (PRC-99).
        """

    def refuse_file(self, error: Exception, place: Place) -> None:
        """Do with a file that cannot be read, from *place* on, what the error policy says.

        Raises:
            ProcessingError: It says to fail.
        """

    @property
    def wall_ms(self) -> int:
        """The wall clock: the time of what has none."""


class SourceReader(ABC):
    """Reads a source from where the last commit has left it. One thread at a time uses it."""

    @abstractmethod
    def read(self, limit: int) -> int:
        """Give up to *limit* records to the output; return how many things were read.

        Raises:
            ProcessingError: One could not be read, and the policy is to fail.
        """

    @property
    @abstractmethod
    def has_more(self) -> bool:
        """Whether it is known that there is more to read now."""

    @abstractmethod
    def save(self) -> None:
        """Write to the store how far it has come: the task is about to commit."""

    def close(self) -> None:  # noqa: B027  # most have nothing open
        """Close what is open."""


@dataclass(frozen=True)
class LocalSource(ABC):
    """Describes a source; nothing is opened."""

    @abstractmethod
    def reader(
        self, topic: Topic[Any, Any], store: KeyValueStore[str, Any], output: SourceOutput
    ) -> SourceReader:
        """Open it, to go on where *store* says.

        Raises:
            InvalidArgumentError: It is not there, or cannot be read as *topic*.
        """

    @property
    def is_partitioned_by_key(self) -> bool:
        """Whether the key says to which partition a record goes; else its `Place` does."""
        return True
