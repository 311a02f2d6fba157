"""Where callers say that something lies: a path of this machine, judged before anything is made."""

import os
import re
from os import PathLike
from pathlib import Path

from statestores.errors import InvalidArgumentError, InvalidTypeError

# `Path` folds the slashes of a URL into one. A single letter would be a drive of Windows.
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


def local_path(path: str | PathLike[str], what: str = "path") -> Path:
    """Return *path* as a `Path`; *what* names the argument in messages.

    Raises:
        InvalidTypeError: It is neither a ``str`` nor a path-like object of one.
        InvalidArgumentError: It is a URL, or has a NUL character, which no path has.
    """
    text: object = path if isinstance(path, str) else None
    if isinstance(path, PathLike):
        text = os.fspath(path)
    if not isinstance(text, str):
        raise InvalidTypeError(f"{what} must be a str or a PathLike of one, got {path!r}")
    if "\0" in text:
        raise InvalidArgumentError(f"{what} has a NUL character, which no path has, got {text!r}")
    if url := _URL.match(text):
        advice = (
            "give the path without its scheme"
            if url[1].lower() == "file"
            else "object stores and other file systems are not supported; mount it"
        )
        raise InvalidArgumentError(
            f"{what} must be a path of a local or mounted file system, got {text!r}; {advice}"
        )
    return Path(text)
