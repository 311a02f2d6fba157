"""The tests are collected once and run once on the sound code; then each mutant gets a fork.

The sound run notes which tests run which lines of the modules, and how long each test takes. The
fork of a mutant exchanges the code in place and runs the tests that reach the line, the quickest
first, until one fails. Processes that tests start see the sound code: what only a killed process
shows is not judged here.
"""

import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import pytest

from statestores_mutation.exchange import NotExchangedError, exchange, path_of
from statestores_mutation.mutations import Mutation, mutated
from statestores_mutation.verdicts import Outcome, Verdict, verdict_on

_POLL_SECONDS = 0.02
_LEAST_TEST_SECONDS = 10.0
_SLOWER = 10.0
"""A test hangs when it takes this many times as long as on the sound code, and longer than that."""


@dataclass(slots=True)
class _Reach:
    """What the sound run has found out about one test."""

    seconds: float
    lines: set[tuple[str, int]] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Running:
    """The process of one mutant."""

    mutation: Mutation
    place: Path
    began: float
    reaching: int
    patience_s: float


class SoundRunError(Exception):
    """The tests do not pass on the sound code, so they cannot judge any other."""


class Herd:
    """The pytest plugin: it replaces the loop over the tests."""

    def __init__(
        self,
        mutations: list[Mutation],
        jobs: int,
        scratch: Path,
        report: Callable[[Verdict], None],
        progress: Callable[[str], None],
    ) -> None:
        self._waiting = mutations[::-1]
        self._modules = {str(path_of(each.module)): each.module for each in mutations}
        self._jobs = jobs
        self._scratch = scratch
        self._report = report
        self._progress = progress
        self._running: dict[int, _Running] = {}
        self._reach: dict[str, _Reach] = {}
        self._items: list[pytest.Item] = []
        self._tests = 0
        self._failure = ""

    # The parent.

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            raise SoundRunError(f"the tests cannot be collected: {report.longreprtext}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._items = list(session.items)
        self._progress(f"{len(self._items):,} tests, running once on the sound code")
        self._read_reach(self._in_fork(self._scratch / "sound", self._sound_run))
        try:
            while self._waiting or self._running:
                while self._waiting and len(self._running) < self._jobs:
                    self._start(self._waiting.pop())
                self._look_after()
                time.sleep(_POLL_SECONDS)
        finally:
            for child in self._running:
                os.killpg(child, signal.SIGKILL)
        return True

    def _in_fork(self, place: Path, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        child = self._fork(place, work)
        os.waitpid(child, 0)
        return _result_of(place)

    def _read_reach(self, found: dict[str, Any]) -> None:
        """Take what the sound run has noted.

        Raises:
            SoundRunError: A test failed, or the run died.
        """
        if "reach" not in found:
            raise SoundRunError(f"the sound run did not end: {found.get('output', '')[-2000:]}")
        if found["failures"]:
            raise SoundRunError(f"tests fail on the sound code: {'; '.join(found['failures'])}")
        for name, (seconds, lines) in found["reach"].items():
            self._reach[name] = _Reach(seconds, {(module, line) for module, line in lines})
        self._progress(f"the sound run took {found['seconds']:.0f} s")

    def _start(self, mutation: Mutation) -> None:
        span = {(mutation.module, line) for line in range(mutation.line, mutation.last_line + 1)}
        items = [item for item in self._items if self._reach[item.nodeid].lines & span]
        if not items:
            self._report(verdict_on(mutation, Outcome.NOT_REACHED))
            return
        items.sort(key=lambda item: self._reach[item.nodeid].seconds)
        usual_s = sum(self._reach[item.nodeid].seconds for item in items)
        place = Path(tempfile.mkdtemp(dir=self._scratch))
        child = self._fork(place / "process", lambda: self._judge(mutation, items))
        patience_s = _SLOWER * (usual_s + _LEAST_TEST_SECONDS)
        self._running[child] = _Running(mutation, place, time.monotonic(), len(items), patience_s)

    def _look_after(self) -> None:
        """Report the processes that have ended, and end those that do not."""
        for child, running in list(self._running.items()):
            seconds = time.monotonic() - running.began
            hangs = seconds > running.patience_s
            if hangs:
                os.killpg(child, signal.SIGKILL)
            ended, _ = os.waitpid(child, os.WNOHANG)
            if not ended:
                continue
            del self._running[child]
            found = _result_of(running.place / "process")
            shutil.rmtree(running.place, ignore_errors=True)
            self._report(_verdict(running, found, seconds, hangs=hangs))

    # The children.

    def _fork(self, place: Path, work: Callable[[], dict[str, Any]]) -> int:
        place.mkdir(parents=True)
        child = os.fork()
        if child == 0:
            self._live(place, work)
        return child

    def _live(self, place: Path, work: Callable[[], dict[str, Any]]) -> NoReturn:
        try:
            os.setsid()
            output = os.open(place / "output", os.O_WRONLY | os.O_CREAT, 0o644)
            os.dup2(output, 1)
            os.dup2(output, 2)
            temporary = place / "tmp"
            temporary.mkdir()
            os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
            # pytest gives directories below its own, which is the parent's.
            factory = self._items[0].config._tmp_path_factory  # type: ignore[attr-defined]  # noqa: SLF001
            factory._basetemp = temporary / "pytest"  # noqa: SLF001
            factory._basetemp.mkdir()  # noqa: SLF001
            signal.signal(signal.SIGALRM, _give_up)
            content = work()
            (place / "result.json").write_text(json.dumps(content), encoding="utf-8")
        finally:
            os._exit(0)

    def _sound_run(self) -> dict[str, Any]:
        reach: dict[str, tuple[float, list[tuple[str, int]]]] = {}
        failures = []
        began = time.monotonic()
        for item, following in pairwise([*self._items, None]):
            assert item is not None
            seen: set[tuple[str, int]] = set()
            started = time.monotonic()
            with _tracing(self._modules, seen):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            reach[item.nodeid] = time.monotonic() - started, sorted(seen)
            if self._failure:
                failures.append(self._failure)
                self._failure = ""
        return {"reach": reach, "failures": failures, "seconds": time.monotonic() - began}

    def _judge(self, mutation: Mutation, items: list[pytest.Item]) -> dict[str, Any]:
        source = path_of(mutation.module).read_text("utf-8")
        try:
            exchange(mutation.module, mutated(source, mutation))
        except (NotExchangedError, SyntaxError) as error:
            return {"not_made": str(error)}
        for item, following in pairwise([*items, None]):
            assert item is not None
            usual_s = self._reach[item.nodeid].seconds
            signal.setitimer(signal.ITIMER_REAL, _SLOWER * usual_s + _LEAST_TEST_SECONDS)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            signal.setitimer(signal.ITIMER_REAL, 0)
            if self._failure:
                break
        return {"tests": self._tests, "failure": self._failure}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        self._tests += report.when == "call" and not report.skipped
        if report.failed and not self._failure and call.excinfo is not None:
            name = item.nodeid.partition("::")[2] or item.nodeid
            self._failure = f"{name}: {_first_line(call.excinfo.value)}"
        return report


class _tracing:  # noqa: N801  # a context manager, used as a function
    """Notes which lines of *modules*, by file, are run."""

    def __init__(self, modules: dict[str, str], seen: set[tuple[str, int]]) -> None:
        self._modules = modules
        self._seen = seen

    def __enter__(self) -> None:
        threading.settrace(self._called)
        sys.settrace(self._called)

    def __exit__(self, *raised: object) -> None:
        sys.settrace(None)
        threading.settrace(None)

    def _called(self, frame: FrameType, event: str, argument: object) -> Any:
        module = self._modules.get(frame.f_code.co_filename)
        if module is None:
            return None
        seen = self._seen

        def line(frame: FrameType, event: str, argument: object) -> Any:
            seen.add((module, frame.f_lineno))
            return line

        return line(frame, event, argument)


def _give_up(number: int, frame: FrameType | None) -> NoReturn:
    raise TimeoutError("the test does not end")


def _result_of(place: Path) -> dict[str, Any]:
    result, output = place / "result.json", place / "output"
    if not result.exists():
        return {"output": output.read_text("utf-8", "replace") if output.exists() else ""}
    found: dict[str, Any] = json.loads(result.read_text("utf-8"))
    return found


def _verdict(running: _Running, found: dict[str, Any], seconds: float, *, hangs: bool) -> Verdict:
    mutation = running.mutation
    if "not_made" in found:
        return verdict_on(mutation, Outcome.NOT_MADE, by=found["not_made"])
    by = found.get("failure", "it does not end" if hangs else "the process died")
    return verdict_on(
        mutation,
        Outcome.KILLED if by else Outcome.SURVIVED,
        by=by[:300],
        tests=found.get("tests", 0),
        reaching=running.reaching,
        seconds=round(seconds, 2),
    )


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else ''}"
