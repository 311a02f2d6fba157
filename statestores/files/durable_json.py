"""Small JSON files that are either as they were or as they should be, never in between."""

import json
import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from statestores.errors import StorageError, StoreCorruptedError, UnsupportedFormatError
from statestores.failpoints import reach
from statestores.files.durable_directory import make_durable
from statestores.files.strict_json import Fields, parse_object

ROOT_FILE = "statestores.json"
"""The file by which a state root is recognised."""

ENGINE_FILE = "engine.json"
"""The file by which the directory of one partition's engine is recognised."""

MAX_FILE_BYTES = 256 * 1024 * 1024
"""A larger file is not one of ours: the longest, a staged write's intent, has 200 bytes for a
file."""


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in the file *path*; ``None`` when there is no such file.

    Raises:
        StoreCorruptedError: The file is not a JSON object, or not one that `strict_json` accepts.
        StorageError: It cannot be read.
    """
    data = read_text(path)
    return None if data is None else parse_object(data, repr(str(path)))


def read_text(path: Path) -> bytes | None:
    """Return what is in the small file *path*; ``None`` when there is no such file.

    Raises:
        StoreCorruptedError: It is no file, or too large for one of ours.
        StorageError: It cannot be read.
    """
    try:
        # A pipe would make the reader wait for ever, if opening it did not already.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StorageError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    try:
        about = os.fstat(descriptor)
        readable = stat.S_ISREG(about.st_mode) and about.st_size <= MAX_FILE_BYTES
        data = b""
        if readable:
            # Not up to the limit at once: Python would ask the system for as much memory.
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                data = file.read(about.st_size + 1)
                if len(data) > about.st_size:  # it has grown since
                    data += file.read(MAX_FILE_BYTES - len(data))
    except OSError as error:
        raise StorageError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    finally:
        os.close(descriptor)
    if not readable:
        raise StoreCorruptedError(
            f"{str(path)!r} must be a file of up to {MAX_FILE_BYTES:,} bytes, got "
            f"{stat.filemode(about.st_mode)} of {about.st_size:,}"
        )
    return data


def read_fields(path: Path) -> Fields | None:
    """Return the fields of the JSON object in the file *path*; ``None`` when there is no file.

    Raises:
        StoreCorruptedError, StorageError: As `read_json`.
    """
    content = read_json(path)
    return None if content is None else Fields(content, repr(str(path)))


def check_format(fields: Fields, path: Path | str, *known: int) -> int:
    """Return the format version that what is at *path* says it has, one of those *known*.

    Raises:
        StoreCorruptedError: It says none.
        UnsupportedFormatError: It is from a later release.
    """
    version = fields.integer("format")
    if version not in known:
        raise UnsupportedFormatError(
            f"{str(path)!r} has format {version}, and this release knows "
            f"{' and '.join(map(str, known))}; upgrade statestores"
        )
    return version


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Replace the file *path* with *content*, atomically and durably (ASM-2).

    Raises:
        StorageError: The directory cannot be written, or the file would be too large to read.
    """
    text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    data = text.encode("utf-8")
    if len(data) > MAX_FILE_BYTES:
        raise StorageError(
            f"cannot write {str(path)!r}: it would have {len(data):,} bytes, and readers take up "
            f"to {MAX_FILE_BYTES:,}"
        )
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            reach("json.written")
            os.fsync(file.fileno())
        reach("json.durable")
        temporary.replace(path)
        reach("json.renamed")
        make_durable(path.parent)
    except OSError as error:
        with suppress(OSError):  # the reason is raised, and a name like this one is never read
            temporary.unlink()
        raise StorageError(f"cannot write {str(path)!r}: {error.strerror or error}") from error


def is_left_behind(name: str, of: str) -> bool:
    """Return whether *name* is that of a file that a writer of the file *of* left when it died."""
    return re.fullmatch(rf"\.{re.escape(of)}\.[0-9a-f]{{8}}\.tmp", name) is not None
