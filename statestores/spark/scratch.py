"""Where a task may put files that nobody needs when it has ended."""

import os
import tempfile
from typing import Final

_LOCAL_DIRECTORIES: Final = "SPARK_LOCAL_DIRS"
"""What Spark tells a worker of its scratch directories, which it removes with the application."""


def scratch_place() -> str:
    """Return the first of Spark's scratch directories, or the system's."""
    return os.environ.get(_LOCAL_DIRECTORIES, "").split(",")[0] or tempfile.gettempdir()
