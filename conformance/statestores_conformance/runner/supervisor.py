"""The supervisor: hands tests to child processes, and survives whatever happens to them.

A child that dies or hangs costs only the test that it was running, which has failed or timed out:
the other tests go to a new child. After too many such deaths, the rest is reported as not run.
"""

import os
import selectors
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from statestores_conformance.levels import rank_of
from statestores_conformance.report.judging import TestOutcome
from statestores_conformance.runner.child_process import ChildProcess

_POLL_SECONDS = 0.1
_LARGEST_HANDFUL = 12
_MOST_LOST_CHILDREN = 8
"""Each costs seconds, or its time limit; by then enough is known about the backend."""

_LONGEST_START_SECONDS = 120.0
_LONGEST_END_SECONDS = 30.0


@dataclass(slots=True)
class Findings:
    """What is known so far."""

    tests: dict[str, TestOutcome] = field(default_factory=dict)
    """Every test by name; ``not run`` until its outcome is known."""

    capabilities: dict[str, bool] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    refused: tuple[str, str] | None = None
    """The error class and sentence with which the backend could not be found or loaded."""

    broken: str = ""
    """Why the backend could not be opened at all."""

    @property
    def finished(self) -> int:
        """How many tests have an outcome."""
        return sum(test.outcome != "not run" for test in self.tests.values())

    @property
    def failed(self) -> int:
        """How many tests have failed, or timed out."""
        return sum(test.outcome in {"failed", "timed out"} for test in self.tests.values())


