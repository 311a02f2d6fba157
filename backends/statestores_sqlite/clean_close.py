"""A seal on a file that was closed cleanly, checked when it is opened again.

Row checksums reveal rows that were changed. They say nothing about one that is gone: a flipped bit
in a page can hide a row, or a branch of the tree, while every row that is left is right. The seal
is written after the last byte of the file, and holds its length and checksum.

There is nothing to compare after a crash. Then the structure of the file and each row are checked.
"""

import json
import os
import zlib
from contextlib import suppress
from pathlib import Path

from statestores.errors import StoreCorruptedError

SEAL = "CLOSED.json"
_CHUNK_BYTES = 1024 * 1024


def seal(file: Path) -> None:
    """Write the seal of *file*. Requires: its last connection is closed.

    None is written beside a log, which another program keeps, and none on a full disk: the next
    opening then looks at everything.
    """
    seal_file = file.with_name(SEAL)
    with suppress(OSError):
        if _has_log(file):
            return
        draft = seal_file.with_suffix(".new")
        draft.write_text(json.dumps(_describe(file)))
        draft.replace(seal_file)


def is_sealed(file: Path) -> bool:
    """Compare *file* with its seal; return whether there was one. Nothing is changed.

    Raises:
        StoreCorruptedError: They differ.
        OSError: They cannot be read.
    """
    seal_file = file.with_name(SEAL)
    try:
        if _has_log(file) or not seal_file.is_file():  # nor a pipe: reading it would wait
            return False
        sealed = json.loads(seal_file.read_bytes())
        found = _describe(file)
    except (FileNotFoundError, ValueError, RecursionError):
        return False  # there is none, or it is unreadable: it is not forced to the disk
    if not isinstance(sealed, dict) or sealed.keys() != found.keys():
        return False
    if sealed != found:
        raise StoreCorruptedError(
            f"{str(file)!r} is not what it was when it was closed ({found['bytes']} bytes now, "
            f"{sealed['bytes']!r} then); put it back, or restore the store from its changelog or a "
            "snapshot"
        )
    return True


def break_seal(file: Path) -> None:
    """Remove the seal of *file*, durably: after a power failure it would deny what was written.

    Raises:
        OSError: It cannot be removed.
    """
    directory = None
    try:
        # Before the rest, so that a process without files to open leaves the seal where it is.
        directory = os.open(file.parent, os.O_RDONLY)
        file.with_name(SEAL).unlink()
        os.fsync(directory)
    except FileNotFoundError:
        return
    finally:
        if directory is not None:
            os.close(directory)


def _has_log(file: Path) -> bool:
    try:
        return file.with_name(f"{file.name}-wal").stat().st_size > 0
    except FileNotFoundError:
        return False


def _describe(file: Path) -> dict[str, int]:
    """Return the length and checksum of *file*."""
    length = checksum = 0
    with file.open("rb", buffering=0) as opened:
        while chunk := opened.read(_CHUNK_BYTES):
            checksum = zlib.crc32(chunk, checksum)
            length += len(chunk)
    return {"bytes": length, "crc32": checksum}
