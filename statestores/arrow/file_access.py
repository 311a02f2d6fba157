"""Files that survive, files checked by their sum, and failures as errors of our own tree."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import google_crc32c

from statestores.errors import StateStoreError, StorageError
from statestores.files.durable_directory import make_durable

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
    whole, _ = checksums_of(path, ())
    return whole


def checksums_of(path: Path, parts: Sequence[tuple[int, int]]) -> tuple[int, list[int]]:
    """Return the CRC32C of the file *path*, and those of its *parts*, in one pass.

    A part is its first byte and the byte after its last; parts ascend and do not overlap.
    """
    whole = 0
    sums = [0] * len(parts)
    at = 0
    cuts = [*(cut for part in parts for cut in part), None]
    with path.open("rb", buffering=0) as file:
        for number, cut in enumerate(cuts):
            while cut is None or at < cut:
                length = _CHUNK_BYTES if cut is None else min(_CHUNK_BYTES, cut - at)
                chunk = file.read(length)
                if not chunk:
                    break
                at += len(chunk)
                whole = google_crc32c.extend(whole, chunk)
                if number % 2:
                    part = number // 2
                    sums[part] = google_crc32c.extend(sums[part], chunk)
    return whole, sums


def write_durably(path: Path, data: bytes) -> None:
    """Write *data* into the new file *path* and wait until it is on disk."""
    path.write_bytes(data)
    make_durable(path)
