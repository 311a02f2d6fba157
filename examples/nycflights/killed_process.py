"""Running a program that says how far it is, and killing it on its way."""

import random
import subprocess
import sys
import time
from pathlib import Path

from figures import Advance

_LONGEST_DELAY_SECONDS = 0.05  # about as long as a commit or two take


def run_until_killed(program: Path, arguments: list[str], kill_at: int, advance: Advance) -> int:
    """Start *program*, kill it soon after it has reported *kill_at* rows; return these.

    It prints how many rows it has committed, a number in each line. It works on until the signal
    arrives, so the kill falls anywhere within its next commits.

    Raises:
        RuntimeError: It ended by itself before that.
    """
    with _started(program, arguments) as process:
        reported = 0
        for line in process.stdout or ():
            advance(int(line) - reported)
            reported = int(line)
            if reported >= kill_at:
                time.sleep(random.uniform(0, _LONGEST_DELAY_SECONDS))  # noqa: S311  # no secret
                process.kill()
                break
        else:
            raise RuntimeError(f"{program.name} ended by itself with {process.wait()}")
    return reported


def run_to_the_end(program: Path, arguments: list[str], advance: Advance) -> int:
    """Start *program*, and return how many rows it has reported when it ends.

    Raises:
        RuntimeError: It failed.
    """
    with _started(program, arguments) as process:
        reported = 0
        for line in process.stdout or ():
            advance(int(line) - reported)
            reported = int(line)
    if process.returncode:
        raise RuntimeError(f"{program.name} failed with {process.returncode}")
    return reported


def _started(program: Path, arguments: list[str]) -> subprocess.Popen[str]:
    command = [sys.executable, str(program), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603  # ours
