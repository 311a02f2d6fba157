"""What a kill would leave of an open engine: its files, copied while it is at rest.

An engine may remove and rename files on threads of its own, as compactions do. A copy that meets
this misses a file, or has those of two moments, which no kill leaves.
"""

import shutil
import time
from pathlib import Path

_ATTEMPTS = 100
_PAUSE_SECONDS = 0.02


def killed_copy(engine: Path, to: Path) -> Path:
    """Copy the directory of an open *engine* to the new directory *to*, and return that.

    It is copied anew until its files have the same names before and after.

    Raises:
        OSError, shutil.Error: It cannot be copied, or its files change all the time.
    """
    for left in reversed(range(_ATTEMPTS)):
        before = _names(engine)
        try:
            shutil.copytree(engine, to)
        except (OSError, shutil.Error):
            if not left or before == _names(engine):
                raise
        else:
            if before == _names(engine) or not left:
                break
        shutil.rmtree(to, ignore_errors=True)
        time.sleep(_PAUSE_SECONDS)
    return to


def _names(directory: Path) -> set[Path]:
    return set(directory.rglob("*"))
