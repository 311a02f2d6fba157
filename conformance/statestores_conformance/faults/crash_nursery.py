"""The parent's side of `crash_child`: starting a process, and killing it."""

import atexit
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import cache
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
        self._heard = 0
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
        self.close()

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
        """Return what the processes have complained about since this was last asked."""
        heard, complaints = self._heard, self._errors.read_bytes()
        self._heard = len(complaints)
        return complaints[heard:].decode("utf-8", "replace")

    def close(self) -> None:
        """End the process that forks the others, and what it has forked last."""
        self._server.communicate()

    def _ask(self, request: str) -> str:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(request + "\n")
        self._server.stdin.flush()
        return self._server.stdout.readline().strip()


def shared_nursery() -> Nursery:
    """Return the nursery of this process, which starts with its first use and ends with it.

    Starting one takes longer than a kill. It imports from where this process does now.
    """
    return _nursery_of(os.getpid(), os.environ.get("PYTHONPATH"))


@cache
def _nursery_of(process: int, python_path: str | None) -> Nursery:
    """Start the nursery of *process*: one that is forked from us cannot share ours."""
    descriptor, errors = tempfile.mkstemp(prefix="crash-errors-")
    os.close(descriptor)
    nursery = Nursery(Path(errors))

    def close() -> None:
        if os.getpid() == process:
            nursery.close()
            Path(errors).unlink(missing_ok=True)

    atexit.register(close)
    return nursery
