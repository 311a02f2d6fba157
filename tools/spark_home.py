"""A Spark home whose Python processes find PySpark's bytecode: links beside the environment.

``python tools/spark_home.py`` writes it and prints where it is. Spark puts the sources of PySpark,
an archive in its home without any bytecode, before all else on the path of the Python processes
that it starts. Each of them compiles what it imports: more than a second of the processor, in each
of the five or six daemons of a session and in each process that reads a stream. In a home without
the archive they import the installed package, which is the same one.
"""

import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

_LINKED = ("bin", "jars", "sbin")
"""What Spark needs of its home; not ``python``, where the archive is."""


def spark_home() -> Path | None:
    """Return the home in this environment, made if need be; ``None`` without PySpark."""
    installed = find_spec("pyspark")
    if installed is None or installed.origin is None:
        return None
    home = Path(sys.prefix) / "spark-home"
    home.mkdir(exist_ok=True)
    for name in _LINKED:
        # Several processes may begin at once.
        with suppress(FileExistsError):
            (home / name).symlink_to(Path(installed.origin).parent / name)
    return home


if __name__ == "__main__":
    print(spark_home())
