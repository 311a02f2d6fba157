"""The file of a recorded commit: its contents, and parts of bytes, whole or not there (TSK-10).

Integers are big-endian::

     0  8  magic, 'statetsk'
     8  4  CRC32C of everything after these twelve bytes
    12  4  length of the contents
    16     contents, a JSON object; then the parts, end to end

Who reads the contents knows how long the parts are. The first sixteen bytes, and the ``format`` in
the contents, keep their form in every version, so that a newer one is told from damage.
"""

import json
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple

import google_crc32c

from statestores.arrow.file_access import reporting
from statestores.errors import StoreCorruptedError
from statestores.failpoints import reach
from statestores.files.strict_json import Fields, parse_object

_MAGIC = b"statetsk"
_HEAD = Struct(">8sII")
_CHECKED_FROM = 12


class RecordFile(NamedTuple):
    """What such a file holds."""

    content: dict[str, Any]
    """The contents."""

    data: bytes
    """The whole file."""

    parts_at: int
    """Where in it the first part begins."""


class RecordParts:
    """The parts of a record, one after the other."""

    def __init__(self, where: Path | str, record: RecordFile) -> None:
        self._where, self._data, self._at = where, record.data, record.parts_at

    def next(self, part: Fields) -> bytes:
        """Return the next part, which the contents describe as *part*."""
        begin = self._at
        self._at += part.integer("bytes")
        return self._data[begin : self._at]

    def end(self) -> None:
        """Accept a record that ends with the last part.

        Raises:
            StoreCorruptedError: It does not.
        """
        if self._at != len(self._data):
            raise damaged_record(
                self._where, f"its parts end at byte {self._at}, and it at {len(self._data)}"
            )


def damaged_record(record: Path | str, reason: str) -> StoreCorruptedError:
    """Return the error for a record that is not what was written."""
    return StoreCorruptedError(
        f"the recorded commit of a task in {str(record)!r} is damaged: {reason}; put it back from "
        "a copy, or move it away to go on without those parts of the commit that are not in the "
        "changelogs yet"
    )


def write_file(path: Path, content: Mapping[str, Any], parts: Sequence[bytes]) -> None:
    """Write the file *path*, which may be left over from a crash; it is on disk on return.

    Raises:
        StorageError: It cannot be written.
    """
    data = pack_record(content, parts)
    with reporting("write", path), path.open("wb", buffering=0) as file:
        _write_all(file.fileno(), data)
        reach("task.record-written")
        os.fdatasync(file.fileno())


def pack_record(content: Mapping[str, Any], parts: Sequence[bytes]) -> bytes:
    """Return the stored form of a record of *content* and *parts*."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()
    checksum = google_crc32c.value(len(text).to_bytes(4, "big"))
    for piece in (text, *parts):
        checksum = google_crc32c.extend(checksum, piece)
    return b"".join([_HEAD.pack(_MAGIC, checksum, len(text)), text, *parts])


def read_file(path: Path) -> RecordFile | None:
    """Return the file *path*; ``None`` if there is none.

    Raises:
        StoreCorruptedError: It is not what was written.
        StorageError: It cannot be read.
    """
    with reporting("read", path):
        try:
            # A pipe would make the reader wait for ever.
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise damaged_record(path, "it is no file")
            data = file.read()
    return unpack_record(data, path)


def unpack_record(data: bytes, path: Path | str) -> RecordFile:
    """Return the record of which *data*, found at *path*, is the stored form.

    Raises:
        StoreCorruptedError: It is not what was written.
    """
    if len(data) < _HEAD.size:
        raise damaged_record(path, f"it has {len(data)} bytes")
    magic, checksum, length = _HEAD.unpack_from(data)
    if magic != _MAGIC:
        raise damaged_record(path, f"it begins with {magic!r}")
    if google_crc32c.value(data[_CHECKED_FROM:]) != checksum:
        raise damaged_record(path, "its checksum does not match")
    parts_at = _HEAD.size + length
    content = parse_object(data[_HEAD.size : parts_at], repr(str(path)))
    return RecordFile(content, data, parts_at)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