class Supervisor:
    """Runs all tests in *children* processes at a time."""

    def __init__(
        self,
        *,
        directory: Path,
        seed: int,
        call: Mapping[str, object],
        environment: Mapping[str, str],
        children: int,
        time_limit_s: float,
        max_failures: int | None,
        on_change: Callable[[Findings, str], None],
        is_selected: Callable[[TestOutcome], bool],
        stopped: Callable[[], str | None],
    ) -> None:
        """Prepare a run; nothing is started."""
        self._directory = directory
        self._seed = seed
        self._call = call
        self._environment = {**os.environ, **environment}
        self._wanted = children
        self._time_limit_s = time_limit_s
        self._max_failures = max_failures
        self._on_change = on_change
        self._is_selected = is_selected
        self._stopped = stopped
        self._findings = Findings()
        self._queue: list[str] | None = None
        self._children: list[ChildProcess] = []
        self._selector = selectors.DefaultSelector()
        self._started = 0
        self._lost = 0

    def run(self) -> Findings:
        """Run until every test has an outcome, or the backend has shown that going on is futile."""
        try:
            self._start_child()
            while self._children:
                for key, _ in self._selector.select(_POLL_SECONDS):
                    self._listen(key.data)
                for child in list(self._children):
                    self._look_after(child)
                why = self._stopped()
                if why is not None:
                    self._findings.problems.append(f"{why}; {self._left()}")
                    break
        finally:
            for child in self._children:
                child.close()
            self._selector.close()
        return self._findings

    def _left(self) -> str:
        """Return how much has not been run, in words."""
        tests, finished = len(self._findings.tests), self._findings.finished
        return f"{tests - finished} of {tests} tests were not run"

    def _start_child(self) -> None:
        self._started += 1
        child = ChildProcess(
            self._directory / f"child-{self._started}", self._seed, self._call, self._environment
        )
        self._children.append(child)
        self._selector.register(child.events, selectors.EVENT_READ, child)

    def _end_child(self, child: ChildProcess) -> None:
        self._selector.unregister(child.events)
        self._children.remove(child)
        child.close()

    def _listen(self, child: ChildProcess) -> None:
        for event in child.hear():
            handler = getattr(self, "_on_" + str(event["event"]).replace("-", "_"), None)
            if handler is not None:
                handler(child, event)

    def _on_introduced(self, child: ChildProcess, event: dict[str, Any]) -> None:
        self._findings.capabilities = event["capabilities"]

    def _on_refused(self, child: ChildProcess, event: dict[str, Any]) -> None:
        self._findings.refused = (event["error"], event["sentence"])
        child.stopping = True

    def _on_broken(self, child: ChildProcess, event: dict[str, Any]) -> None:
        self._findings.broken = event["sentence"]
        child.stopping = True

    def _on_collected(self, child: ChildProcess, event: dict[str, Any]) -> None:
        if self._queue is not None:
            return
        for test in event["tests"]:
            known = TestOutcome(
                test=test["test"],
                level=test["level"],
                requirements=tuple(test["requirements"]),
                outcome="not run",
            )
            if self._is_selected(known):
                self._findings.tests[known.test] = known
        self._queue = sorted(
            self._findings.tests, key=lambda test: rank_of(self._findings.tests[test].level)
        )
        while len(self._children) < min(self._wanted, len(self._queue)):
            self._start_child()

    def _on_idle(self, child: ChildProcess, event: dict[str, Any]) -> None:
        queue = self._queue or []
        if self._max_failures is not None and self._findings.failed >= self._max_failures:
            queue.clear()
        size = max(1, min(_LARGEST_HANDFUL, len(queue) // (4 * self._wanted)))
        handful, queue[:size] = queue[:size], []
        child.running = None
        child.assign(handful)

    def _on_started(self, child: ChildProcess, event: dict[str, Any]) -> None:
        child.running = event["test"]
        child.phase = "setup"
        child.assigned = [test for test in child.assigned if test != event["test"]]

    def _on_phase(self, child: ChildProcess, event: dict[str, Any]) -> None:
        child.phase = event["phase"]

    def _on_phase_ended(self, child: ChildProcess, event: dict[str, Any]) -> None:
        if child.running is None:
            return
        known = self._findings.tests[child.running]
        # The first failure says what went wrong; a skip has no call.
        if known.outcome in {"failed", "timed out"} or (
            event["outcome"] == "passed" and event["phase"] != "call"
        ):
            return
        self._settle(
            child.running, event["outcome"], event["phase"], event["reason"], event["detail"]
        )

    def _on_finished(self, child: ChildProcess, event: dict[str, Any]) -> None:
        child.running = None
        self._on_change(self._findings, event["test"])

    def _settle(self, test: str, outcome: str, step: str, reason: str, detail: str) -> None:
        known = self._findings.tests[test]
        self._findings.tests[test] = TestOutcome(
            test=test,
            level=known.level,
            requirements=known.requirements,
            outcome=outcome,
            step="" if outcome == "passed" else step,
            reason=reason,
            detail=detail,
        )

    def _look_after(self, child: ChildProcess) -> None:
        """Check whether *child* has died or hangs."""
        if child.has_ended:
            self._listen(child)
            if not child.stopping or child.running is not None:
                self._lose(child, f"the process {child.how_it_ended()}")
            self._end_child(child)
            self._replace()
            return
        starting = self._queue is None or (child.running is None and not child.assigned)
        limit = self._time_limit_s
        if child.stopping:
            limit = _LONGEST_END_SECONDS
        elif starting:
            limit = max(limit, _LONGEST_START_SECONDS) if self._queue is None else limit
        if child.silent_for_s > limit:
            child.kill()
            if child.stopping:
                self._findings.problems.append(
                    f"a process had not ended {limit:g} s after its last test, and was killed"
                )
            else:
                what = f"nothing happened for {limit:g} s, and the process was killed"
                self._lose(child, what, "timed out")
            self._end_child(child)
            self._replace()

    def _lose(self, child: ChildProcess, what: str, outcome: str = "failed") -> None:
        """Record what *child* took with it."""
        self._lost += 1
        where = child.innermost_line()
        if child.running is not None:
            step = f"{child.phase}, {where}" if where else child.phase
            reason = f"{what} in the {child.phase} of the test" + (f": {where}" if where else "")
            self._settle(child.running, outcome, step, reason, child.last_words())
            self._on_change(self._findings, child.running)
        elif self._queue is None:
            self._findings.broken = f"{what} before the first test" + (
                f": {where}" if where else ""
            )
        else:
            self._findings.problems.append(f"{what} between two tests")
        if self._queue is not None:
            self._queue[:0] = child.assigned

    def _replace(self) -> None:
        """Start another child if there is work, or give up."""
        if not self._queue:
            return
        if self._lost > _MOST_LOST_CHILDREN:
            self._findings.problems.append(
                f"{self._lost} processes were lost; {len(self._queue)} tests were not run"
            )
            self._queue.clear()
        elif len(self._children) < self._wanted:
            self._start_child()
