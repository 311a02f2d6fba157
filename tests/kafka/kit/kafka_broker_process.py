"""The broker of the tests: one process of tools/kafka_broker.py, which ends with this one."""

import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

_PROGRAM = Path(__file__).parents[3] / "tools" / "kafka_broker.py"


class UnavailableBrokerError(Exception):
    """The machine lacks what a broker needs; the message says what."""


class BrokerProcess:
    """A broker, to be killed and started again; it keeps its address and its data."""

    def __init__(self, directory: Path, *, controller_apart: bool = False) -> None:
        """Start it; one that is to be killed has its controller apart, else more listeners."""
        self.directory = directory / "broker"
        self._errors = directory / "errors"
        directory.mkdir(parents=True, exist_ok=True)
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, str(_PROGRAM), str(directory / "broker")),
                    "--controller-apart" if controller_apart else "--listeners",
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.address, *more = self._line().split()
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
