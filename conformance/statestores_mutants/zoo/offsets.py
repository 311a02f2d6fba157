"""Stores that keep their offsets and their position wrongly."""

from collections.abc import Mapping

from statestores.semantics.key_value.store import EngineKeyValueStore
from statestores.semantics.rows.layout import POSITION_ROW, pack_position
from statestores.semantics.versioned.store import EngineVersionedStore
from statestores.spi import Durability, Position, TopicPartition
from statestores_mutants.registry import mutant

Offsets = Mapping[TopicPartition, int | None]


@mutant("COM-6")
class LowerOffsetsAreAccepted(EngineKeyValueStore):
    """An offset lower than the committed one is committed.

    Imitates the last writer that wins: two owners (quixio/quix-streams #1131) go unnoticed.
    """

    def _judge_offsets(self, offsets: Offsets) -> dict[TopicPartition, int | None]:
        known, self._offsets = self._offsets, {}
        try:
            return super()._judge_offsets(offsets)
        finally:
            self._offsets = known


@mutant("COM-6")
class LowerOffsetsAreLeftOut(EngineVersionedStore):
    """An offset lower than the committed one is left out without a word, and the writes committed.

    Imitates `max(old, new)`.
    """

    def commit(self, offsets: Offsets, *, durability: Durability | None = None) -> None:
        known = self.committed_offsets()
        if isinstance(offsets, Mapping):
            offsets = {
                partition: known[partition]
                if type(offset) is int and 0 <= offset < known.get(partition, 0)
                else offset
                for partition, offset in offsets.items()
            }
        super().commit(offsets, durability=durability)


@mutant("COM-6")
class TheSameOffsetIsRefused(EngineKeyValueStore):
    """The committed offset cannot be committed again.

    Imitates `<=` in the place of `<`: a commit of writes without new records fails.
    """

    def _judge_offsets(self, offsets: Offsets) -> dict[TopicPartition, int | None]:
        staged = super()._judge_offsets(offsets)
        known = self._offsets
        self._offsets = {partition: offset + 1 for partition, offset in known.items()}
        try:
            super()._judge_offsets(offsets)
        finally:
            self._offsets = known
        return staged


@mutant("COM-5", "COM-21")
class NoneKeepsTheOffset(EngineKeyValueStore):
    """Committing `None` for a partition leaves its offset.

    Imitates KAFKA-17411: nobody had said what `null` means.
    """

    def commit(self, offsets: Offsets, *, durability: Durability | None = None) -> None:
        if isinstance(offsets, Mapping):
            offsets = {key: value for key, value in offsets.items() if value is not None}
        super().commit(offsets, durability=durability)


@mutant("COM-5")
class ClearedOffsetsComeBack(EngineKeyValueStore):
    """`clear_offsets` clears what is in memory; reopened, the offsets are there again.

    Imitates KAFKA-17411 once more: no way to wipe the offsets of a corrupt store.
    """

    def clear_offsets(self) -> None:
        self.check_open()
        self._offsets.clear()


@mutant("COM-30")
class ClearingOffsetsCommits(EngineVersionedStore):
    """`clear_offsets` commits what is pending as well.

    Imitates a shortcut over `commit`.
    """

    def clear_offsets(self) -> None:
        self.commit(dict.fromkeys(self.committed_offsets()))


@mutant("COM-3")
class OffsetIsTheNextOneAfterReopening(EngineKeyValueStore):
    """Reopened, a store says the offset after the committed one.

    Imitates faust-streaming/faust #155: is it the last record, or the next?
    """

    def _read_committed(self) -> None:
        super()._read_committed()
        self._offsets = {partition: offset + 1 for partition, offset in self._offsets.items()}


@mutant("COM-3", "COM-23")
class OffsetZeroIsNoOffset(EngineKeyValueStore):
    """The committed offset 0 is returned as `None`.

    Imitates `return offset or None` (robinhood/faust #658: unknown is not zero).
    """

    def committed_offset(self, partition: TopicPartition) -> int | None:
        return super().committed_offset(partition) or None


