"""Folding: what was appended becomes segments, and a checkpoint that names them (OBJ-13).

The order is what makes it safe: segments are put, the checkpoint is replaced, and only then is
deleted what the new floor has passed. A checkpoint that somebody else has replaced meanwhile is
given up, never tried again with the same segments: a vacuum may have listed them (OBJ-15).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from statestores.changelog.options import Compression
from statestores.changelog.segments.segment_head import SegmentHead
from statestores.errors import CommitInDoubtError
from statestores.object_log.catching_up import catch_up
from statestores.object_log.checkpoint import (
    KEPT_GRANTS,
    KEPT_WRITES,
    Checkpoint,
    PartState,
    SegmentRef,
)
from statestores.object_log.frames import damaged, read_entry
from statestores.object_log.names import Names
from statestores.object_log.pieces import frame_of
from statestores.object_log.requests import Delete, Replace, Steps
from statestores.object_log.settling import ATTEMPTS, Known, read_checkpoint, settle
from statestores.object_log.view import PartView, View
from statestores.spi.offsets import Position
from statestores.storage import Outcome

SEGMENT_BYTES = 64 * 1024 * 1024
"""A segment that would grow beyond this is ended. A single frame may be larger."""


def create_log(names: Names, unique: str, store_kind: str) -> Steps[None]:
    """Begin an empty log, if there is none.

    Raises:
        CommitInDoubtError: The object store does not answer. Trying again is harmless.
    """
    checkpoint = Checkpoint(id=unique, log=unique, store_kind=store_kind)
    yield from settle(names, names.checkpoint, checkpoint.pack())


def fold(names: Names, unique: str, partitions: Iterable[int]) -> Steps[int | None]:
    """Fold everything into segments; return how many entries it was, or ``None``.

    ``None`` says that somebody else has folded meanwhile. *partitions* are all of the store.

    Raises:
        ChangelogCorruptedError, UnsupportedFormatError, StorageError: Something cannot be read.
        CommitInDoubtError: The object store does not answer. Folding again is harmless.
    """
    view = yield from catch_up(names, partitions, tails=True)
    old = view.checkpoint
    parts: dict[int, PartState] = dict(old.parts)
    count = view.next - old.next
    for number, part in view.parts.items():
        before = old.part(number)
        added = yield from _put_segments(names, unique, old, number, before.position, part)
        if added is None:
            return None
        state = _state(part, added)
        if state != PartState():
            parts[number] = state
        count += len(part.entries)
    if count == 0:
        return 0
    checkpoint = with_writes(old, view, unique, parts)
    if not (yield from replace_checkpoint(names, checkpoint, view.tag)):
        return None
    yield from _delete_folded(names, old, view)
    return count


def with_writes(
    old: Checkpoint, view: View, unique: str, parts: Mapping[int, PartState]
) -> Checkpoint:
    """Return what follows the checkpoint *old*: what *view* has of the root log, and *parts*."""
    dropped = view.writes[:-KEPT_WRITES][-1:]
    return replace(
        old,
        id=unique,
        next=view.next,
        void_before=view.void_before,
        writes=tuple(view.writes[-KEPT_WRITES:]),
        writes_from=dropped[0][0] + 1 if dropped else old.writes_from,
        parts=parts,
        batches=view.batches,
    )


def without_content(part: PartView) -> PartState:
    """Return what a checkpoint says of *part* when only its grants matter any more (OBJ-5)."""
    dropped = part.closed[:-KEPT_GRANTS][-1:]
    return PartState(
        closed=tuple(part.closed[-KEPT_GRANTS:]),
        closed_from=dropped[0][0] + 1 if dropped else part.closed_from,
    )


def _state(part: PartView, added: list[SegmentRef]) -> PartState:
    """Return what a checkpoint says of *part*, whose entries are in the segments *added*."""
    return replace(
        without_content(part),
        end=part.end,
        position=part.position,
        grant=part.grant,
        owner=part.owner,
        number=part.number,
        segments=(*part.segments, *added),
        begin=part.begin,
    )


def _put_segments(
    names: Names,
    unique: str,
    old: Checkpoint,
    number: int,
    position: Position,
    part: PartView,
) -> Steps[list[SegmentRef] | None]:
    """Put the entries of *part* into segments; ``None`` when the checkpoint has passed them.

    *position* is what the segments before reflect.
    """
    added: list[SegmentRef] = []
    frames: list[bytes] = []
    base, size, reached = part.folded_to, 0, position
    for place, entry in enumerate(part.entries):
        frame = yield from frame_of(names, entry)
        if frame is None:
            now = yield from read_checkpoint(names)
            if now.checkpoint.id != old.id:
                return None
            raise damaged(names.shown(entry.name), "it counts, and is not there as it was")
        frames.append(frame)
        size += len(frame)
        reached = read_entry(frame, names.shown(entry.name)).after(reached)
        if size >= SEGMENT_BYTES or place == len(part.entries) - 1:
            end = entry.last + 1
            head = segment_head(old.store_kind, base, end, position, compacted=False)
            name = names.segment(f"{unique}-{len(added)}", number)
            data = b"".join([head, *frames])
            yield from settle(names, name, data)
            added.append(SegmentRef(name, base, end, len(data), compacted=False))
            frames, base, size, position = [], end, 0, reached
    return added


def segment_head(
    store_kind: str, base: int, end: int, position: Position, *, compacted: bool
) -> bytes:
    """Return the head of the segment of the offsets from *base* up to *end*.

    *position* is what everything before it reflects.
    """
    head = SegmentHead(
        store_kind=store_kind,
        compression=Compression.LZ4,
        base_offset=base,
        previous_base=None,
        compacted_to=end if compacted else None,
        position=position,
    )
    return head.pack()


def replace_checkpoint(names: Names, checkpoint: Checkpoint, tag: str) -> Steps[bool]:
    """Replace the checkpoint with *tag*; return whether *checkpoint* is the one now.

    ``False`` says that it is not, or was and no longer is: whoever replaced it cleans up.

    Raises:
        CommitInDoubtError: The object store does not answer.
    """
    data = checkpoint.pack()
    for _ in range(ATTEMPTS):
        outcome = yield Replace(names.checkpoint, data, tag)
        if outcome is Outcome.DONE:
            return True
        now: Known = yield from read_checkpoint(names)
        if now.checkpoint.id == checkpoint.id:
            return True
        if now.tag != tag:
            return False
    raise CommitInDoubtError(
        f"nobody can tell whether {names.shown(names.checkpoint)} was replaced: the object store "
        "does not answer; either is right, and folding may be tried again"
    )


def _delete_folded(names: Names, old: Checkpoint, view: View) -> Steps[None]:
    """Delete what *view* has folded and the checkpoint has passed (OBJ-14); seals stay (OBJ-35)."""
    for number in range(old.next, view.next):
        yield Delete(names.root(number))
    for part in view.parts.values():
        for entry in part.entries:
            yield Delete(entry.name)


def publish_segments(
    names: Names,
    unique: str,
    partition: int,
    known: Known,
    segments: tuple[SegmentRef, ...],
) -> Steps[bool]:
    """Have *segments* be those of *partition* instead of the ones that *known* has.

    They hold what remains of the same offsets. ``False`` says that somebody else has replaced the
    checkpoint meanwhile: what *segments* name is garbage then, and is left to `vacuum`.

    Raises:
        CommitInDoubtError, ChangelogCorruptedError, StorageError: As `fold`.
    """
    old = known.checkpoint
    part = replace(old.part(partition), segments=segments)
    checkpoint = replace(old, id=unique, parts={**old.parts, partition: part})
    if not (yield from replace_checkpoint(names, checkpoint, known.tag)):
        return False
    for gone in old.part(partition).segments:
        if gone not in segments:
            yield Delete(gone.name)
    return True
