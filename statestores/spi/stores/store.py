"""What every store does, of whatever kind: commit with offsets, roll back, be read (KIP-1035)."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias, TypeVar

from statestores.errors import StoreClosedError
from statestores.spi.closing import Closing
from statestores.spi.durability import Durability
from statestores.spi.foreign_names import FOREIGN_NAMES, with_foreign_names
from statestores.spi.metrics.catalog import UNCOMMITTED_BYTES
from statestores.spi.metrics.metric import Metrics
from statestores.spi.offsets import Position, TopicPartition
from statestores.spi.records import Changes
from statestores.spi.specification import StoreSpecification

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Column(Protocol[T_co]):
    """A column of values that knows how to become a list: a ``pyarrow`` array or a chunked one."""

    def __len__(self) -> int: ...

    def to_pylist(self) -> list[Any]:
        """Return the values, ``None`` for null."""


Values: TypeAlias = Iterable[T] | Column[T]
"""Many values: any iterable, or a whole Arrow column."""


class Isolation(Enum):
    """What a read-only facade sees (ROF-2, KIP-892)."""

    READ_COMMITTED = "read_committed"
    """The content at the last commit, the same for all of one operation."""

    READ_UNCOMMITTED = "read_uncommitted"
    """The writer's pending writes as well; they may still be rolled back."""


@dataclass(frozen=True, slots=True)
class CommittedContent:
    """What one commit left in a store: the source of every snapshot."""

    offsets: Mapping[TopicPartition, int]
    """The committed offset of each partition."""

    position: Position
    """The input offsets that the rows reflect."""

    stream_time_ms: int | None
    """The highest timestamp that the rows reflect; ``None`` for kinds without a stream time."""

    changes: Generator[Changes, None, None]
    """The rows in key order, in chunks of bounded size. Close it when you stop early."""


