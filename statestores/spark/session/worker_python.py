"""The Python that Spark's workers run in, which need not be the one of the program."""

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from statestores.errors import MissingDriverError
from statestores.spark.session.name_routing import is_connect

_NEEDED = "google_crc32c, numpy, pyarrow"
"""What the data source imports and `addPyFile` cannot send, since it is compiled."""

_SECONDS = 60


def check_worker_python(spark: Any) -> None:
    """Accept a session whose workers can import what the data source needs.

    Without ``PYSPARK_PYTHON`` Spark takes the first ``python3`` on ``PATH``, also in a program that
    a virtual environment runs. Only the driver's machine is checked, and with Spark Connect
    none.

    Raises:
        MissingDriverError: They cannot.
    """
    if is_connect(spark):
        return
    command = spark.sparkContext.pythonExec
    found = shutil.which(command)
    # Where there is no such file it is one of the executors, or Spark says it well enough. Links
    # are not followed in the name itself: a virtual environment's python is a link.
    if found is None or Path(found).parent.resolve() == Path(sys.executable).parent.resolve():
        return
    reason = _reason_against(found)
    if reason is not None:
        raise MissingDriverError(
            f"Spark's workers run in {command!r}, which is {found!r} here and cannot import what "
            f"statestores needs: {reason}; set the environment variable PYSPARK_PYTHON to "
            f"{sys.executable!r} before the first session is built"
        )


@cache
def _reason_against(python: str) -> str | None:
    """Return why *python* cannot import what is needed; ``None`` if it can."""
    try:
        done = subprocess.run(  # noqa: S603  # what Spark is about to run
            [python, "-c", f"import {_NEEDED}"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    return (done.stderr.strip().splitlines() or [f"it ends with the code {done.returncode}"])[-1]
