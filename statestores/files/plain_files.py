"""A check of an engine's files before its driver opens them."""

import os
from pathlib import Path

from statestores.errors import StorageError


def check_plain_files(directory: Path, *others: str) -> None:
    """Accept a *directory* that has only files and directories, or is not there.

    *others* are names that its owner checks before opening them.

    A driver that opens a pipe waits for whoever writes into it, and one that reads a device may
    never come to its end.

    Raises:
        StorageError: There is something else, or the directory cannot be read.
    """
    try:
        with os.scandir(directory) as entries:
            strange = [
                each.path
                for each in entries
                # A link to nothing is for the driver to judge.
                if not (each.is_file() or each.is_dir())
                and each.name not in others
                and Path(each.path).exists()
            ]
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError(
            f"cannot read the files in {str(directory)!r}: {error.strerror or error}; check the "
            "rights and the disk"
        ) from error
    if strange:
        raise StorageError(
            f"{strange[0]!r} is neither a file nor a directory; put the engine's own file back, or "
            "remove it and restore the store from its changelog or a snapshot"
        )
