"""Small JSON files that are either as they were or as they should be, never in between."""

import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from statestores.errors import StorageError, StoreCorruptedError
from statestores.failpoints import reach


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in the file *path*; ``None`` when there is no such file.

    Raises:
        StoreCorruptedError: The file is no JSON object.
        StorageError: It cannot be read.
    """
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StorageError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    try:
        content = json.loads(data)
    except ValueError as error:
        raise StoreCorruptedError(f"{str(path)!r} is no JSON: {error}") from error
    if not isinstance(content, dict):
        raise StoreCorruptedError(f"{str(path)!r} must be a JSON object, got {content!r}")
    return content


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Replace the file *path* by *content*, atomically and durably (ASM-2).

    Raises:
        StorageError: The directory cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
    try:
        with temporary.open("x", encoding="utf-8") as file:
            json.dump(content, file, indent=2, sort_keys=True, ensure_ascii=False)
            file.write("\n")
            file.flush()
            reach("json.written")
            os.fsync(file.fileno())
        reach("json.durable")
        temporary.replace(path)
        reach("json.renamed")
        descriptor = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        with suppress(OSError):  # the reason is told, and a name like this one is never read
            temporary.unlink()
        raise StorageError(f"cannot write {str(path)!r}: {error.strerror or error}") from error


def is_left_behind(name: str, of: str) -> bool:
    """Return whether *name* is that of a file that a writer of the file *of* left when it died."""
    return re.fullmatch(rf"\.{re.escape(of)}\.[0-9a-f]{{8}}\.tmp", name) is not None
