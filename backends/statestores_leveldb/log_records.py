"""LevelDB's log format, read just far enough to see which changes a database consists of.

Both the write-ahead logs and the manifest are files of records in this format:
https://github.com/google/leveldb/blob/main/doc/log_format.md
Each function here takes what a file holds, so that whoever asks several reads it once.

Nothing here verifies a checksum: LevelDB does so when it opens. Reading stops quietly at the first
thing that makes no sense, and leaves it to LevelDB to judge.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from struct import Struct

_BLOCK_BYTES = 32 * 1024
_RECORD_HEADER = Struct("<IHB")  # checksum, length, type
_ZERO_HEADER = bytes(_RECORD_HEADER.size)
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4

_BATCH_HEADER = Struct("<QI")  # sequence number of the first change, number of changes

_DELETION, _VALUE = 0, 1  # the tags of a change

# The fields of a version edit that are one number, by their tags: the next file, the previous log.
_LOG_NUMBER, _LAST_SEQUENCE = 2, 4
_NUMBERS = {_LOG_NUMBER, 3, _LAST_SEQUENCE, 9}


@dataclass(frozen=True, slots=True)
class ManifestState:
    """What the manifest says about the logs."""

    log_number: int
    """The oldest log that is still needed; 0 in a database that was never opened to the end."""

    last_sequence: int
    """A sequence number that the sorted files and the logs that are gone have at least reached."""


def read_manifest(content: bytes) -> ManifestState:
    """Return what a manifest of *content* says, as far as it makes sense."""
    numbers = {_LOG_NUMBER: 0, _LAST_SEQUENCE: 0}
    for record in _records(content):
        for tag, number in _numbers_of(record):
            if tag in numbers:
                numbers[tag] = number
    return ManifestState(numbers[_LOG_NUMBER], numbers[_LAST_SEQUENCE])


def read_batches(content: bytes) -> Iterator[tuple[int, int]]:
    """Iterate over the batches in a log of *content*: the first sequence number, and the next."""
    for record in _records(content):
        if len(record) < _BATCH_HEADER.size:
            return
        sequence, count = _BATCH_HEADER.unpack_from(record)
        yield sequence, sequence + count


def last_changes(content: bytes) -> bytes | None:
    """Return the changes of the last whole batch in a log of *content*, as they are stored."""
    last = None
    for last in _records(content):  # noqa: B007  # the last one is wanted
        pass
    return None if last is None else last[_BATCH_HEADER.size :]


def zeros_before_more(content: bytes) -> int | None:
    """Return where *content* has zeros for a record, and something else after them.

    LevelDB takes such a record for room that was reserved. It skips the rest of the block, and
    reports nothing: where the next block begins with a record, the changes between are a hole.
    Zeros up to the end are what a power failure may leave, and end the file.
    """
    if _ZERO_HEADER not in content:
        return None
    for block in range(0, len(content), _BLOCK_BYTES):
        position, end = block, min(block + _BLOCK_BYTES, len(content))
        while position + _RECORD_HEADER.size <= end:
            _, length, kind = _RECORD_HEADER.unpack_from(content, position)
            begin, position = position, position + _RECORD_HEADER.size + length
            if length == kind == 0:  # the zeros may begin within the checksum
                return begin if content[position:].strip(b"\0") else None
    return None


def packed_changes(changes: Iterable[tuple[bytes, bytes | None]]) -> bytes:
    """Return *changes* as LevelDB stores a batch of them, made in this order, in a log."""
    packed = bytearray()
    for key, value in changes:
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


def _records(content: bytes) -> Iterator[bytes]:
    """Iterate over the records in *content*; a torn or damaged record ends it."""
    parts: list[bytes] = []
    for begin in range(0, len(content), _BLOCK_BYTES):
        position, end = begin, min(begin + _BLOCK_BYTES, len(content))
        while position + _RECORD_HEADER.size <= end:
            _, length, kind = _RECORD_HEADER.unpack_from(content, position)
            position += _RECORD_HEADER.size
            if position + length > end or kind not in {_FULL, _FIRST, _MIDDLE, _LAST}:
                return
            if bool(parts) == (kind in {_FULL, _FIRST}):
                return
            parts.append(content[position : position + length])
            position += length
            if kind in {_FULL, _LAST}:
                yield b"".join(parts)
                parts = []


def _numbers_of(edit: bytes) -> Iterator[tuple[int, int]]:
    """Iterate over the numbers that a version edit begins with, and their tags.

    LevelDB writes them before the fields about files. One field comes before them, the name of the
    order of keys, in the first edit of a manifest: its numbers are those of an empty database or of
    one that was repaired, which has no log to compare them with, or the next edit has them.
    """
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
            if tag not in _NUMBERS:
                return
            yield tag, varint()
    except IndexError:  # the record ends in the middle of a field
        return
