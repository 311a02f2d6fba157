"""Records of commits as earlier releases wrote them: directories, which are only finished (TSK-10).

::

    commit.json                          the stores, their base offsets, lengths and checksums
    <store>/00000000000000000007.log     a changelog of that store's part alone, one frame
    @outputs/...                         what the commit emits, in files of the outputs' own

Format 1 had the base offsets only, and frames from offset 0. Format 2 has lengths and checksums,
and frames at their real offsets; format 3 has outputs, too.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import google_crc32c

from statestores.arrow.file_access import checksum_of, reporting
from statestores.changelog import ChangelogReader
from statestores.changelog.segments.segment_directory import segment_name
from statestores.errors import (
    ChangelogCorruptedError,
    StoreMismatchError,
    StoreNotFoundError,
)
from statestores.files.directory_lock import LOCK_FILE
from statestores.files.durable_json import check_format, read_json
from statestores.files.strict_json import Fields
from statestores.state_root import StateRoot
from statestores.tasks.commits.commit_record import RecordedCommit, RecordedPart
from statestores.tasks.commits.record_file import damaged_record
from statestores.tasks.commits.task_outputs import OutputFiles

RECORD_FILE = "commit.json"

OUTPUTS_DIRECTORY = "@outputs"
"""Where a record has what its commit emits. No store can have such a name."""

_FORMAT_WITHOUT_CHECKSUMS = 1
_FORMAT_WITH_CHECKSUMS = 2
_FORMAT_WITH_OUTPUTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredPart:
    """What ``commit.json`` says about one store."""

    base_offset: int
    first_offset: int
    """The offset of the frame in the record: the base offset, but 0 in format 1."""
    length: int | None
    """Bytes of the file; ``None`` in format 1."""
    checksum: int | None


def read_directory(record: Path, root: StateRoot) -> RecordedCommit:
    """Return what the directory *record* appends to each store, and emits.

    Raises:
        StoreCorruptedError: It is not what was written.
        UnsupportedFormatError: It is of a format that this release does not know.
        StorageError: It cannot be read.
    """
    with reporting("read", record):
        present = {entry.name for entry in record.iterdir()}
    content = read_json(record / RECORD_FILE)
    if content is None:
        raise damaged_record(record, f"it has no {RECORD_FILE}")
    stored, files = _stored_parts(record, content)
    expected = {RECORD_FILE, *stored, *([] if files is None else [OUTPUTS_DIRECTORY])}
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
    return RecordedCommit(parts=parts, outputs=_contents(outputs, files))


def _contents(directory: Path, names: Mapping[str, object]) -> OutputFiles:
    """Return what is in the files *names* below *directory*."""
    with reporting("read", directory):
        return {name: (directory / name).read_bytes() for name in names}


def _files(directory: Path) -> dict[str, dict[str, int]]:
    """Return length and checksum of each file below *directory*, but for locks."""
    found = {}
    with reporting("read", directory):
        for file in sorted(directory.rglob("*")):
            if file.is_file() and file.name != LOCK_FILE:
                name = file.relative_to(directory).as_posix()
                found[name] = {"bytes": file.stat().st_size, "crc32c": checksum_of(file)}
    return found


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
    known = (_FORMAT_WITHOUT_CHECKSUMS, _FORMAT_WITH_CHECKSUMS, _FORMAT_WITH_OUTPUTS)
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
        if version == _FORMAT_WITH_OUTPUTS:
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
