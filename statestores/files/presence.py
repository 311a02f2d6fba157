"""Whether something is there: what cannot be told is an error, not an absence."""

import errno
import os
from pathlib import Path

from statestores.errors import StorageError


def look_for(path: Path, *, follow_links: bool = True) -> os.stat_result | None:
    """Return what the operating system knows of *path*; ``None`` when there is nothing.

    A link that leads nowhere is nothing, unless it is not followed.

    Raises:
        StorageError: It cannot be told: a directory on the way cannot be looked into, or the disk
            has failed.
    """
    try:
        return path.stat(follow_symlinks=follow_links)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if follow_links and error.errno == errno.ELOOP:
            return None
        raise StorageError(
            f"cannot look for {str(path)!r}: {error.strerror or error}; check the path, the rights "
            "and the disk"
        ) from error
