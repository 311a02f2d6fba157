"""Compaction of a partition's segments: changes that later ones make void are left out (LOG-18)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from statestores.changelog.frame import Frame, unpack_header
from statestores.changelog.merged_frames import MergedFrames
from statestores.changelog.options import Compression
from statestores.changelog.segments.segment_head import SegmentHead
from statestores.changelog.survivors import Survivors, choose, survivors_for
from statestores.errors import CommitConflictError
from statestores.object_log.checkpoint import SegmentRef
from statestores.object_log.driver import run
from statestores.object_log.folding import SEGMENT_BYTES, publish_segments, segment_head
from statestores.object_log.frames import read_entry
from statestores.object_log.names import Names
from statestores.object_log.object_segment import frames_of
from statestores.object_log.settling import read_checkpoint, settle
from statestores.spi.offsets import Position
from statestores.storage import Found, ObjectStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectCompactionReport:
    """What a compaction has done to a store's changelogs."""

    entries: int = 0
    """Entries of logs that were folded into segments."""

    changes_before: int = 0
    """Changes in the segments that were compacted."""

    changes_after: int = 0
    """Changes that remain of them."""

    bytes_before: int = 0
    """The size of the segments that were compacted."""

    bytes_after: int = 0
    """The size of those that have replaced them."""


def compact_segments(
    storage: ObjectStorage,
    names: Names,
    partition: int,
    unique: Callable[[], str],
    survivors: Callable[[], Survivors],
) -> ObjectCompactionReport:
    """Compact the segments of *partition*, and return what that has done.

    Memory is that of the segment being read and of the one being written, and about 200 bytes and a
    key for each distinct key that remains.

    Raises:
        CommitConflictError: Somebody else has folded or compacted meanwhile; nothing has changed.
        ChangelogCorruptedError, UnsupportedFormatError, StorageError: A segment cannot be read.
        CommitInDoubtError: The object store does not answer. Trying again is harmless.
    """
    known = run(read_checkpoint(names), storage)
    store_kind = known.checkpoint.store_kind
    segments = known.checkpoint.part(partition).segments
    if not segments or all(each.compacted for each in segments):
        return ObjectCompactionReport()
    begin = known.checkpoint.part(partition).begin
    choice = choose(_frames(storage, names, partition, segments, store_kind), survivors)
    output = _Segments(storage, names, partition, store_kind, unique(), begin)
    head = SegmentHead(
        store_kind=store_kind,
        compression=Compression.LZ4,
        base_offset=begin,
        previous_base=None,
        compacted_to=segments[-1].end,
        position=Position(),
    )
    merged = MergedFrames(output, head)
    merged.merge(_frames(storage, names, partition, segments, store_kind), choice)
    written = output.finish()
    if not run(publish_segments(names, unique(), partition, known, written), storage):
        raise _overtaken(names, partition)
    return ObjectCompactionReport(
        changes_before=choice.changes,
        changes_after=merged.changes,
        bytes_before=sum(each.size for each in segments),
        bytes_after=sum(each.size for each in written),
    )


def survivors_of(
    store_kind: str, history_retention_ms: int | None, retention_ms: int | None
) -> Callable[[], Survivors]:
    """Return what makes the rule for stores of *store_kind* anew.

    Raises:
        InvalidArgumentError: A retention is missing or negative, or the kind has none.
    """
    survivors_for(store_kind, history_retention_ms, retention_ms)
    return lambda: survivors_for(store_kind, history_retention_ms, retention_ms)


def _frames(
    storage: ObjectStorage,
    names: Names,
    partition: int,
    segments: Sequence[SegmentRef],
    store_kind: str,
) -> Iterator[Frame]:
    """Yield the frames of *segments*, those of *partition*.

    Raises:
        CommitConflictError: One is gone: somebody else has compacted.
    """
    for each in segments:
        found = storage.read(each.name)
        if not isinstance(found, Found):
            raise _overtaken(names, partition)
        yield from frames_of(each, found.data, store_kind, names.shown(each.name), each.base)


def _overtaken(names: Names, partition: int) -> CommitConflictError:
    """Return the error for a compaction that came second, wherever it finds out."""
    return CommitConflictError(
        f"another process has folded or compacted the store {names.store!r} of {names.url!r} "
        f"meanwhile: partition {partition} is as that one has left it, and those below it, if they "
        "were asked for, are compacted; nothing is lost, and compacting again when the other has "
        "ended does the rest"
    )


class _Segments:
    """Puts frames into segments that are not too large."""

    def __init__(
        self,
        storage: ObjectStorage,
        names: Names,
        partition: int,
        store_kind: str,
        unique: str,
        begin: int,
    ) -> None:
        self._storage = storage
        self._names = names
        self._partition = partition
        self._store_kind = store_kind
        self._unique = unique
        self._written: list[SegmentRef] = []
        self._frames: list[bytes] = []
        self._size = 0
        self._base = self._end = begin
        self._before = self._reached = Position()

    def append(self, parts: Sequence[bytes | pa.Buffer]) -> None:
        """Take one frame."""
        frame = b"".join(map(bytes, parts))
        found = unpack_header(frame, 0)
        if found is not None:
            self._end = found[1].last_offset + 1
        self._reached = read_entry(frame, "a frame").after(self._reached)
        self._frames.append(frame)
        self._size += len(frame)
        if self._size >= SEGMENT_BYTES:
            self._put()

    def finish(self) -> tuple[SegmentRef, ...]:
        """Put what is left, and return all segments."""
        if self._frames:
            self._put()
        return tuple(self._written)

    def _put(self) -> None:
        head = segment_head(self._store_kind, self._base, self._end, self._before, compacted=True)
        name = self._names.segment(f"{self._unique}-{len(self._written)}", self._partition)
        data = b"".join([head, *self._frames])
        run(settle(self._names, name, data), self._storage)
        self._written.append(SegmentRef(name, self._base, self._end, len(data), compacted=True))
        self._frames, self._size = [], 0
        self._base, self._before = self._end, self._reached
