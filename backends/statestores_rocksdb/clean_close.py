"""A seal on a database that was closed cleanly, checked when it is opened again.

RocksDB reads its manifest as it reads a log after a crash: what is cut off at its end is forgotten,
and the table files that it would have named are *deleted*. Of 25 manifests that were cut at random
after a clean close, 8 opened with an older content and no error. The seal tells the two apart: it
is written after the last byte of the database, and holds the length and checksum of the manifest.

After a crash there is nothing to compare. Nothing is compared either when the seal itself is
unreadable: it is not forced to the disk, so a power failure soon after closing may leave it empty.
"""

import json
import zlib
from pathlib import Path

from statestores.errors import StorageError, StoreCorruptedError

SEAL = "CLOSED.json"


def seal(directory: Path) -> None:
    """Write the seal of the database in *directory*. Requires: it has been closed.

    Raises:
        StorageError: The seal cannot be written.
    """
    try:
        manifest = directory / (directory / "CURRENT").read_text().strip()
        draft = directory / f"{SEAL}.new"
        draft.write_text(json.dumps(_describe(manifest)))
        draft.replace(directory / SEAL)
    except OSError as error:
        raise StorageError(
            f"cannot write {str(directory / SEAL)!r}: {error.strerror or error}; check the disk's "
            "space and the rights"
        ) from error


def check_seal(directory: Path) -> None:
    """Compare the manifest with its seal, if there is one; nothing is changed.

    Raises:
        StoreCorruptedError: They differ.
        OSError: They cannot be read.
    """
    if not (directory / SEAL).is_file():  # nor a pipe: reading it would wait
        return
    try:
        sealed = json.loads((directory / SEAL).read_bytes())
        current = (directory / "CURRENT").read_text(errors="replace").strip()
        if not isinstance(sealed, dict) or sealed.get("manifest") != current:
            return
        content = (directory / current).read_bytes()
    except (FileNotFoundError, ValueError, RecursionError):
        # No seal, or an unreadable one, or a file that RocksDB will miss as well.
        return
    # A thread of RocksDB may have gone on after the close: what it appended has its own checksums.
    length = sealed.get("bytes")
    whole = type(length) is int and 0 <= length <= len(content)
    if not whole or sealed.get("crc32") != zlib.crc32(content[:length]):
        raise StoreCorruptedError(
            f"{current} in {str(directory)!r} is not what it was when the database was closed "
            f"({len(content)} bytes now, {length!r} then); put it back, or restore "
            "the store from its changelog or a snapshot"
        )


def break_seal(directory: Path) -> None:
    """Remove the seal of a database that has been opened.

    RocksDB begins a new manifest at each opening, so a seal that outlives a crash here names a
    different one and is ignored.

    Raises:
        StorageError: It cannot be removed.
    """
    try:
        (directory / SEAL).unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(
            f"cannot remove {str(directory / SEAL)!r}: {error.strerror or error}; check the rights"
        ) from error


def _describe(manifest: Path) -> dict[str, str | int]:
    """Return the name, length and checksum of *manifest*."""
    content = manifest.read_bytes()
    return {"manifest": manifest.name, "bytes": len(content), "crc32": zlib.crc32(content)}
