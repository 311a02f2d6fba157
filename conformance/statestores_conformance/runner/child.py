"""The pytest plugin of a child process: pytest is told what to run, and reports what happens.

Two pipes lead to the supervisor. Through one come the names of tests, a line of JSON for each
handful; through the other go events, a line of JSON each. Printed output is not an event.
"""

import faulthandler
import json
import os
import signal
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from statestores.errors import StateStoreError
from statestores_conformance.citations import cited_by
from statestores_conformance.levels import level_of, lowest_rank_in, rank_of
from statestores_conformance.runner.child_call import CALL_VARIABLE
from statestores_conformance.runner.subject import (
    BrokenSubjectError,
    Subject,
    load_subject,
    one_line,
    probe,
    requested,
)

_DETAIL_LINES = 30

_CALL: dict[str, Any] = json.loads(os.environ[CALL_VARIABLE])

# The place of a crash or a hang goes to the true standard error: pytest is about to replace it.
_trace = os.dup(2)
faulthandler.enable(file=_trace)
faulthandler.register(signal.SIGUSR1, file=_trace)


class Wire:
    """Both pipes, from the child's end."""

    def __init__(self, commands: int, events: int) -> None:
        """Use these descriptors; processes that the backend starts do not inherit them."""
        for descriptor in (commands, events):
            os.set_inheritable(descriptor, False)  # noqa: FBT003  # positional only
        self._commands = os.fdopen(commands, encoding="utf-8")
        self._events = events

    def tell(self, event: str, **content: Any) -> None:
        """Send one event; the supervisor has it when this returns, whatever dies next."""
        line = json.dumps({"event": event, **content}) + "\n"
        data = line.encode()
        while data:
            data = data[os.write(self._events, data) :]

    def next_tests(self) -> list[str]:
        """Ask for tests; an empty list is the end."""
        self.tell("idle")
        line = self._commands.readline()
        tests: list[str] = json.loads(line) if line else []
        return tests


class Reporter:
    """The plugin that takes tests from the wire and sends what becomes of them."""

    def __init__(self, wire: Wire, level: str) -> None:
        """Run tests up to *level*."""
        self._wire = wire
        self._rank = rank_of(level)

    @pytest.hookimpl(tryfirst=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> pytest.CollectReport | None:
        """Do not look into a class all of whose tests are above the level.

        At the lowest level that is most of the suite, and each process that a backend ends has a
        successor that collects it again.
        """
        if isinstance(collector, pytest.Class) and lowest_rank_in(collector) > self._rank:
            return pytest.CollectReport(collector.nodeid, "passed", None, [])
        return None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if rank_of(level_of(item)) <= self._rank]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        tests = [
            {
                "test": item.nodeid.partition("::")[2],
                "level": level_of(item),
                "requirements": sorted(cited_by(item)),
            }
            for item in session.items
        ]
        self._wire.tell("collected", tests=tests)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            return False  # pytest itself reports what could not be collected
        items = {item.nodeid.partition("::")[2]: item for item in session.items}
        while tests := self._wire.next_tests():
            for test, following in zip(tests, [*tests[1:], None], strict=True):
                item = items[test]
                item.config.hook.pytest_runtest_protocol(
                    item=item, nextitem=None if following is None else items[following]
                )
        return True

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._wire.tell("started", test=nodeid.partition("::")[2])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        self._wire.tell("phase", phase="setup")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self) -> None:
        self._wire.tell("phase", phase="call")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self) -> None:
        self._wire.tell("phase", phase="teardown")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._wire.tell(
            "phase-ended",
            phase=report.when,
            outcome=report.outcome,
            reason=_reason(report),
            detail=_detail(report),
            seconds=report.duration,
        )

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._wire.tell("finished", test=nodeid.partition("::")[2])


def _reason(report: pytest.TestReport) -> str:
    """Return why a phase failed or was skipped, in one line."""
    if report.passed:
        return ""
    where: Any = report.longrepr
    if isinstance(where, tuple):
        text = str(where[2]).removeprefix("Skipped: ")
    else:
        crash = getattr(where, "reprcrash", None)
        text = crash.message if crash is not None else report.longreprtext
    return one_line(text)


def _detail(report: pytest.TestReport) -> str:
    """Return the end of what pytest shows of a failure."""
    return "\n".join(report.longreprtext.splitlines()[-_DETAIL_LINES:]) if report.failed else ""


def _introduce(wire: Wire) -> Subject | None:
    """Tell the supervisor what is under test; ``None`` when there is nothing to test."""
    try:
        subject = load_subject(*requested())
        capabilities = probe(subject)
    except StateStoreError as error:
        wire.tell("refused", error=type(error).__name__, sentence=str(error))
        return None
    except BrokenSubjectError as error:
        wire.tell("broken", sentence=str(error))
        return None
    promised = {name: bool(made) for name, made in capabilities.promises.items()}
    wire.tell("introduced", door=type(subject).__name__, capabilities=promised)
    return subject


def pytest_configure(config: pytest.Config) -> None:
    settings.register_profile(
        "conformance",
        max_examples=_CALL["examples"],
        stateful_step_count=_CALL["steps"],
        phases=[Phase[phase] for phase in _CALL["phases"]],
        deadline=None,
        database=None,
        derandomize=False,  # even if CI is set: the seed of the run decides
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("conformance")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    wire = Wire(_CALL["commands"], _CALL["events"])
    if _introduce(wire) is None:
        return 0
    config.pluginmanager.register(Reporter(wire, _CALL["level"]))
    return None
