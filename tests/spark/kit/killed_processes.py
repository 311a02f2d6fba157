"""Programs that are run to be killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType


def end_a_program(
    program: ModuleType, log: Path, *arguments: str, after_seconds: float | None = None
) -> bool:
    """Run *program*, and kill it and its Java after a while; return whether it was killed at all.

    That it may have done itself. Its words are in *log*, and shown if it fails.
    """
    assert program.__file__ is not None
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [sys.executable, program.__file__, *arguments],
            start_new_session=True,
            stdout=output,
            stderr=output,
        ) as process,
    ):
        try:
            code = process.wait(after_seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
    assert code in {0, -signal.SIGKILL}, log.read_text("utf-8", "replace")
    return code != 0
