"""Files that survive, files checked by their sum, and failures in the words of our tree."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import google_crc32c

from statestores.errors import StateStoreError, StorageError

_CHUNK_BYTES = 1024 * 1024


@contextmanager
def reporting(action: str, path: Path) -> Iterator[None]:
    """Turn what the operating system refuses inside the block into `StorageError`.

    Arrow reports it as ``OSError`` as well. An error of our own tree passes: some of them are
    ``OSError`` too.
    """
    try:
        yield
    except StateStoreError:
        raise
    except OSError as error:
        raise StorageError(
            f"cannot {action} {str(path)!r}: {error.strerror or error}; check the path, the "
            "rights and the space on the disk"
        ) from error


def checksum_of(path: Path) -> int:
    """Return the CRC32C of the file *path*.

    Read and not mapped: mapped pages count as memory of the process, a whole file of them.
    """
    checksum = 0
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(_CHUNK_BYTES):
            checksum = google_crc32c.extend(checksum, chunk)
    return checksum


def make_durable(path: Path) -> None:
    """Wait until the file or directory *path* is on disk (ASM-1)."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_durably(path: Path, data: bytes) -> None:
    """Write *data* into the new file *path* and wait until it is on disk."""
    path.write_bytes(data)
    make_durable(path)
