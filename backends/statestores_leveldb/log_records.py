"""LevelDB's log format, read just far enough to see which changes a database consists of.

Both the write-ahead logs and the manifest are files of records in this format:
https://github.com/google/leveldb/blob/main/doc/log_format.md

Nothing here verifies a checksum: LevelDB does so when it opens. Reading stops quietly at the first
thing that makes no sense, and leaves it to LevelDB to judge.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from struct import Struct

_BLOCK_BYTES = 32 * 1024
_RECORD_HEADER = Struct("<IHB")  # checksum, length, type
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4

_BATCH_HEADER = Struct("<QI")  # sequence number of the first change, number of changes

_DELETION, _VALUE = 0, 1  # the tags of a change

# The tags of a version edit, by what follows them.
_LOG_NUMBER, _LAST_SEQUENCE = 2, 4
_NUMBERS_AFTER = {2: 1, 3: 1, 4: 1, 5: 1, 6: 2, 7: 3, 9: 1}
_STRINGS_AFTER = {1: 1, 5: 1, 7: 2}


@dataclass(frozen=True, slots=True)
class ManifestState:
    """What the manifest says about the logs."""

    log_number: int
    """The oldest log that is still needed; 0 in a database that was never opened to the end."""

    last_sequence: int
    """A sequence number that the sorted files and the logs that are gone have at least reached."""


def read_manifest(path: Path) -> ManifestState:
    """Return what the manifest at *path* says, as far as it can be read."""
    numbers = {_LOG_NUMBER: 0, _LAST_SEQUENCE: 0}
    for record in _records(path):
        for tag, number in _numbers_of(record):
            if tag in numbers:
                numbers[tag] = number
    return ManifestState(numbers[_LOG_NUMBER], numbers[_LAST_SEQUENCE])


def read_batches(path: Path) -> Iterator[tuple[int, int]]:
    """Iterate over the batches in the log at *path*: the first sequence number, and the next."""
    for record in _records(path):
        if len(record) < _BATCH_HEADER.size:
            return
        sequence, count = _BATCH_HEADER.unpack_from(record)
        yield sequence, sequence + count


def last_changes(path: Path) -> bytes | None:
    """Return the changes of the last whole batch in the log at *path*, as they are stored."""
    last = None
    for last in _records(path):  # noqa: B007  # the last one is wanted
        pass
    return None if last is None else last[_BATCH_HEADER.size :]


def packed_changes(batch: Mapping[bytes, bytes | None]) -> bytes:
    """Return the changes of *batch* as LevelDB stores them in a log."""
    packed = bytearray()
    for key, value in batch.items():
        packed += bytes([_DELETION if value is None else _VALUE]) + _varint(len(key)) + key
        if value is not None:
            packed += _varint(len(value)) + value
    return bytes(packed)


def _varint(number: int) -> bytes:
    packed = bytearray()
    while number >= 0x80:  # noqa: PLR2004  # the high bit says that more follows
        packed.append(number & 0x7F | 0x80)
        number >>= 7
    packed.append(number)
    return bytes(packed)


def _records(path: Path) -> Iterator[bytes]:
    """Iterate over the records of a file; a torn or damaged record ends it."""
    parts: list[bytes] = []
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            position = 0
            while position + _RECORD_HEADER.size <= len(block):
                _, length, kind = _RECORD_HEADER.unpack_from(block, position)
                position += _RECORD_HEADER.size
                if position + length > len(block) or kind not in {_FULL, _FIRST, _MIDDLE, _LAST}:
                    return
                if bool(parts) == (kind in {_FULL, _FIRST}):
                    return
                parts.append(block[position : position + length])
                position += length
                if kind in {_FULL, _LAST}:
                    yield b"".join(parts)
                    parts = []


def _numbers_of(edit: bytes) -> Iterator[tuple[int, int]]:
    """Iterate over the tag and first number of each field of a version edit."""
    position = 0

    def varint() -> int:
        nonlocal position
        value = shift = 0
        while True:
            byte = edit[position]
            position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:  # noqa: PLR2004  # the high bit says that more follows
                return value

    try:
        while position < len(edit):
            tag = varint()
            if tag not in _NUMBERS_AFTER and tag not in _STRINGS_AFTER:
                return
            numbers = [varint() for _ in range(_NUMBERS_AFTER.get(tag, 0))]
            if numbers:
                yield tag, numbers[0]
            for _ in range(_STRINGS_AFTER.get(tag, 0)):
                position += varint()
    except IndexError:  # the record ends in the middle of a field
        return
