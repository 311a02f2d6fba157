"""The record of a commit of several stores, and the proof that it is what was written (TSK-10).

A directory, which gets its name when everything in it is on disk::

    commit.json                          the stores, their base offsets, lengths and checksums
    <store>/00000000000000000007.log     a changelog of that store's part alone, one frame
    @outputs/...                         what the commit emits, in files of the outputs' own

So a record with a name is whole, whatever died. What a crash may do to the end of a changelog it
cannot have done here: whatever is not exactly as it was written is damage.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import google_crc32c

from statestores.arrow.file_access import checksum_of, reporting
from statestores.changelog import ChangelogReader, FileChangelog, Frame
from statestores.changelog.segment_directory import segment_name
from statestores.errors import (
    ChangelogCorruptedError,
    StoreCorruptedError,
    StoreMismatchError,
    StoreNotFoundError,
)
from statestores.files.directory_lock import LOCK_FILE
from statestores.files.durable_json import check_format, read_json, write_json
from statestores.files.strict_json import Fields
from statestores.logged_store import LoggedStore
from statestores.spi.durability import Durability
from statestores.spi.offsets import Position
from statestores.state_root import StateRoot
from statestores.tasks.commits.task_outputs import TaskOutputs

RECORD_FILE = "commit.json"

RECORD_FORMAT = 2
"""The format that is written: with lengths and checksums, and frames at their real offsets. Format
1 had the base offsets only, and frames from offset 0; it is finished as before. A release that
knows only format 1 refuses format 2 by name, and leaves it for this one to finish."""

RECORD_FORMAT_WITH_OUTPUTS = 3
"""The format of a commit that emits: with the files of its outputs beside those of the stores. An
older release refuses it by name; a commit that emits nothing is written in format 2."""

OUTPUTS_DIRECTORY = "@outputs"
"""Where a record has what its commit emits. No store can have such a name."""

_FORMAT_WITHOUT_CHECKSUMS = 1


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

    outputs: Path | None
    """The directory of what it emits; ``None`` if nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredPart:
    """What ``commit.json`` says about one store."""

    base_offset: int
    first_offset: int
    """The offset of the frame in the record: the base offset, but 0 in format 1."""
    length: int | None
    """Bytes of the file; ``None`` in format 1."""
    checksum: int | None


def write_record(
    directory: Path,
    stores: Sequence[LoggedStore[Any]],
    position: Position,
    outputs: TaskOutputs | None = None,
) -> None:
    """Write the pending changes of *stores*, and *outputs* if there are any pending.

    The *directory* is empty, and everything is on disk on return.

    Whatever the durability of the commit: should a power failure keep the record's name and take
    some of its bytes, nobody could tell that from damage.

    Raises:
        StorageError: It cannot be written.
    """
    parts: dict[str, dict[str, int]] = {}
    for store in stores:
        base, part = store.changelog.end_offset, directory / store.name
        with FileChangelog.create(part, store.changelog.store_kind, first_offset=base) as log:
            log.append(
                store.store.pending_changes(), position=position, durability=Durability.POWER_LOSS
            )
        file = part / segment_name(base)
        with reporting("read", file):
            length, checksum = file.stat().st_size, checksum_of(file)
        parts[store.name] = {"base_offset": base, "bytes": length, "crc32c": checksum}
    content: dict[str, Any] = {"format": RECORD_FORMAT, "stores": parts}
    if outputs is not None and outputs.has_pending:
        outputs.record(directory / OUTPUTS_DIRECTORY)
        content |= {
            "format": RECORD_FORMAT_WITH_OUTPUTS,
            "outputs": _files(directory / OUTPUTS_DIRECTORY),
        }
    write_json(directory / RECORD_FILE, {**content, "crc32c": _checksum(content)})


def read_record(record: Path, root: StateRoot) -> RecordedCommit | None:
    """Return what *record* appends to each store, and emits; ``None`` when there is no record.

    Raises:
        StoreCorruptedError: It is not what was written.
        UnsupportedFormatError: It is of a format that this release does not know.
        StorageError: It cannot be read.
    """
    with reporting("read", record):
        try:
            present = {entry.name for entry in record.iterdir()}
        except FileNotFoundError:
            return None
    content = read_json(record / RECORD_FILE)
    if content is None:
        raise damaged_record(record, f"it has no {RECORD_FILE}")
    stored, files = _stored_parts(record, content)
    expected = {RECORD_FILE, *stored, *([] if files is None else [OUTPUTS_DIRECTORY])}
    if missing := expected - present:
        raise damaged_record(record, f"{min(missing)!r} is missing")
    if foreign := present - expected:
        raise damaged_record(record, f"{min(foreign)!r} does not belong there")
    parts = {name: _read_part(record, name, part, root) for name, part in stored.items()}
    if files is None:
        return RecordedCommit(parts=parts, outputs=None)
    outputs = record / OUTPUTS_DIRECTORY
    if not outputs.is_dir() or _files(outputs) != files:
        raise damaged_record(
            record, f"{OUTPUTS_DIRECTORY!r} does not hold the files, lengths and checksums noted"
        )
    return RecordedCommit(parts=parts, outputs=outputs)