class ReadOnlyStore(ABC):
    """What can be asked of every store, by its owner and through a facade."""

    def __dir__(self) -> Iterable[str]:
        """Return the names of what is there, without Kafka's."""
        return [name for name in super().__dir__() if name not in FOREIGN_NAMES]

    @property
    @abstractmethod
    def name(self) -> str:
        """The store's name, as its specification gives it."""

    @property
    @abstractmethod
    def specification(self) -> StoreSpecification[Any, Any]:
        """What the store is."""

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether the store is still open."""

    @property
    @abstractmethod
    def position(self) -> Position:
        """The last input offsets that the visible content reflects (COM-10, KIP-535).

        Reading the input goes on at `next_offset`, which is one more.
        """

    @abstractmethod
    def committed_offset(self, partition: TopicPartition) -> int | None:
        """Return the offset committed for *partition*, or ``None`` if there is none (COM-3).

        It is the offset of the last *applied* changelog record, and exactly the one that the
        committed content reflects, even after a crash (COM-2).

        Raises:
            StoreClosedError: The store is closed.
        """

    def next_offset(self, partition: TopicPartition) -> int:
        """Return the offset at which to resume reading *partition*: 0 at the beginning (COM-47).

        One more than the last one that the committed content reflects: the committed offset of
        the partition, or, for an input partition that has none, the position of the last commit.
        `position` and `committed_offset` name the last record applied, and whoever resumes *there*
        applies it twice.

        Raises:
            StoreClosedError: The store is closed.
        """
        offset = self.committed_offset(partition)
        return 0 if offset is None else offset + 1


with_foreign_names(ReadOnlyStore)


class StateStore(ReadOnlyStore, Closing):
    """A store that its one owner writes; other threads read it through `read_only`.

    Writes are pending until `commit`: the owner reads them, a crash or `rollback` forgets them.
    """

    @property
    @abstractmethod
    def persistent(self) -> bool:
        """Whether committed content survives `close`."""

    @property
    @abstractmethod
    def uncommitted_bytes(self) -> int:
        """Bytes of keys and values put since the last commit, including overwritten ones (COM-16).

        0 does not mean that nothing is pending: a key and a value may be empty.
        """

    @property
    def has_pending_writes(self) -> bool:
        """Whether a write of whatever size waits for the next commit (COM-45).

        Raises:
            StoreClosedError: The store is closed.
        """
        return len(self.pending_changes()) > 0

    @abstractmethod
    def commit(
        self,
        offsets: Mapping[TopicPartition, int | None],
        *,
        durability: Durability | None = None,
    ) -> None:
        """Make every pending write, the position and *offsets* durable together (COM-1).

        ``{partition: n}`` says that this commit contains everything of the partition up to and
        including offset ``n``. A store with a changelog takes none: its committed offset is its
        changelog's, and its input is the position (LGS-13).

        ``{}`` commits the pending writes and leaves the offsets as they are (COM-4); ``None``
        forgets one partition's offset (COM-5). *durability* overrides the store's own for this
        commit. After it returns, `committed_offset` gives these offsets, even after a crash. When
        it raises, neither writes nor offsets are visible to others, and the writes are still
        pending: commit again, or roll back (COM-9). Should the engine have taken them before it
        failed, both are visible, `committed_offset` says so, and `rollback` refuses (COM-43).

        Raises:
            StoreClosedError: The store is closed.
            InvalidTypeError, InvalidArgumentError: A partition or offset is malformed.
            OffsetRegressionError: An offset is lower than the committed one (COM-6).
            CommitInDoubtError: The disk failed in the middle: close the store and open it again,
                which finds out whether the commit is there (COM-46).
            StorageError: The engine could not write.
        """

    @abstractmethod
    def committed_offsets(self) -> dict[TopicPartition, int]:
        """Return every committed offset."""

    @abstractmethod
    def clear_offsets(self) -> None:
        """Forget every committed offset, immediately and durably; writes stay pending (COM-5)."""

    @abstractmethod
    def advance_position(self, position: Mapping[TopicPartition, int]) -> None:
        """Merge *position* into the store's own; the next commit stores it (COM-10)."""

    @abstractmethod
    def rollback(self) -> None:
        """Forget every write and position change since the last commit (COM-7).

        Raises:
            StoreClosedError: The store is closed.
            CommitConflictError: A commit failed after the changelog (LGS-10) or the engine
                (COM-43) had taken the writes: they are committed, and cannot be forgotten. Once it
                was raised for the engine, another call forgets what was written since.
            CommitInDoubtError: It is unknown whether they are (COM-46).
        """

    @abstractmethod
    def pending_changes(self) -> Changes:
        """Return the uncommitted writes in an order in which `replay` accepts them (COM-17).

        This is what a changelog must hold so that replaying it gives this store. Repeated writes of
        one key may appear as the last one only.
        """

    @abstractmethod
    def committed_content(self) -> CommittedContent:
        """Return everything that the last commit left, frozen at the call (COM-17).

        Rows, offsets, position and stream time come from one and the same commit; any thread may
        call it. Loaded into an empty store of the same specification (see `load`), they give a
        store that answers every read in the same way.
        """

    def committed_changes(self) -> Iterator[Changes]:
        """Return the rows of `committed_content`."""
        return self.committed_content().changes

    @abstractmethod
    def replay(self, changes: Changes) -> None:
        """Take *changes* of a changelog, in its order, as pending writes (COM-17).

        Idempotent, and independent of how the changes are split into batches and commits. What
        the store rejected when it was written, as late, is rejected again.

        Raises:
            StoreClosedError: The store is closed.
            InvalidArgumentError: The columns do not fit the store's kind; nothing is taken.
        """

    @abstractmethod
    def load(self, changes: Changes, *, stream_time_ms: int | None = None) -> None:
        """Take a chunk of another store's `committed_content` as pending writes (COM-20).

        Requires: the store is empty but for earlier chunks of the same content. Nothing is late:
        *stream_time_ms* is that of the content, and every row belongs to it.

        Raises:
            StoreClosedError: The store is closed.
            InvalidArgumentError: The columns do not fit the store's kind; nothing is taken.
        """

    @abstractmethod
    def truncate(self) -> None:
        """Delete all content, offsets and position, pending and committed (COM-18).

        Not part of a commit: it takes effect immediately, and the next opening completes what a
        crash interrupted. For restoring from scratch, and for beginning anew: a store with a
        changelog says so there first, so that whoever replays it empties its copy as well (LGS-12).
        """

    def metrics(self) -> Metrics:
        """Return what is measured of the store, as of now (MET-1). Any thread may call it.

        Not abstract: a store that measures nothing gives what can be asked of any store. A closed
        store does not raise: it has the totals that it had, or no metrics at all.
        """
        tags = MappingProxyType({"state-id": self.name, "kind": self.specification.kind})
        try:
            pending = self.uncommitted_bytes if self.is_open else None
        except StoreClosedError:  # closed since it was asked
            pending = None
        return () if pending is None else (UNCOMMITTED_BYTES.of(pending, tags),)

    @abstractmethod
    def close(self) -> None:
        """Close the store; pending writes are forgotten, not committed (COM-8). Idempotent."""
