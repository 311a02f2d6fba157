"""The record of a commit of several stores, and the proof that it is what was written (TSK-10).

One file, which gets its name when it is on disk (`record_file`). Its contents::

    {"format": 4,
     "stores": {"counts": {"base_offset": 7, "bytes": 480}},
     "outputs": {"00000000000000000000.log": {"bytes": 512}}}

and its parts are, in this order, of each store a segment of a changelog with one frame, at its real
offset, and of each output the bytes that it has recorded. So a record with a name is whole,
whatever died; whatever is not exactly as it was written is damage.

Earlier formats are directories with a file for each part, see `directory_record`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statestores.changelog import Frame
from statestores.changelog.encoded_rows import EncodedChanges
from statestores.changelog.file_log import wall_clock_ms
from statestores.changelog.segments.memory_segment import (
    FrameContent,
    MemorySegment,
    segment_in_memory,
)
from statestores.errors import ChangelogCorruptedError
from statestores.files.durable_json import check_format
from statestores.files.strict_json import Fields
from statestores.logged_store import LoggedStore
from statestores.spi.offsets import Position
from statestores.state_root import StateRoot
from statestores.tasks.commits.record_file import (
    RecordParts,
    damaged_record,
    read_file,
    write_file,
)
from statestores.tasks.commits.task_outputs import OutputFiles

RECORD_FORMAT = 4
"""The format that is written. A release that knows only directories cannot read it, and says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPart:
    """What a recorded commit appends to the changelog of one store."""

    base_offset: int
    """Where it goes on: the offset of the first change in the store's changelog."""

    frame: Frame
    """The changes and the position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCommit:
    """What a record holds."""

    parts: Mapping[str, RecordedPart]
    """What it appends to the changelog of each store."""

    outputs: OutputFiles | None
    """What it emits; ``None`` if nothing."""


def write_record(
    path: Path,
    changes: Sequence[tuple[LoggedStore[Any], EncodedChanges]],
    position: Position,
    outputs: OutputFiles | None,
) -> None:
    """Write *changes*, those that are pending in stores, and *outputs* into the file *path*.

    It is on disk on return.

    Whatever the durability of the commit: should a power failure keep the record's name and take
    some of its bytes, nobody could tell that from damage.

    Raises:
        StorageError: It cannot be written.
    """
    content: dict[str, Any] = {"format": RECORD_FORMAT, "stores": {}}
    parts: list[bytes] = []
    for store, pending in changes:
        base = store.changelog.end_offset
        part = packed_part(store, base, pending, position)
        content["stores"][store.name] = {"base_offset": base, "bytes": len(part)}
        parts.append(part)
    if outputs is not None:
        content["outputs"] = {name: {"bytes": len(data)} for name, data in outputs.items()}
        parts += outputs.values()
    write_file(path, content, parts)


def packed_part(
    store: LoggedStore[Any], base_offset: int, changes: EncodedChanges, position: Position
) -> bytes:
    """Return what a record has of *store*: a segment with one frame."""
    content = FrameContent(changes.rows, position)
    return segment_in_memory(
        store.changelog.store_kind,
        base_offset,
        [content],
        wall_clock_ms(),
        changes.rows.compression,
    )


def read_record(path: Path, root: StateRoot) -> RecordedCommit | None:
    """Return what the file *path* records; ``None`` when there is none.

    Raises:
        StoreCorruptedError: It is not what was written.
        UnsupportedFormatError: It is of a format that this release does not know.
        StorageError: It cannot be read.
    """
    file = read_file(path)
    if file is None:
        return None
    fields = Fields(file.content, repr(str(path)))
    check_format(fields, path, RECORD_FORMAT)
    slices = RecordParts(path, file)
    parts = {
        name: read_part(path, name, part.integer("base_offset"), slices.next(part), root)
        for name, part in fields.inside("stores").items()
    }
    if not parts:
        raise damaged_record(path, "it names no stores")
    outputs = None
    if "outputs" in file.content:
        outputs = {name: slices.next(each) for name, each in fields.inside("outputs").items()}
    slices.end()
    return RecordedCommit(parts=parts, outputs=outputs)


def read_part(path: Path | str, name: str, base: int, data: bytes, root: StateRoot) -> RecordedPart:
    """Return the one frame of the store *name*, which the record at *path* has as *data*.

    Raises:
        StoreCorruptedError: It is none.
    """
    kind = root.store(name).specification.kind
    try:
        segment = MemorySegment.of(str(path), data)
        frames = list(segment.frames())
    except ChangelogCorruptedError as error:
        raise damaged_record(path, f"{name!r} cannot be read ({error})") from error
    if segment.head.store_kind != kind or [each.base_offset for each in frames] != [base]:
        raise damaged_record(
            path,
            f"{name!r} has {len(frames)} frames of a {segment.head.store_kind} store, and one of a "
            f"{kind} store, of offset {base}, was written",
        )
    return RecordedPart(base_offset=base, frame=frames[0])
