"""The broker of the tests: one process of tools/kafka_broker.py, which ends with its last user."""

import fcntl
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from maven_libraries import alone

_PROGRAM = Path(__file__).parents[3] / "tools" / "kafka_broker.py"


class UnavailableBrokerError(Exception):
    """The machine lacks what a broker needs; the message says what."""


class BrokerProcess:
    """A broker, to be killed and started again; it keeps its address and its data."""

    def __init__(self, directory: Path, *, controller_apart: bool = False) -> None:
        """Start it; one that is to be killed has its controller apart, else more listeners."""
        self.directory = directory / "broker"
        directory.mkdir(parents=True, exist_ok=True)
        self._start("--controller-apart" if controller_apart else "--listeners", subprocess.PIPE)
        self._take(self._line())

    def _start(self, option: str, requests: int) -> None:
        """Start the program, which ends when nobody can write to *requests* any more."""
        self._errors = self.directory.parent / "errors"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, str(_PROGRAM), str(self.directory), option],
                stdin=requests,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def _take(self, addresses: str) -> None:
        self.address, *more = addresses.split()
        if more:
            self.tls_address, self.sasl_address, self.proxy_address, self.behind_address = more

    def ask(self, command: str) -> None:
        """Have it do *command*: ``kill``, ``stop`` or ``start``."""
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        assert self._line() == "done"

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            self._process.communicate()
            raise UnavailableBrokerError(self._errors.read_text("utf-8", "replace").strip())
        return line

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.communicate()


class SharedBroker(BrokerProcess):
    """A broker of several workers: the first one starts it, and it ends when the last one leaves.

    Each of them can write to its standard input, which a kernel closes that ends a worker.
    """

    def __init__(self, place: Path) -> None:
        """Join who uses the broker of *place*, a directory; start one where nobody does."""
        place.mkdir(parents=True, exist_ok=True)
        self._place = place
        self._started = False
        addresses = place / "addresses"
        with ExitStack() as joined, alone(place / "using"):
            users = joined.enter_context((place / "users").open("w"))
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                joined.callback(os.close, os.open(place / "requests", os.O_WRONLY))
            else:
                self._begin(joined)
                addresses.write_text(f"{self.directory}\n{self._line()}", "utf-8")
            fcntl.flock(users, fcntl.LOCK_SH)
            directory, line = addresses.read_text("utf-8").splitlines()
            self.directory = Path(directory)
            self._take(line)
            self._joined = joined.pop_all()

    def _begin(self, joined: ExitStack) -> None:
        """Start it in a directory that no earlier one has had; *joined* closes its input."""
        requests = self._place / "requests"
        requests.unlink(missing_ok=True)
        os.mkfifo(requests)
        reader = os.open(requests, os.O_RDONLY | os.O_NONBLOCK)
        try:
            joined.callback(os.close, os.open(requests, os.O_WRONLY))
            os.set_blocking(reader, True)
            self.directory = Path(tempfile.mkdtemp(dir=self._place)) / "broker"
            self._start("--listeners", reader)
            self._started = True
        finally:
            os.close(reader)

    def leave(self) -> None:
        """Need it no longer: it ends if nobody else does."""
        with alone(self._place / "using"):
            self._joined.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.leave()
        if self._started:
            super().__exit__(kind, error, traceback)
