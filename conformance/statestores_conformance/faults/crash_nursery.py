"""The parent's side of `crash_child`: starting a process, and killing it."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_POLL_SECONDS = 0.002
_PROGRAM = ("-m", "statestores_conformance.faults.crash_child")


class Nursery:
    """Starts one process at a time, to be killed."""

    def __init__(self, errors: Path, program: Sequence[str] = _PROGRAM) -> None:
        """Start *program*, which forks the others; complaints from any of them go to *errors*.

        It calls `crash_child.serve`.
        """
        self._errors = errors
        with errors.open("wb") as file:
            self._server = subprocess.Popen(  # noqa: S603  # our own program
                [sys.executable, *program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.communicate()

    def start(self, arguments: dict[str, Any]) -> None:
        """Start a process that commits until it is killed."""
        self._ask(f"start {json.dumps(arguments)}")

    def is_running(self) -> bool:
        """Return whether the process is still alive."""
        return self._ask("poll") == "running"

    def wait(self, seconds: float) -> int | None:
        """Return how the process ended on its own; ``None`` if it did not within *seconds*."""
        deadline = time.monotonic() + seconds
        while self.is_running():
            if time.monotonic() > deadline:
                return None
            time.sleep(_POLL_SECONDS)
        return self.kill()

    def kill(self) -> int:
        """Kill the process, and return how it ended: minus the signal, or its own exit code."""
        return int(self._ask("kill"))

    def errors(self) -> str:
        """Return what the processes have complained about so far."""
        return self._errors.read_text("utf-8", "replace")

    def _ask(self, request: str) -> str:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(request + "\n")
        self._server.stdin.flush()
        return self._server.stdout.readline().strip()
