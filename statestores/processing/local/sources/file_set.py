"""Which files a source has: one, those of a directory, or those of a pattern."""

import glob
import os
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from statestores.errors import InvalidArgumentError, StorageError
from statestores.files.local_path import local_path


class FoundFile(NamedTuple):
    """A file as it was seen."""

    name: str
    """Its path from the directory that does not change: the file's name in state and messages."""

    path: Path
    """Where it is."""

    size: int
    """Bytes."""

    mtime_ns: int
    """When it was written last."""

    ctime_ns: int
    """When anything of it changed last, its rights included."""


class FileSet:
    """Looks for files, in the order of their names."""

    def __init__(self, path: str | PathLike[str], suffixes: Sequence[str]) -> None:
        """Look at *path*: a file, a directory (of files with one of *suffixes*), or a pattern.

        Raises:
            InvalidTypeError, InvalidArgumentError: It is no path, or nothing is there.
        """
        self._path = local_path(path, "a source's path")
        self._suffixes = tuple(suffixes)
        text = str(self._path)
        self._pattern = text if glob.has_magic(text) else None
        if self._pattern is not None:
            parts = self._path.parts
            fixed = next(place for place, part in enumerate(parts) if glob.has_magic(part))
            self.base = Path(*parts[:fixed]) if fixed else Path()
        else:
            self.base = self._path if self._path.is_dir() else self._path.parent
        if not self._path.exists() if self._pattern is None else not self.base.is_dir():
            wanted = self._path if self._pattern is None else self.base
            raise InvalidArgumentError(
                f"there is no {str(wanted)!r} to read; make it first, or check the path"
            )

    def look(self) -> list[FoundFile]:
        """Return the files that are there now.

        In a directory, files whose names begin with ``.`` or ``_`` are none of them: that is how
        programs call what they have not finished.

        Raises:
            StorageError: The directory cannot be read.
        """
        try:
            names = sorted(self._names())
        except OSError as error:
            raise StorageError(
                f"cannot look for files in {str(self.base)!r}: {error.strerror or error}"
            ) from error
        found = []
        for name in names:
            path = self.base / name
            try:
                about = path.stat()
            except FileNotFoundError:
                continue  # gone since the directory was read
            except OSError as error:
                raise StorageError(
                    f"cannot look at {str(path)!r}: {error.strerror or error}"
                ) from error
            if path.is_file():
                found.append(
                    FoundFile(name, path, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
                )
        return found

    def _names(self) -> list[str]:
        if self._pattern is not None:
            found = glob.glob(self._pattern, recursive=True)  # noqa: PTH207  # `**` as shells have it
            return [os.path.relpath(each, self.base) for each in found]
        if self._path.is_dir():
            return [
                entry.name
                for entry in os.scandir(self._path)
                if entry.name.endswith(self._suffixes) and entry.name[0] not in "._"
            ]
        return [self._path.name]
