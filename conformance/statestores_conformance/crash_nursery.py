"""The parent's side of `crash_child`: starting a process, and killing it."""

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self


class Nursery:
    """Brings forth one process at a time, to be killed."""

    def __init__(self, errors: Path) -> None:
        """Start the process that forks the others; what any of them complains goes to *errors*."""
        self._errors = errors
        with errors.open("wb") as file:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "statestores_conformance.crash_child"],
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