def _files(directory: Path) -> dict[str, dict[str, int]]:
    """Return length and checksum of each file below *directory*, but for locks."""
    found = {}
    with reporting("read", directory):
        for file in sorted(directory.rglob("*")):
            if file.is_file() and file.name != LOCK_FILE:
                name = file.relative_to(directory).as_posix()
                found[name] = {"bytes": file.stat().st_size, "crc32c": checksum_of(file)}
    return found


def damaged_record(record: Path, reason: str) -> StoreCorruptedError:
    """Return the error for a record that is not what was written."""
    return StoreCorruptedError(
        f"the recorded commit of a task in {str(record)!r} is damaged: {reason}; put it back from "
        "a copy, or move the directory away to go on without those parts of the commit that are "
        "not in the changelogs yet"
    )


def _read_part(record: Path, name: str, part: _StoredPart, root: StateRoot) -> RecordedPart:
    """Return the one frame of the store *name*."""
    directory = record / name
    file = directory / segment_name(part.first_offset)
    with reporting("read", directory):
        if not directory.is_dir():
            raise damaged_record(record, f"{name!r} is no directory")
        present = {entry.name for entry in directory.iterdir()} - {LOCK_FILE}
        if present != {file.name}:
            raise damaged_record(
                record, f"{name!r} has to hold {file.name!r} alone, and holds {sorted(present)!r}"
            )
        length = file.stat().st_size
        if part.length is not None and length != part.length:
            raise damaged_record(
                record, f"{name}/{file.name} has {length} bytes, and {part.length} were written"
            )
        if part.checksum is not None and checksum_of(file) != part.checksum:
            raise damaged_record(record, f"the checksum of {name}/{file.name} does not match")
    try:
        with ChangelogReader.open(directory, root.store(name).specification.kind) as log:
            torn, frames = log.torn_tail, list(log.read())
    except (ChangelogCorruptedError, StoreMismatchError, StoreNotFoundError) as error:
        raise damaged_record(record, f"{name!r} cannot be read ({error})") from error
    if torn is not None:
        raise damaged_record(
            record,
            f"{torn.length} bytes of {name}/{file.name} from {torn.byte_position} on are no frame",
        )
    if len(frames) != 1 or frames[0].base_offset != part.first_offset:
        raise damaged_record(
            record,
            f"{name}/{file.name} has {len(frames)} frames, and one of offset {part.first_offset} "
            "was written",
        )
    return RecordedPart(base_offset=part.base_offset, frame=frames[0])


def _stored_parts(
    record: Path, content: Mapping[str, Any]
) -> tuple[dict[str, _StoredPart], dict[str, dict[str, int]] | None]:
    """Return what ``commit.json`` says of the stores, and of the files of outputs."""
    file = record / RECORD_FILE
    fields = Fields(content, repr(str(file)))
    files: dict[str, dict[str, int]] | None = None
    known = (_FORMAT_WITHOUT_CHECKSUMS, RECORD_FORMAT, RECORD_FORMAT_WITH_OUTPUTS)
    version = check_format(fields, file, *known)
    if version != _FORMAT_WITHOUT_CHECKSUMS:
        unsigned = {name: value for name, value in content.items() if name != "crc32c"}
        if content.get("crc32c") != _checksum(unsigned):
            raise damaged_record(record, f"the checksum of {RECORD_FILE} does not match")
        parts = {
            name: _StoredPart(
                base_offset=part.integer("base_offset"),
                first_offset=part.integer("base_offset"),
                length=part.integer("bytes"),
                checksum=part.integer("crc32c"),
            )
            for name, part in fields.inside("stores").items()
        }
        if version == RECORD_FORMAT_WITH_OUTPUTS:
            files = {
                name: {"bytes": each.integer("bytes"), "crc32c": each.integer("crc32c")}
                for name, each in fields.inside("outputs").items()
            }
    else:
        bases = fields.inside("base_offsets")
        parts = {
            name: _StoredPart(
                base_offset=bases.integer(name), first_offset=0, length=None, checksum=None
            )
            for name in bases
        }
    if not parts:
        raise damaged_record(record, f"{RECORD_FILE} names no stores")
    return parts, files


def _checksum(content: Mapping[str, Any]) -> int:
    """Return the CRC32C of *content*, however it was laid out in a file."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    checksum: int = google_crc32c.value(text.encode())
    return checksum
