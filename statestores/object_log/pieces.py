"""Reading what a view has found, which may be folded and deleted meanwhile (OBJ-9)."""

from itertools import islice

from statestores.errors import ChangelogCorruptedError
from statestores.object_log.catching_up import catch_up
from statestores.object_log.checkpoint import SegmentRef
from statestores.object_log.frames import EntryRef, damaged, read_entry, rebased
from statestores.object_log.names import Names
from statestores.object_log.requests import Read, ReadMany, Steps
from statestores.object_log.settling import read_checkpoint
from statestores.object_log.view import PartView, View
from statestores.storage import Found

_MOST_AHEAD = 16
_BYTES_AHEAD = 16 * 1024 * 1024


def read_piece(
    names: Names, partition: int, view: View, offset: int
) -> Steps[tuple[View, SegmentRef | EntryRef, bytes]]:
    """Return what holds *offset* of *partition*, and its bytes; and *view*, or a later one.

    Requires: *offset* is before the end that *view* has.

    Raises:
        ChangelogCorruptedError: It is gone or not as it was, and the checkpoint has not passed it.
        UnsupportedFormatError, StorageError: It cannot be read.
    """
    while True:
        piece = view.parts[partition].piece_at(offset)
        if piece is None:
            raise damaged(
                names.shown(names.checkpoint), f"partition {partition} has lost offset {offset}"
            )
        if isinstance(piece, EntryRef):
            data = yield from frame_of(names, piece)
        else:
            found: Found | None = yield Read(piece.name)
            data = found.data if found is not None and len(found.data) == piece.size else None
        if data is not None:
            return view, piece, data
        now = yield from read_checkpoint(names)
        if now.checkpoint.id == view.checkpoint.id:
            raise damaged(names.shown(piece.name), "it counts, and is not there as it was")
        view = yield from catch_up(names, (partition,), tails=True)


def read_ahead(names: Names, part: PartView, offset: int) -> Steps[dict[str, bytes]]:
    """Return the bytes of the next entries of *part* from *offset* on, read at the same time.

    Those that are kept, or not there any more as they were, are not among them.
    """
    wanted: list[EntryRef] = []
    size = 0
    for entry in islice(part.entries_from(offset), _MOST_AHEAD):
        size += entry.size
        if wanted and size > _BYTES_AHEAD:
            break
        if entry.data is None:
            wanted.append(entry)
    if not wanted:
        return {}
    answers: list[Found | None] = yield ReadMany([entry.name for entry in wanted])
    return {
        entry.name: found.data
        for entry, found in zip(wanted, answers, strict=True)
        if found is not None and _is_as_it_was(names, entry, found.data)
    }


def frame_of(names: Names, entry: EntryRef) -> Steps[bytes | None]:
    """Return the frame of *entry* at its offset; ``None`` when it is not there any more."""
    data = entry.data
    if data is None:
        found: Found | None = yield Read(entry.name)
        if found is None or not _is_as_it_was(names, entry, found.data):
            return None
        data = found.data
    return rebased(data, entry.base, entry.at_ms)


def _is_as_it_was(names: Names, entry: EntryRef, data: bytes) -> bool:
    """Return whether *data* is what counted as *entry*."""
    try:
        stored = read_entry(data, names.shown(entry.name))
    except ChangelogCorruptedError:
        return False
    return stored.checksum == entry.checksum
