"""The frames of RocksDB's logs: the write-ahead logs and the manifest.

RocksDB 9.8 never returns from opening a database when the type byte of a record says that the log
was recycled although it was not (facebook/rocksdb#13333, in every recovery mode; one flipped bit
is enough). So the frames are checked before RocksDB is asked. Checksums are left to RocksDB, which
judges them well.

A log is a sequence of blocks of 32 KiB. A block is a sequence of records and up to six bytes of
padding; a record is a header (checksum 4, length 2, type 1, little endian) and its payload. An
entry is one record or several. An entry of a write-ahead log is a batch, and begins with the
sequence number of its first change (8) and the number of its changes (4).
"""

from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

_BLOCK_BYTES = 32 * 1024
_HEADER_BYTES = 7
_BATCH_HEADER_BYTES = 12

_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
"""The types of records: a whole entry, or the pieces of one. Others need options that we do not
set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStructure:
    """What the frames of one log say."""

    damage: int | None
    """Where the log stops being a log."""

    first_sequence: int | None
    """The sequence number of the first batch; ``None`` when the log holds no whole one. The end of
    the file may cut the last one short: a crash does this to the newest log."""

    next_sequence: int | None
    """The sequence number that follows the last whole batch."""


def read_structure(path: Path) -> LogStructure:
    """Return the structure of the log at *path*. Zeros up to the end count as the end.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        return _Reader(file).read()


class _Reader:
    """One walk over a log."""

    def __init__(self, file: BufferedReader) -> None:
        self._file = file
        self._head = b""
        """The beginning of the entry whose pieces are being read."""
        self._in_pieces = False
        self._first: int | None = None
        self._next: int | None = None

    def read(self) -> LogStructure:
        offset = 0
        while block := self._file.read(_BLOCK_BYTES):
            position = 0
            while len(block) - position >= _HEADER_BYTES:
                length = int.from_bytes(block[position + 4 : position + 6], "little")
                kind = block[position + 6]
                start = position + _HEADER_BYTES
                if kind == 0 and length == 0:  # the zeros may begin within the checksum
                    zeros = self._only_zeros(block[start:])
                    return self._result(damage=None if zeros else offset + position)
                end = start + length
                follows = kind in (_MIDDLE, _LAST)
                if not _FULL <= kind <= _LAST or follows != self._in_pieces or end > _BLOCK_BYTES:
                    return self._result(damage=offset + position)
                if end > len(block):
                    return self._result()  # the end of the file cuts it short
                self._take(kind, block[start:end])
                position = end
            offset += len(block)
        return self._result()

    def _take(self, kind: int, beginning: bytes) -> None:
        """Note a record that begins with *beginning*, and the sequence numbers of a whole entry."""
        self._head = (self._head + beginning)[:_BATCH_HEADER_BYTES]
        self._in_pieces = kind in (_FIRST, _MIDDLE)
        if not self._in_pieces:
            sequence = int.from_bytes(self._head[:8], "little")
            self._next = sequence + int.from_bytes(self._head[8:], "little")
            if self._first is None:
                self._first = sequence
            self._head = b""

    def _only_zeros(self, rest: bytes) -> bool:
        """Whether *rest*, and what the file has left, are zeros."""
        while rest:
            if rest.strip(b"\0"):
                return False
            rest = self._file.read(_BLOCK_BYTES)
        return True

    def _result(self, *, damage: int | None = None) -> LogStructure:
        return LogStructure(damage=damage, first_sequence=self._first, next_sequence=self._next)
