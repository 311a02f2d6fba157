"""What somebody has seen of a log: a prefix of it, built on one checkpoint."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Self

from statestores.object_log.checkpoint import Checkpoint, PartState, SegmentRef
from statestores.object_log.documents import End, Share, Write
from statestores.object_log.frames import EntryRef, StoredEntry
from statestores.object_log.names import Names
from statestores.spi.offsets import Position

KEPT_BYTES = 32 * 1024 * 1024
"""Bytes of entries that a view keeps, so that whoever opens a log need not read them twice."""


@dataclass(slots=True)
class PartView:
    """One partition, up to where it has been seen."""

    end: int
    """The offset after the last change."""

    position: Position
    """The input that it reflects."""

    grant: int | None
    """The grant that is open; ``None`` without an owner."""

    owner: str | None
    """The id of the entry that gave it."""

    number: int
    """The number that the owner's next entry has."""

    segments: tuple[SegmentRef, ...]
    """What the checkpoint has."""

    closed: list[tuple[int, int]]
    """Grants that have ended, and how many entries each has."""

    closed_from: int
    """Of grants before this one nothing is known any more."""

    entries: list[EntryRef] = field(default_factory=list)
    """What comes after the segments."""

    begin: int = 0
    """The first offset."""

    @classmethod
    def at(cls, state: PartState) -> Self:
        """Return the partition as a checkpoint has it."""
        return cls(
            state.end,
            state.position,
            state.grant,
            state.owner,
            state.number,
            state.segments,
            list(state.closed),
            state.closed_from,
            begin=state.begin,
        )

    def copy(self) -> Self:
        """Return a copy, to go on from here."""
        return type(self)(
            self.end,
            self.position,
            self.grant,
            self.owner,
            self.number,
            self.segments,
            self.closed.copy(),
            self.closed_from,
            self.entries.copy(),
            self.begin,
        )

    @property
    def folded_to(self) -> int:
        """The offset after the last one in a segment."""
        return self.segments[-1].end if self.segments else self.begin

    def piece_at(self, offset: int) -> SegmentRef | EntryRef | None:
        """Return what holds *offset*; ``None`` where it has not come to that yet."""
        if offset < self.begin:
            return None
        if offset < self.folded_to:
            return self.segments[bisect_right(self.segments, offset, key=_base) - 1]
        at = bisect_right(self.entries, offset, key=_base) - 1
        return self.entries[at] if 0 <= offset < self.end else None

    def entries_from(self, offset: int) -> Iterator[EntryRef]:
        """Yield the entries from the one that holds *offset* on."""
        at = max(0, bisect_right(self.entries, offset, key=_base) - 1)
        return islice(self.entries, at, None)

    @property
    def compacted_to(self) -> int:
        """The offset up to which changes that later ones make void may have been left out.

        All of those before the first offset have been.
        """
        ends = [each.end for each in self.segments if each.compacted]
        return ends[-1] if ends else self.begin

    def add(self, name: str, base: int, stored: StoredEntry, data: bytes, *, keep: bool) -> None:
        """Take the next entry, which begins at *base*, where the partition ends."""
        span = stored.header.last_offset - stored.header.base_offset
        kept = data if keep else None
        if not self.entries or self.entries[-1].base < base:
            ref = EntryRef(name, base, base + span, stored.checksum, len(data), kept)
            self.entries.append(ref)
        self.position = stored.after(self.position)
        self.end = base + span + 1  # last: until it is done, all of this may be done again

    def take_staged(self, names: Names, partition: int, share: Share, at_ms: int | None) -> None:
        """Take what *share* names, which begins where the partition ends, without reading it."""
        end = self.end
        for each in share.staged:
            last = end + each.span - 1
            name = names.data(each.id, partition)
            self.entries.append(EntryRef(name, end, last, each.checksum, each.size, None, at_ms))
            if each.clears:
                self.position = each.position
            elif each.position:
                self.position = self.position.merge(each.position)
            end = last + 1
        self.end = end


def _base(piece: SegmentRef | EntryRef) -> int:
    return piece.base


@dataclass(slots=True)
class View:
    """A prefix of a log."""

    checkpoint: Checkpoint
    """The checkpoint that it is built on."""

    tag: str
    """That checkpoint's tag."""

    next: int
    """The number of the next entry of the root log."""

    void_before: int
    """Staged changes of writes that began before that entry never count."""

    writes: list[tuple[int, str, tuple[tuple[int, int], ...]]]
    """The last writes, as in the checkpoint."""

    parts: dict[int, PartView]
    """The partitions that were asked for."""

    batches: dict[str, int]
    """The last batch of each stream that is applied."""

    counting: set[str] = field(default_factory=set)
    """The ids under which is staged what entries after the checkpoint name."""

    kept_bytes: int = 0
    """The bytes of entries that are kept."""

    ended: End | None = None
    """The entry `next`, if that is where the log has ended; ``None`` as far as it goes on."""

    @classmethod
    def at(cls, checkpoint: Checkpoint, tag: str, wanted: Iterable[int]) -> Self:
        """Return the view of the partitions *wanted* that *checkpoint* gives."""
        parts = {number: PartView.at(checkpoint.part(number)) for number in wanted}
        return cls(
            checkpoint,
            tag,
            checkpoint.next,
            checkpoint.void_before,
            list(checkpoint.writes),
            parts,
            dict(checkpoint.batches),
        )

    def copy(self) -> Self:
        """Return a copy, to go on from here."""
        parts = {number: part.copy() for number, part in self.parts.items()}
        return type(self)(
            self.checkpoint,
            self.tag,
            self.next,
            self.void_before,
            self.writes.copy(),
            parts,
            self.batches.copy(),
            self.counting.copy(),
            self.kept_bytes,
            self.ended,
        )

    def of(self, partition: int) -> Self:
        """Return what is seen of one *partition*, small enough to be sent to another process.

        It is for reading: what the checkpoint says of writes and of other partitions is left out.
        """
        part = self.parts[partition].copy()
        part.entries = [entry.without_data() for entry in part.entries]
        checkpoint = replace(
            self.checkpoint,
            writes=(),
            batches={},
            parts={partition: self.checkpoint.part(partition)},
        )
        parts = {partition: part}
        return type(self)(checkpoint, self.tag, self.next, self.void_before, [], parts, {})

    def take_write(self, entry: Write) -> None:
        """Note the *entry* that comes next; what partitions get of it is for them."""
        bases = tuple((p, share.base) for p, share in entry.parts.items())
        self.writes.append((self.next, entry.id, bases))
        self.counting |= entry.staged_ids
        if entry.batch is not None:
            last = self.batches.get(entry.batch.stream, -1)
            self.batches[entry.batch.stream] = max(last, entry.batch.number)

    def take_entry(
        self, part: PartView, name: str, base: int, stored: StoredEntry, data: bytes
    ) -> None:
        """Have *part* take its next entry, and keep its bytes while there is room."""
        keep = self.kept_bytes + len(data) <= KEPT_BYTES
        if keep:
            self.kept_bytes += len(data)
        part.add(name, base, stored, data, keep=keep)