@mutant("COM-3")
class OffsetsHaveFourBytes(EngineKeyValueStore):
    """Reopened, a store knows the lower 32 bits of an offset only.

    Imitates an `int` in the place of a `long`.
    """

    def _read_committed(self) -> None:
        super()._read_committed()
        self._offsets = {
            partition: offset & 0xFFFF_FFFF for partition, offset in self._offsets.items()
        }


@mutant("COM-4")
class CommitForgetsOtherPartitions(EngineKeyValueStore):
    """A commit replaces all offsets by those that it is given.

    Imitates a checkpoint file that is written anew each time.
    """

    def commit(self, offsets: Offsets, *, durability: Durability | None = None) -> None:
        if offsets and isinstance(offsets, dict):
            offsets = {**dict.fromkeys(self.committed_offsets()), **offsets}
        super().commit(offsets, durability=durability)


@mutant("COM-1", "COM-2")
class OffsetIsASecondBatch(EngineKeyValueStore):
    """A commit applies the writes, and then the offsets as a batch of their own.

    Imitates every store with a `.checkpoint` beside it (KIP-1035).
    """

    def commit(self, offsets: Offsets, *, durability: Durability | None = None) -> None:
        self._judge_offsets(offsets)
        super().commit({}, durability=durability)
        if offsets:
            super().commit(offsets, durability=durability)


@mutant("COM-9")
class OffsetIsKnownBeforeItIsCommitted(EngineVersionedStore):
    """`committed_offset` says the offset of a commit that failed.

    Imitates a cache that is brought up to date first: after an error it is ahead of the disk.
    """

    _said: Offsets = {}  # noqa: RUF012  # replaced, never changed

    def commit(self, offsets: Offsets, *, durability: Durability | None = None) -> None:
        self._said = self._judge_offsets(offsets)
        super().commit(offsets, durability=durability)

    def committed_offset(self, partition: TopicPartition) -> int | None:
        return self._said.get(partition, super().committed_offset(partition))


@mutant("COM-10", "COM-7")
class PositionIsStoredAtOnce(EngineKeyValueStore):
    """`advance_position` writes the position, and does not wait for the commit.

    Imitates Kafka's `.position` file: it says that records are in the store which are not.
    """

    def advance_position(self, position: Mapping[TopicPartition, int]) -> None:
        super().advance_position(position)
        self._engine.apply({POSITION_ROW: pack_position(self._position)}, self._durability)


@mutant("COM-11")
class PositionGoesBackward(EngineKeyValueStore):
    """`advance_position` takes the given offset, lower or not.

    Imitates `dict.update`.
    """

    def advance_position(self, position: Mapping[TopicPartition, int]) -> None:
        super().advance_position(position)
        self._position = Position({**self._position, **position})


@mutant("COM-10")
class PositionIsNotStored(EngineVersionedStore):
    """The position is kept in memory only.

    Imitates KIP-535's positions before they were written down: after a restart nobody knows.
    """

    def _read_committed(self) -> None:
        super()._read_committed()
        self._committed_position = self._position = Position()


@mutant("COM-23")
class PartitionsAboveByteAreConfused(EngineKeyValueStore):
    """Reopened, only the partitions up to 255 of a topic have their offsets.

    Imitates a partition number of one byte.
    """

    def _read_committed(self) -> None:
        super()._read_committed()
        self._offsets = {key: value for key, value in self._offsets.items() if key.partition < 256}


@mutant("COM-23")
class ListedOffsetsAreTheStoresOwn(EngineKeyValueStore):
    """`committed_offsets` returns the store's own dict.

    Imitates a getter without a copy: the caller who edits the answer edits the store.
    """

    def committed_offsets(self) -> dict[TopicPartition, int]:
        super().committed_offsets()
        return self._offsets


@mutant("COM-21", "COM-6")
class ForgottenOffsetsAreRemembered(EngineKeyValueStore):
    """After an offset was forgotten, a lower one is still refused.

    Imitates a guard that keeps the highest offset it ever saw.
    """

    def clear_offsets(self) -> None:
        highest = self.committed_offsets()
        super().clear_offsets()
        self._remembered = highest

    def _judge_offsets(self, offsets: Offsets) -> dict[TopicPartition, int | None]:
        known = self._offsets
        self._offsets = {**getattr(self, "_remembered", {}), **known}
        try:
            return super()._judge_offsets(offsets)
        finally:
            self._offsets = known
