"""Where callers say that something is: a path on this machine, judged before anything is made."""

import errno
import os
import re
from os import PathLike
from pathlib import Path

from statestores.errors import InvalidArgumentError, InvalidTypeError, StorageError

# `Path` folds the slashes of a URL into one. A single letter would be a Windows drive.
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


_OTHER_NAMES = {
    "s3a": "s3",
    "s3n": "s3",
    "gcs": "gs",
    "abfs": "az",
    "abfss": "az",
    "wasb": "az",
    "wasbs": "az",
    "azure": "az",
}
"""What Hadoop and others call the schemes of object stores."""


def local_path(path: str | PathLike[str], what: str = "path") -> Path:
    """Return *path* as an absolute `Path`; *what* names the argument in messages.

    A relative one is that of the call: files that are made later go to the same place, wherever the
    process has changed to by then (ENG-49).

    Raises:
        InvalidTypeError: It is neither a ``str`` nor a path-like object of one.
        InvalidArgumentError: It is empty, which would be the working directory, is a URL, has a NUL
            character, which no path has, or is not UTF-8 and so not accepted by Arrow and the
            engines' drivers; or the file system takes none that is as long.
        StorageError: It is relative to a working directory that is gone.
    """
    text: object = path if isinstance(path, str) else None
    if isinstance(path, PathLike):
        text = os.fspath(path)
    if not isinstance(text, str):
        raise InvalidTypeError(f"{what} must be a str or a PathLike of one, got {path!r}")
    if not text:
        raise InvalidArgumentError(
            f"{what} is empty; say '.' if the working directory is meant, and look for a variable "
            "that is not set if it is not"
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(
            f"{what} must be text that is UTF-8, got {text!r}; rename the directory"
        ) from error
    if "\0" in text:
        raise InvalidArgumentError(f"{what} has a NUL character, which no path has, got {text!r}")
    if url := _URL.match(text):
        scheme = url[1].lower()
        if scheme == "file":
            advice = "give the path without its scheme"
        elif other := _OTHER_NAMES.get(scheme):
            advice = f"an object store's scheme is {other!r} here (docs/object-stores.md)"
        else:
            advice = (
                "only StateRoot and open_logged_store() take the URL of an object store "
                "(docs/object-stores.md); give a path, or mount it"
            )
        raise InvalidArgumentError(
            f"{what} must be a path of a local or mounted file system, got {text!r}; {advice}"
        )
    _refuse_too_long(text, what)
    return _anchored(path if isinstance(path, Path) else Path(text), what)


def _anchored(path: Path, what: str) -> Path:
    """Return *path* so that it means the same after the working directory has changed.

    Nothing else of it changes: links and ``..`` are for the file system to follow.

    Raises:
        StorageError: It is relative to a working directory that is gone.
    """
    try:
        return path.absolute()
    except OSError as error:
        raise StorageError(
            f"{what} is relative, and the working directory cannot be told: "
            f"{error.strerror or error}; give an absolute path, got {str(path)!r}"
        ) from error


def _refuse_too_long(path: str, what: str) -> None:
    """Accept a *path* that its file system can have, whatever is there.

    Raises:
        InvalidArgumentError: No path may be so long, or no name.
    """
    try:
        os.lstat(path)
    except OSError as error:  # any other is said by whoever makes or opens what is there
        if error.errno == errno.ENAMETOOLONG:
            encoded = path.encode()
            raise InvalidArgumentError(
                f"{what} is too long for its file system, with {len(encoded):,} bytes, of which "
                f"the longest name has {max(map(len, encoded.split(b'/'))):,}; give a shorter one, "
                f"got {path!r}"
            ) from error


def engine_directory(path: str | PathLike[str]) -> Path:
    """Return *path*, the directory of an engine, judged as `local_path` does.

    Raises:
        StorageError: It is empty: that would be the working directory, which nobody asked for.
        InvalidTypeError, InvalidArgumentError: As `local_path`.
    """
    if path == "":
        raise StorageError("the path of an engine is empty; expected a directory")
    return local_path(path, "the directory of an engine")
