"""The processes in which tests run: a fork of the collected tests, within limits of its own.

Limits count processor time, so that a busy machine kills no mutant. What waits for ever takes none:
a process ends as well when nothing of it has wanted the processor for a while.
"""

import json
import os
import resource
import select
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import pytest

LEAST_TEST_SECONDS = 3.0
SLOWER = 10.0
"""A test hangs when it takes this many times the processor time that it takes on the sound code,
and longer than that."""

_LEAST_STILL_SECONDS = 30.0
_LOOK_SECONDS = 1.0
_LITTLE = 0.02
_TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")

_SESSION, _USER, _CHILDREN_SYSTEM = 3, 11, 14
"""Where proc(5) has the session of a process, and its processor time, from its state on."""
_AT_REST = frozenset("SZTtXI")
"""The states of threads that neither have a processor nor wait for one or for a disk."""


@dataclass(slots=True)
class Child:
    """One process, which leads a session."""

    process: int
    handle: int
    place: Path
    longest_s: float
    """How long its longest test takes on the sound code, waiting included."""
    began: float = field(default_factory=time.monotonic)
    still_since: float = field(default_factory=time.monotonic)
    processor_s: float = 0.0
    hangs: bool = False

    def look(self) -> bool:
        """Return whether it has ended; end it when it waits for what does not come."""
        if os.waitid(os.P_PID, self.process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            self.end()
            return True
        now = time.monotonic()
        active, processor_s = _activity(self.process)
        # A thread that looks round again and again is not what is waited for.
        little_s = _LITTLE * (now - self.still_since)
        if active or processor_s - self.processor_s > little_s + _TICK_SECONDS:
            self.still_since, self.processor_s = now, processor_s
        elif now - self.still_since > _LEAST_STILL_SECONDS + 2 * self.longest_s:
            self.hangs = True
            os.killpg(self.process, signal.SIGKILL)
        return False

    def end(self) -> None:
        """Kill what is left of it, and forget it."""
        with suppress(ProcessLookupError):
            os.killpg(self.process, signal.SIGKILL)
        _, status, used = os.wait4(self.process, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
            self.hangs = True
        self.processor_s = used.ru_utime + used.ru_stime
        os.close(self.handle)

    def wait(self) -> None:
        """Wait until it has ended of itself."""
        os.waitid(os.P_PID, self.process, os.WEXITED | os.WNOWAIT)
        self.end()

    def result(self) -> dict[str, Any]:
        """Return what its work returned, or its output if it died."""
        result, output = self.place / "result.json", self.place / "output"
        if not result.exists():
            return {"output": output.read_text("utf-8", "replace") if output.exists() else ""}
        found: dict[str, Any] = json.loads(result.read_text("utf-8"))
        return found


def start(
    place: Path,
    config: pytest.Config,
    work: Callable[[], dict[str, Any]],
    *,
    processor_s: float = 0.0,
    longest_s: float = 0.0,
) -> Child:
    """Start *work* in a fork that has *place* for its files, and *processor_s* if that is not 0."""
    place.mkdir(parents=True)
    process = os.fork()
    if process == 0:
        _live(place, config, work, processor_s)
    return Child(process, os.pidfd_open(process), place, longest_s)


def wait_for_any(children: list[Child]) -> None:
    """Wait until one of *children* has ended, or it is time to look after them."""
    select.select([child.handle for child in children], [], [], _LOOK_SECONDS)


def limit_test(usual_s: float) -> None:
    """Give the next test its time, if it usually takes *usual_s* of the processor.

    Then it fails. If it goes on nevertheless, as it does when another thread of it has no end, or
    when somebody takes the error for one of his own, the process ends after the least time again.
    So it does when a driver has no end, which lets no handler run.
    """
    longest_s = SLOWER * usual_s + LEAST_TEST_SECONDS
    signal.signal(signal.SIGPROF, _give_up)
    signal.setitimer(signal.ITIMER_PROF, longest_s)
    _limit_process(time.process_time() + longest_s + LEAST_TEST_SECONDS)


def end_limit() -> None:
    """Give no test any limit."""
    signal.setitimer(signal.ITIMER_PROF, 0)


def processor_seconds() -> float:
    """Return the processor time of this process and of those that it has waited for."""
    return sum(os.times()[:4])


def _live(
    place: Path, config: pytest.Config, work: Callable[[], dict[str, Any]], processor_s: float
) -> NoReturn:
    try:
        os.setsid()
        output = os.open(place / "output", os.O_WRONLY | os.O_CREAT, 0o644)
        os.dup2(output, 1)
        os.dup2(output, 2)
        temporary = place / "tmp"
        temporary.mkdir()
        os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
        # pytest gives directories below its own, which is the parent's.
        factory = config._tmp_path_factory  # type: ignore[attr-defined]  # noqa: SLF001
        factory._basetemp = temporary / "pytest"  # noqa: SLF001
        factory._basetemp.mkdir()  # noqa: SLF001
        if processor_s:
            _limit_process(processor_s)
        content = work()
        (place / "result.json").write_text(json.dumps(content), encoding="utf-8")
    finally:
        os._exit(0)


def _limit_process(processor_s: float) -> None:
    """End this process when it has had so much processor time since it began."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(processor_s) + 1, hard))


def _give_up(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGPROF, _end)
    signal.setitimer(signal.ITIMER_PROF, LEAST_TEST_SECONDS)
    raise TimeoutError("the test does not end")


def _end(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGXCPU)


def _activity(session: int) -> tuple[bool, float]:
    """Return whether a thread of *session* wants the processor, and how much it has had."""
    active, ticks = False, 0
    for process in Path("/proc").glob("[0-9]*"):
        fields = _stat(process)
        if len(fields) > _CHILDREN_SYSTEM and int(fields[_SESSION]) == session:
            ticks += sum(map(int, fields[_USER : _CHILDREN_SYSTEM + 1]))
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                states = [_stat(thread)[:1] for thread in process.glob("task/*")]
                active = active or any(state and state[0] not in _AT_REST for state in states)
    return active, ticks * _TICK_SECONDS


def _stat(place: Path) -> list[str]:
    """Return what Linux says of a process or thread, from its state on; see proc(5)."""
    try:
        return (place / "stat").read_text("ascii", "replace").rpartition(") ")[2].split()
    except OSError:
        return []
