"""The changelog: the durable, append-only log of changes of one partition of one store.

An offset is the number of a change, from 0. Offsets are given by the log, ascend without repeating
and are never given again (LOG-1). A commit is one append, and one append is one *frame*: all of it
is in the log, or nothing (LOG-2).

Reading is a contract of its own: whoever reads needs neither the writer's lock nor the writer.
"""

from abc import abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from statestores.changelog.frame import Frame
from statestores.changelog.rows import changes_from_batch
from statestores.errors import InvalidTypeError
from statestores.spi.closing import Closing
from statestores.spi.durability import Durability
from statestores.spi.offsets import Position, TopicPartition, checked_partition
from statestores.spi.records import Changes

NO_POSITION = Position()
"""The position of an append that has read no input."""


def changelog_partition(store_name: str, partition: int) -> TopicPartition:
    """Return the name under which a store commits the offsets of its changelog.

    It is the topic that Kafka Streams would give it, without the application's prefix.

    Raises:
        InvalidTypeError, InvalidArgumentError: The name is not text, or the number none from 0.
    """
    if not isinstance(store_name, str):
        raise InvalidTypeError(f"a store is named by a str, got {store_name!r}")
    return checked_partition(f"{store_name}-changelog", partition)


class OffsetRange(NamedTuple):
    """The offsets that one append was given, both inclusive."""

    first: int
    """The offset of the first change."""

    last: int
    """The offset of the last change: the one to commit to the store."""


class ReadOnlyChangelog(Closing):
    """The reading half."""

    @property
    @abstractmethod
    def store_kind(self) -> str:
        """The kind of store whose changes these are, as its specification gives it."""

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether `close` has not been called."""

    @property
    @abstractmethod
    def first_offset(self) -> int:
        """The lowest offset that can be read from; older ones are in a snapshot only (LOG-9)."""

    @property
    @abstractmethod
    def end_offset(self) -> int:
        """The offset that the next append will be given, like Kafka's end offset (LOG-3).

        Equal to `first_offset` while there is nothing to read. It may count frames that are not
        yet durable (LOG-13).
        """

    @property
    @abstractmethod
    def position(self) -> Position:
        """The input that all frames up to `end_offset` reflect: their positions merged (LOG-6)."""

    @abstractmethod
    def read(self, from_offset: int | None = None, to_offset: int | None = None) -> Iterator[Frame]:
        """Iterate over the frames with ``from_offset <= offset < to_offset`` (LOG-4).

        ``None`` is the beginning, and the end at this call: later appends do not show up.
        Half-open, so that a reader continues where `end_offset` stood. A frame that extends past
        a bound is cut there. Offsets may be missing, since compaction drops changes that later
        ones make void (LOG-18), but never a frame: each begins where the one before it ended.

        The iterator holds a file open until it is exhausted or closed. It may be used on another
        thread than the one that appends.

        Raises:
            StoreClosedError: The changelog is closed, if only by a later step of the iterator.
            InvalidArgumentError: ``from_offset > to_offset``, or an offset is negative.
            OffsetOutOfRangeError: An offset is below `first_offset` or above `end_offset`; also
                at a step, when what comes next has been deleted meanwhile.
            ChangelogCorruptedError: A frame is damaged, at the step that reaches it (LOG-11).
        """

    @abstractmethod
    def close(self) -> None:
        """Close the changelog. Idempotent."""


class Changelog(ReadOnlyChangelog):
    """A changelog and its one writer: one thread at a time appends."""

    @abstractmethod
    def append(
        self,
        changes: Changes,
        *,
        position: Position = NO_POSITION,
        durability: Durability = Durability.POWER_LOSS,
    ) -> OffsetRange:
        """Append *changes* as one frame, with the input *position* that they reflect (LOG-2).

        When it returns, *durability* holds for them and for everything before them (LOG-5). Only
        what advances need be in *position*; what the log has seen is merged. An append without
        changes is legal and takes one offset: a commit that has read input and changed nothing.

        When it raises, nothing was appended and the next append may succeed (LOG-14), unless the
        message says that the log must be reopened: then reopening decides whether the frame is
        there (LOG-15).

        Raises:
            StoreClosedError: The changelog is closed.
            InvalidTypeError: A column holds something other than its type.
            InvalidArgumentError: The columns differ in length, do not fit the store's kind, or
                are too much for one frame.
            StorageError: The disk is full or failed, or the log must be reopened.
        """

    def append_batch(
        self,
        batch: pa.RecordBatch,
        *,
        position: Position = NO_POSITION,
        durability: Durability = Durability.POWER_LOSS,
    ) -> OffsetRange:
        """Append the rows of *batch*, whose columns are those of `Frame.batch` (LOG-2).

        The same as `append`; a log that stores Arrow takes the columns as they are.
        """
        return self.append(changes_from_batch(batch), position=position, durability=durability)

    @abstractmethod
    def append_clear(
        self,
        *,
        position: Position = NO_POSITION,
        durability: Durability = Durability.POWER_LOSS,
    ) -> int:
        """Append a clear, which drops everything before it, and return its offset (LOG-7).

        Whoever replays the log empties the store on reaching the frame. The log's position begins
        anew with *position*: what the dropped content reflected no longer says anything.

        Raises:
            StoreClosedError: The changelog is closed.
            StorageError: As for `append`.
        """
