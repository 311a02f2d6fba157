"""The tests are collected once and run once on the sound code; then each mutant gets a fork.

The sound run notes which tests reach which changes, and how long each test takes. The fork of a
mutant exchanges the code in place and runs the tests in which the change can make a difference,
until one fails: first those that have caught other changes of the same function and module, a few
quick ones, those that are about it, then the others, the quickest first. Processes that tests start
see the sound code: what only a killed process shows is not judged here.
"""

import gc
import importlib
import shutil
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from statestores_mutation import children
from statestores_mutation.children import Child
from statestores_mutation.exchange import NotExchangedError, exchange, holders
from statestores_mutation.mutations import Mutation, mutated
from statestores_mutation.probes import Marks, Seen, instrumented
from statestores_mutation.reach import (
    SoundRun,
    TestReach,
    digest,
    read_sound_run,
    write_sound_run,
)
from statestores_mutation.sources import SourceChangedError, Sources
from statestores_mutation.verdicts import Outcome, Verdict, verdict_on

if TYPE_CHECKING:
    from types import FunctionType

_MOST_FAILURES = 0.01
"""The share of the tests that may fail on the sound code; they judge nothing then."""

_NEAR = 6
"""How many tests of each sort go before the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be judged, and with how much effort."""

    mutations: Sequence[Mutation]
    """In the order in which they are judged."""

    sources: Sources
    """The modules that the sound run is about: those of the mutations, and perhaps more, so that a
    run that goes on with fewer knows its sound run again."""

    jobs: int = 1
    """How many mutants are judged at the same time."""

    budget_s: float = 0.0
    """The processor time after which a mutant is left undecided; 0 decides all."""

    reach: Path | None = None
    """The file that keeps the sound run, which depends on the code alone."""


@dataclass(frozen=True, slots=True)
class _Running:
    """The process of one mutant."""

    mutation: Mutation
    child: Child
    reaching: int


class SoundRunError(Exception):
    """The tests do not pass on the sound code, so they cannot judge any other."""


