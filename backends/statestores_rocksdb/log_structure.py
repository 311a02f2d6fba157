"""The frames of RocksDB's logs: the write-ahead logs and the manifest.

RocksDB 9.8 never returns from opening a database when the type byte of a record says that the log
was recycled although it was not (facebook/rocksdb#13333, in every recovery mode; one flipped bit
is enough). So the frames are looked at before it is asked. Checksums are left to RocksDB, which
judges them well.

A log is a sequence of blocks of 32 KiB. A block is a sequence of records and up to six bytes of
filling, a record a header (checksum 4, length 2, type 1, little endian) and its payload.
"""

from io import BufferedReader
from pathlib import Path

_BLOCK_BYTES = 32 * 1024
_HEADER_BYTES = 7

_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
"""The types of records: a whole entry, or the pieces of one. Others need options that we do not
set."""


def find_damage(path: Path) -> int | None:
    """Return where the log at *path* begins to be something else than a log, or ``None``.

    A record that the end of the file cuts short is no damage, and neither are zeros up to the
    end: a crash leaves both.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        offset = 0
        in_pieces = False
        while block := file.read(_BLOCK_BYTES):
            position = 0
            while len(block) - position >= _HEADER_BYTES:
                length = int.from_bytes(block[position + 4 : position + 6], "little")
                kind = block[position + 6]
                if kind == 0 and length == 0:
                    return None if _only_zeros(block[position:], file) else offset + position
                follows = kind in (_MIDDLE, _LAST)
                end = position + _HEADER_BYTES + length
                if not _FULL <= kind <= _LAST or follows != in_pieces or end > _BLOCK_BYTES:
                    return offset + position
                if end > len(block):
                    return None
                in_pieces = kind in (_FIRST, _MIDDLE)
                position = end
            offset += len(block)
    return None


def _only_zeros(rest: bytes, file: BufferedReader) -> bool:
    """Whether *rest*, and what *file* has left, are zeros."""
    while rest:
        if rest.strip(b"\0"):
            return False
        rest = file.read(_BLOCK_BYTES)
    return True
