"""What the operating system refuses, as errors of our own tree."""

from pathlib import Path

from statestores.errors import StateStoreError, StorageError


def storage_error(action: str, path: Path, error: OSError) -> StorageError:
    """Return the `StorageError` that says what could not be done to *path*."""
    return StorageError(f"cannot {action} {str(path)!r}: {reason(path, error)}")


def reason(path: Path, error: OSError) -> str:
    """Return why the operating system refused *path*, and what to do about it.

    Where a file is in the way of a directory, the system says "File exists" or "Not a directory",
    and not of which: that is looked for. It says the same of a link that leads nowhere.
    """
    if isinstance(error, FileExistsError | NotADirectoryError):
        for each in (path, *path.parents):
            if each.is_file():
                return f"{str(each)!r} is a file, and a directory is needed there; give another one"
            if each.is_symlink() and not each.exists():
                meant = str(each.readlink())
                return (
                    f"{str(each)!r} is a link to {meant!r}, which is not there; make that "
                    "directory, or give another one"
                )
    return f"{error.strerror or error}; check the path, the rights and the space on the disk"


class reporting:  # noqa: N801  # a block's, as contextlib's are; a generator's costs thrice
    """Turn an ``OSError`` inside the block into `StorageError`.

    Two kinds pass: errors of our own tree, and ``FileNotFoundError``, which a reader answers by
    looking again, since compaction and deletion remove segments.
    """

    __slots__ = ("_action", "_path")

    def __init__(self, action: str, path: Path) -> None:
        self._action, self._path = action, path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError) and not isinstance(
            error, StateStoreError | FileNotFoundError
        ):
            raise storage_error(self._action, self._path, error) from error
