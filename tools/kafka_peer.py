"""Run a program of ``kafka/streams``: ``kafka_peer.py [--measured] PROGRAM [ARGUMENT...]``.

Needs a JDK 17 or newer, and Maven, which brings the jars by their coordinates. The program is
compiled once, into ``build/kafka``; its standard input and output are this one's. Java starts fast
and stays small, as tests want it; with ``--measured`` it has its own defaults, every compiler and
two gigabytes, as a fair comparison wants it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from kafka_broker import BUILD, JVM, LOGGING, java, kafka_libraries
from maven_libraries import UnavailableError, alone

_MEASURED = ("-Xmx2g",)
# The compiler lives for seconds, too, and compiles itself half of that if it is let.
_COMPILER = ("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC")
_SOURCES = Path(__file__).resolve().parent / "kafka" / "streams"


def compiled(jars: Path) -> Path:
    """Return the directory of the compiled programs.

    Raises:
        UnavailableError: There is no compiler.
    """
    made, sources = BUILD / "streams-classes", sorted(_SOURCES.glob("*.java"))
    newest = max(each.stat().st_mtime for each in (*sources, jars))
    with alone(made):
        if not made.is_dir() or made.stat().st_mtime < newest:
            compiler = shutil.which("javac")
            if compiler is None:
                raise UnavailableError("Kafka Streams' programs need a JDK; there is no javac")
            made.mkdir(exist_ok=True)
            subprocess.run(  # noqa: S603  # our own programs
                [compiler, *_COMPILER, "-d", str(made), "-cp", f"{jars}/*", *map(str, sources)],
                check=True,
            )
            made.touch()
    return made


def main() -> None:
    """Become the program."""
    arguments = sys.argv[1:]
    measured = arguments[:1] == ["--measured"]
    program = arguments[1:] if measured else arguments
    if not program:
        sys.exit("usage: kafka_peer.py [--measured] PROGRAM [ARGUMENT...]")
    try:
        jars = kafka_libraries("streams")
        options = _MEASURED if measured else JVM
        command = [java(), *options, LOGGING, "-cp", f"{compiled(jars)}:{jars}/*"]
    except UnavailableError as error:
        sys.exit(str(error))
    os.execv(command[0], [*command, *program])  # noqa: S606  # Java


if __name__ == "__main__":
    main()
