"""A child process from the supervisor's end: started, heard, told what to do, and killed."""

import contextlib
import json
import os
import signal
import subprocess
import sysconfig
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from statestores_conformance.runner.child_call import CALL_VARIABLE, command

_LAST_WORDS_BYTES = 4_000
_LONGEST_TRACE_BYTES = 1 << 20
"""Far more than `faulthandler` writes of a hundred frames in a thread each, wherever files are."""
_STANDARD_LIBRARY = f'File "{sysconfig.get_path("stdlib")}/'
_GRACE_SECONDS = 0.3
"""How long a hanging process has to write down where it hangs, before it is killed."""


class ChildProcess:
    """One process that runs tests."""

    def __init__(
        self, directory: Path, seed: int, call: Mapping[str, object], environment: Mapping[str, str]
    ) -> None:
        """Start the process; its temporary files and what it prints go to *directory*."""
        directory.mkdir()
        (directory / "pytest.ini").write_text("[pytest]\ntmp_path_retention_policy = none\n")
        self._said = directory / "said"
        commands, self._commands = os.pipe()
        self.events, events = os.pipe()
        os.set_blocking(self.events, False)
        whole = json.dumps({**call, "commands": commands, "events": events})
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(  # noqa: S603  # our own command line
                command(directory, seed),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                pass_fds=(commands, events),
                env={**environment, CALL_VARIABLE: whole},
                start_new_session=True,  # so that killing it takes what it started
            )
        os.close(commands)
        os.close(events)
        self._unread = b""
        self.assigned: list[str] = []
        """The tests that it was told to run and has not begun."""
        self.running: str | None = None
        self.phase = ""
        self.heard_at = time.monotonic()
        self.stopping = False

    def hear(self) -> list[dict[str, Any]]:
        """Return the events that have come; skip anything else."""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self.events, 1 << 16):
                self._unread += data
        *lines, self._unread = self._unread.split(b"\n")
        if lines:
            self.heard_at = time.monotonic()
        events = []
        for line in lines:
            # A backend can find the descriptor and write to it; that must not end the run.
            with contextlib.suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict) and "event" in event:
                    events.append(event)
        return events

    def assign(self, tests: list[str]) -> None:
        """Tell it to run *tests*; none means the end."""
        self.assigned = list(tests)
        self.stopping = not tests
        with contextlib.suppress(BrokenPipeError):  # its death is noticed in any case
            os.write(self._commands, (json.dumps(tests) + "\n").encode())

    @property
    def silent_for_s(self) -> float:
        """How long ago the last event came."""
        return time.monotonic() - self.heard_at

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def how_it_ended(self) -> str:
        """Return how the process ended, as the rest of a sentence."""
        code = self._process.returncode
        if code is not None and code < 0:
            return f"was ended by {signal.Signals(-code).name}"
        return f"ended by itself with exit status {code}"

    def kill(self) -> None:
        """Let it write down where it is, then kill it with everything that it started."""
        if not self.has_ended:
            self._process.send_signal(signal.SIGUSR1)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def last_words(self) -> str:
        """Return the end of what it printed."""
        return self._last_said(_LAST_WORDS_BYTES)

    def innermost_line(self) -> str:
        """Return where it was when it died or hung: file, line and function, or nothing.

        The innermost line outside Python's own library, which is rarely to blame.
        """
        trace = self._last_said(_LONGEST_TRACE_BYTES).rpartition("most recent call first)")[2]
        lines = [line.strip() for line in trace.splitlines() if line.startswith('  File "')]
        strangers = [
            line
            for line in lines
            if "site-packages" in line or not line.startswith(_STANDARD_LIBRARY)
        ]
        return next(iter(strangers or lines), "")

    def _last_said(self, size: int) -> str:
        """Return the last *size* bytes of what it printed."""
        with self._said.open("rb") as said:
            said.seek(max(0, said.seek(0, os.SEEK_END) - size))
            return said.read().decode("utf-8", "replace")

    def close(self) -> None:
        """Kill what is left of it and close the pipes."""
        self.kill()
        os.close(self._commands)
        os.close(self.events)
