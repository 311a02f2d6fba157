"""The suite is loaded and collected once; then each mutant gets a forked process of its own.

Each gets its own because a mutant may hang or break the interpreter, and because the store that it
substitutes would stay. No thread runs and no engine is open at the fork.
"""

import json
import os
import signal
import tempfile
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

import pytest

from statestores.errors import StateStoreError
from statestores_mutants.registry import Mutant
from statestores_mutants.substitution import substitute
from statestores_mutants.verdict import Verdict, verdict_of

_PATIENCE_SECONDS = 900.0
"""How long the suite may take for one mutant; a sound engine needs a tenth of it."""

_POLL_SECONDS = 0.01

_INI = "[pytest]\nfilterwarnings = error\nxfail_strict = true\n"
_HERE = str(Path(__file__).parent)


@dataclass(frozen=True, slots=True)
class _Running:
    """The process of one mutant."""

    mutant: Mutant
    place: Path
    """Its directory: files of tests, its result, and what it printed."""
    started: float


class Herd:
    """The plugin that gives the suite its mutants, one process after the other."""

    def __init__(
        self, mutants: list[Mutant], jobs: int, scratch: Path, report: Callable[[Verdict], None]
    ) -> None:
        self._waiting = mutants[::-1]
        self._jobs = jobs
        self._scratch = scratch
        self._report = report
        self._running: dict[int, _Running] = {}
        self._mutant: Mutant | None = None
        self._place = scratch
        self._tests = 0
        self._catch: dict[str, object] | None = None

    # What the suite is given.

    @pytest.fixture
    def mutant(self) -> Mutant:
        """Give the mutant that this process is about."""
        assert self._mutant is not None
        return self._mutant

    @pytest.fixture
    def mutant_directory(self) -> Path:
        """Give the directory in which this process may write."""
        return self._place

    # The parent.

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            raise pytest.UsageError(f"the suite cannot be collected: {report.longreprtext}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        while self._waiting or self._running:
            while self._waiting and len(self._running) < self._jobs:
                self._start(self._waiting.pop(), session)
            self._look_after()
            time.sleep(_POLL_SECONDS)
        return True

    def _start(self, mutant: Mutant, session: pytest.Session) -> None:
        place = self._scratch / mutant.name
        place.mkdir()
        child = os.fork()
        if child == 0:
            self._live(mutant, place, session)
        self._running[child] = _Running(mutant, place, time.monotonic())

    def _look_after(self) -> None:
        """Report the processes that have ended, and end those that do not."""
        for child, running in list(self._running.items()):
            seconds = time.monotonic() - running.started
            if seconds > _PATIENCE_SECONDS:
                os.killpg(child, signal.SIGKILL)
            ended, _ = os.waitpid(child, os.WNOHANG)
            if ended:
                del self._running[child]
                result, output = running.place / "result.json", running.place / "output"
                found = json.loads(result.read_text("utf-8")) if result.exists() else None
                text = output.read_text("utf-8", "replace") if output.exists() else ""
                self._report(verdict_of(running.mutant, found, text, seconds))

    # The child.

    def _live(self, mutant: Mutant, place: Path, session: pytest.Session) -> NoReturn:
        """Run the tests up to the first failure, and never return to the parent's loop."""
        try:
            os.setsid()
            output = os.open(place / "output", os.O_WRONLY | os.O_CREAT, 0o644)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.chdir(place)
            self._mutant, self._place = mutant, place
            if mutant.store is not None:
                substitute(mutant.store)
            self._run(session, mutant)
            content = {"tests": self._tests, "catch": self._catch}
            (place / "result.json").write_text(json.dumps(content), encoding="utf-8")
        finally:
            os._exit(0)

    def _run(self, session: pytest.Session, mutant: Mutant) -> None:
        # First the tests that should catch it. The order decides how soon it is caught, not
        # whether.
        items = sorted(
            session.items, key=lambda item: not mutant.expected.intersection(_cited_by(item))
        )
        for item, following in pairwise([*items, None]):
            assert item is not None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._catch is not None:
                return

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        assert self._mutant is not None
        self._tests += report.when == "call" and not report.skipped
        if report.failed and self._catch is None and call.excinfo is not None:
            self._catch = {
                "test": item.nodeid.partition("::TestMutant::")[2],
                "phase": report.when,
                "cited": sorted(_cited_by(item)),
                "message": _first_line(call.excinfo.value),
                "own_mistake": _is_own_mistake(call.excinfo, self._mutant),
            }
        return report


def judge_all(mutants: list[Mutant], jobs: int, report: Callable[[Verdict], None]) -> None:
    """Run the suite against *mutants*, *jobs* at a time, and *report* each verdict.

    Raises:
        RuntimeError: The suite itself cannot be run.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        ini = Path(scratch) / "pytest.ini"
        ini.write_text(_INI, encoding="utf-8")
        plugins = ["no:cacheprovider", "no:terminal", "statestores_conformance"]
        code = pytest.main(
            [
                str(Path(_HERE) / "suite.py"),
                *("-c", str(ini), "--rootdir", scratch, "--basetemp", f"{scratch}/pytest"),
                *(f"-p{plugin}" for plugin in plugins),
                *("--import-mode=importlib", "--capture=no"),
            ],
            plugins=[Herd(mutants, jobs, Path(scratch), report)],
        )
    if code:
        raise RuntimeError(f"the suite could not be run: pytest ended with {code!r}")


def _cited_by(item: pytest.Item) -> set[str]:
    """Return the requirements that a test proves."""
    # Imported only now, so that pytest could rewrite the suite's assertions first.
    from statestores_conformance.citations import cited_by  # noqa: PLC0415

    return cited_by(item)


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else ''}"


def _is_own_mistake(failure: pytest.ExceptionInfo[BaseException], mutant: Mutant) -> bool:
    """Return whether the mutant's code broke down, instead of doing what it is there to do.

    An error of the tree may be what it does; an error of Python out of our code, or because of how
    it is called, is sloppiness.
    """
    wanted = (StateStoreError,) if mutant.raises is None else (StateStoreError, mutant.raises)
    if isinstance(failure.value, wanted):
        return False
    here = str(failure.traceback[-1].path).startswith(_HERE)
    return here or isinstance(failure.value, TypeError | AttributeError | NameError | ImportError)
