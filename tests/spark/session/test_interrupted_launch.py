"""A start of Spark that is interrupted leaves no JVM behind."""

import os
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pyspark
import pytest
from forked_programs import Forked
from interrupts import hear_interrupts

_SLEEP = ("/usr/bin/env", "sleep")
_COMMAND = """
import os, sys
os.environ["SPARK_HOME"] = sys.argv.pop(1)
from statestores.cli import main
main()
"""


def _submit(directory: Path, then: str) -> Path:
    """Make a home of Spark in *directory* that notes its process, and then does *then*."""
    script = directory / "bin" / "spark-submit"
    script.parent.mkdir(parents=True)
    noted = directory / "process"
    script.write_text(f'#!/bin/sh\necho $$ > "{noted}.new"\nmv "{noted}.new" "{noted}"\n{then}\n')
    script.chmod(0o755)
    return noted


def _is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("number", "of_spark"),
    [
        (signal.SIGINT, False),
        (signal.SIGTERM, False),
        pytest.param(signal.SIGINT, True, marks=pytest.mark.long),
    ],
    ids=lambda each: each.name if isinstance(each, signal.Signals) else f"of_spark={each}",
)
def test_an_interrupted_start_leaves_no_process(
    tmp_path: Path, number: signal.Signals, *, of_spark: bool
) -> None:
    """A user pressed Control-C some seconds after `import-spark`, and its JVM stayed for ever.

    A JVM of Spark's ends when its standard input does, and begins to read there once it has written
    down where it is found. PySpark had removed the directory for that, for it was interrupted while
    it waited: the JVM's main thread died of it, and those that listen for Python lived on. Now the
    process that is being started is ended first, and waited for.
    """
    home = Path(pyspark.__path__[0])
    submit = shlex.quote(str(home / "bin" / "spark-submit"))
    real = f'export SPARK_HOME={shlex.quote(str(home))}\nexec {submit} "$@"'
    noted = _submit(tmp_path / "spark", real if of_spark else "exec sleep 600")
    with Forked(_COMMAND, tmp_path / "spark", "import-spark", "nothing", "--list") as program:
        while not noted.exists() and program.is_running():
            time.sleep(0.05)
        started = int(noted.read_text())
        os.kill(program.process, number)
        try:
            code = program.wait()
            is_left = _is_there(started)
        finally:
            if _is_there(started):
                os.kill(started, signal.SIGKILL)
        told = program.errors()

    assert code == 128 + number
    assert not is_left
    assert "Traceback" not in told


def test_programs_of_tests_in_the_background_can_be_interrupted() -> None:
    """``pytest … &`` never came to an end: the program above did not hear what it was sent.

    The shell had SIGINT ignored, which each program inherits until one handles it.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        hear_interrupts()
        with subprocess.Popen((*_SLEEP, "60")) as program:
            program.send_signal(signal.SIGINT)
            code = program.wait()
    finally:
        signal.signal(signal.SIGINT, before)

    assert code == -signal.SIGINT