class Herd:
    """The pytest plugin: it replaces the loop over the tests."""

    def __init__(
        self,
        plan: Plan,
        scratch: Path,
        report: Callable[[Verdict], None],
        progress: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._scratch = scratch
        self._report = report
        self._progress = progress
        self._running: list[_Running] = []
        self._marks: dict[str, Marks] = {}
        self._functions: dict[str, Sequence[FunctionType]] = {}
        self._sound = SoundRun()
        self._items: list[pytest.Item] = []
        self._killers: dict[str, Counter[str]] = defaultdict(Counter)
        self._about: dict[str, Counter[str]] = {}
        self._tests = 0
        self._failure = ""
        self.error: SoundRunError | SourceChangedError | None = None
        """Why the run ended before every mutant was judged; pytest would call it its own fault."""

    # The parent.

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            raise SoundRunError(f"the tests cannot be collected: {report.longreprtext}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._items = list(session.items)
        try:
            self._judge_all()
        except (SoundRunError, SourceChangedError) as error:
            self.error = error
        return True

    def _judge_all(self) -> None:
        self._learn()
        waiting = list(self._plan.mutations[::-1])
        try:
            while waiting or self._running:
                while waiting and len(self._running) < self._plan.jobs:
                    self._start(waiting.pop())
                self._look_after()
        finally:
            for running in self._running:
                running.child.end()

    def _learn(self) -> None:
        """Run the tests on the sound code, unless that was done; make the next forks cheap."""
        trees = {}
        numbers = count(1)
        sources = self._plan.sources
        for module in sources.modules:
            trees[module], found = instrumented(module, sources.text(module), numbers)
            self._marks |= found
        # Forks share what is not touched: neither looked through nor counted by a collection.
        self._functions = {module: holders(module) for module in sources.modules}
        names = [item.nodeid for item in self._items]
        file, key = self._plan.reach, digest(names, sources.modules)
        known = read_sound_run(file, key) if file else None
        if known is None:
            self._progress(f"{len(self._items):,} tests, running once on the sound code")
            known = self._in_fork(lambda: self._sound_run(trees))
            if file:
                write_sound_run(file, key, known)
        self._sound = known
        if len(known.failures) > _MOST_FAILURES * len(self._items):
            raise SoundRunError(f"tests fail on the sound code: {'; '.join(known.failures[:20])}")
        for failure in known.failures:
            self._progress(f"fails on the sound code, and judges nothing: {failure}")
        self._progress(f"the sound run took {known.processor_s:.0f} s of the processor")
        for name in known.modules:
            if name.endswith("__main__"):
                continue
            try:
                importlib.import_module(name)
            except Exception:  # noqa: BLE001, S112  # a test imports it in its own way, or not at all
                continue
        gc.collect()
        gc.freeze()

    def _in_fork(self, work: Callable[[], dict[str, Any]]) -> SoundRun:
        child = children.start(self._scratch / "sound", self._items[0].config, work)
        child.wait()
        found = child.result()
        if "tests" not in found:
            raise SoundRunError(f"the sound run did not end: {found.get('output', '')[-2000:]}")
        return SoundRun.of_json(found)

    def _start(self, mutation: Mutation) -> None:
        marks, tests = self._marks[mutation.key], self._sound.tests
        items = [item for item in self._items if item.nodeid in tests]
        reaching = [item for item in items if tests[item.nodeid].marks & marks.reached]
        if not reaching:
            self._store(verdict_on(mutation, Outcome.NOT_REACHED))
            return
        judging = [item for item in reaching if tests[item.nodeid].marks & marks.differs]
        if not judging:
            self._store(verdict_on(mutation, Outcome.SURVIVED, reaching=len(reaching)))
            return
        judging = self._in_order(mutation, judging)
        usual_s = sum(tests[item.nodeid].processor_s for item in judging)
        child = children.start(
            Path(tempfile.mkdtemp(dir=self._scratch)) / "process",
            self._items[0].config,
            lambda: self._judge(mutation, judging),
            processor_s=children.SLOWER * (usual_s + children.LEAST_TEST_SECONDS),
            longest_s=max(tests[item.nodeid].seconds for item in judging),
        )
        self._running.append(_Running(mutation, child, len(reaching)))

    def _in_order(self, mutation: Mutation, items: list[pytest.Item]) -> list[pytest.Item]:
        """Return *items*: what has caught changes nearby, a few quick ones, what is about the code.

        A test is about a function or module that comes to what few others come to in it.
        """
        tests = self._sound.tests
        places = (f"{mutation.module}:{mutation.function}", mutation.module)
        quick = sorted((item.nodeid for item in items), key=lambda name: tests[name].processor_s)
        order = [name for place in places for name, _ in self._killers[place].most_common(_NEAR)]
        order += quick[:_NEAR]
        for place in places:
            about = self._relevance(place)
            order += sorted(quick, key=lambda name: -about[name])[:_NEAR]
        ranks = {name: rank for rank, name in reversed(list(enumerate([*order, *quick])))}
        return sorted(items, key=lambda item: ranks[item.nodeid])

    def _relevance(self, place: str) -> Counter[str]:
        """Return how much each test is about the function or module *place*."""
        if place not in self._about:
            marks = {
                mark
                for key, of_key in self._marks.items()
                if key.startswith(f"{place}:")
                for mark in of_key.reached | of_key.differs
            }
            visitors = Counter(
                mark for test in self._sound.tests.values() for mark in test.marks & marks
            )
            self._about[place] = Counter(
                {
                    name: sum(1 / visitors[mark] for mark in test.marks & marks)
                    for name, test in self._sound.tests.items()
                }
            )
        return self._about[place]

    def _look_after(self) -> None:
        """Report the processes that have ended, and end those that do not."""
        if not self._running:
            return
        children.wait_for_any([running.child for running in self._running])
        for running in list(self._running):
            if running.child.look():
                self._running.remove(running)
                found = running.child.result()
                shutil.rmtree(running.child.place.parent, ignore_errors=True)
                mutation = running.mutation
                if "killer" in found:
                    for place in (f"{mutation.module}:{mutation.function}", mutation.module):
                        self._killers[place][found["killer"]] += 1
                self._store(_verdict(running, found))

    def _store(self, verdict: Verdict) -> None:
        """Report *verdict*, unless it may be of other code than it says."""
        self._plan.sources.check()
        self._report(verdict)

    # The children.

    def _sound_run(self, trees: dict[str, Any]) -> dict[str, Any]:
        seen = Seen()
        seen.install()
        for module, tree in trees.items():
            try:
                exchange(module, tree, self._functions[module])
            except NotExchangedError:
                continue  # nothing of it can be changed; each of its mutants will say so
        found = SoundRun()
        before = set(sys.modules)
        for item, following in pairwise([*self._items, None]):
            assert item is not None
            began, processor_s = time.monotonic(), children.processor_seconds()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            used_s = children.processor_seconds() - processor_s
            marks = frozenset(seen.take())
            if self._failure:
                found.failures.append(self._failure)
                self._failure = ""
            else:
                found.tests[item.nodeid] = TestReach(
                    round(used_s, 3), round(time.monotonic() - began, 3), marks
                )
            found.processor_s += used_s
        found.modules = sorted(set(sys.modules) - before)
        return found.as_json()

    def _judge(self, mutation: Mutation, items: list[pytest.Item]) -> dict[str, Any]:
        try:
            tree = mutated(self._plan.sources.text(mutation.module), mutation)
            exchange(mutation.module, tree, self._functions[mutation.module])
        except (NotExchangedError, SyntaxError) as error:
            return {"not_made": str(error)}
        for item, following in pairwise([*items, None]):
            assert item is not None
            children.limit_test(self._sound.tests[item.nodeid].processor_s)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            children.end_limit()
            if self._failure:
                return {"tests": self._tests, "failure": self._failure, "killer": item.nodeid}
            if 0 < self._plan.budget_s < children.processor_seconds():
                return {"tests": self._tests, "undecided": following is not None}
        return {"tests": self._tests}

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


def _verdict(running: _Running, found: dict[str, Any]) -> Verdict:
    mutation, child = running.mutation, running.child
    if "not_made" in found:
        return verdict_on(mutation, Outcome.NOT_MADE, by=found["not_made"])
    outcome, by = Outcome.SURVIVED, ""
    if "tests" not in found:
        outcome, by = Outcome.KILLED, "it does not end" if child.hangs else "the process died"
    elif "failure" in found:
        outcome, by = Outcome.KILLED, found["failure"]
    elif found.get("undecided"):
        outcome = Outcome.UNDECIDED
    return verdict_on(
        mutation,
        outcome,
        by=by[:300],
        tests=found.get("tests", 0),
        reaching=running.reaching,
        seconds=round(child.processor_s, 2),
    )


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else ''}"
