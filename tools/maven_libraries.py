"""Bring the jars of a ``pom.xml`` by their coordinates, once: ``maven_libraries.py POM DIRECTORY``.

Prints the directory when they are there. Needs Maven. Whatever follows goes to Maven, such as
``-Dhadoop.version=3.5.0``.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


_LIVES_SHORT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Of a Java that lives for seconds: compiling well takes it half of its processor time."""


class UnavailableError(Exception):
    """The machine lacks something; the message says what."""


def libraries(pom: Path, known: Path, *arguments: str) -> Path:
    """Return *known*, the directory of the jars of *pom*, once they are there.

    Raises:
        UnavailableError: Maven is missing, or cannot get them.
    """
    with alone(known):
        if known.is_dir() and known.stat().st_mtime >= pom.stat().st_mtime:
            return known
        maven = shutil.which("mvn")
        if maven is None:
            raise UnavailableError(f"the jars of {pom} come through Maven; there is no mvn")
        fresh = known.with_name(f"{known.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        said = subprocess.run(  # noqa: S603  # Maven, with our own pom
            [
                *(maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"),
                *(f"-DoutputDirectory={fresh}", *arguments),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            env={"MAVEN_OPTS": _LIVES_SHORT, **os.environ},
        )
        if said.returncode:
            raise UnavailableError(f"Maven could not get the jars of {pom}: {said.stdout}")
        shutil.rmtree(known, ignore_errors=True)
        fresh.touch()
        fresh.rename(known)
    return known


@contextmanager
def alone(made: Path) -> "Iterator[None]":
    """Let one process at a time make *made*, a file or directory."""
    made.parent.mkdir(parents=True, exist_ok=True)
    with made.with_name(f"{made.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    try:
        print(libraries(Path(sys.argv[1]), Path(sys.argv[2]).absolute(), *sys.argv[3:]))
    except UnavailableError as error:
        sys.exit(str(error))
