"""A pytest plugin: all tests are collected once, and run by workers that are forked then.

Workers that start by themselves each import six hundred modules and make ten thousand items
before their first test, a thirtieth of all that a run takes of the processor. See
docs/decisions/0219-workers-of-tests-are-forked.md.
"""

import itertools
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path

import pytest
from forked_worker import ForkedWorker, Message

_LOOK_SECONDS = 1.0
"""How often workers are looked at that say nothing: what they have started may hold their pipe."""

_END_SECONDS = 20.0
"""What a worker has to end what its tests share, a broker or a session of Spark, when told to."""

_FORK = get_context("fork")

RUN_DIRECTORY = pytest.StashKey[Path]()
"""The directory of the whole run, in which each worker has its own."""


class ForkedWorkers:
    """Run scopes of tests, such as classes, each by the worker that asks for one next."""

    def __init__(
        self,
        count: int,
        scope_of: Callable[[str], str],
        choose: Callable[[Iterable[str], int], str | None],
    ) -> None:
        """Have *count* workers, and at least one.

        Args:
            count: How many workers.
            scope_of: Gives what scope a test is of, by its identifier; one worker runs all of it.
            choose: Gives which one of the scopes that are left the worker of a number, from zero,
                runs next. ``None`` is that it shall end.
        """
        self._count = count
        self._scope_of = scope_of
        self._choose = choose
        self._names = itertools.count()
        """Of directories: a worker that stands in for one that died has another one."""
        self._left: dict[str, deque[int]] = {}
        self._workers: dict[Connection, _Forked] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run all tests of *session*, where pytest itself would run one after the other."""
        options = session.config.option
        if session.testsfailed or options.collectonly or options.usepdb:
            return None
        # pytest gives it to fixtures only.
        factory: pytest.TempPathFactory = session.config._tmp_path_factory  # type: ignore[attr-defined]
        session.config.stash[RUN_DIRECTORY] = factory.getbasetemp()
        for place, item in enumerate(session.items):
            self._left.setdefault(self._scope_of(item.nodeid), deque()).append(place)
        try:
            for number in range(min(self._count, len(self._left))):
                self._start(session, number)
            while self._workers:
                self._hear(session)
        finally:
            self._stop()
        if self._left:
            left = sum(map(len, self._left.values()))
            raise session.Failed(f"no worker has run {left} of the tests")
        return True

    def _start(self, session: pytest.Session, number: int) -> None:
        """Fork the worker *number*."""
        ours, theirs = _FORK.Pipe()
        directory = session.config.stash[RUN_DIRECTORY] / f"worker{next(self._names)}"
        worker = ForkedWorker(session, theirs, directory)

        def work() -> None:
            for each in (ours, *self._workers):
                each.close()
            worker.play()

        process = _FORK.Process(target=work, name=f"worker {number}")
        process.start()
        theirs.close()
        self._workers[ours] = _Forked(number, process)

    def _hear(self, session: pytest.Session) -> None:
        """Wait for what workers say, and do it; see after those that have died."""
        for connection in wait(list(self._workers), _LOOK_SECONDS):
            assert isinstance(connection, Connection)
            try:
                message: Message = connection.recv()
            except (EOFError, ConnectionError):
                self._bury(session, connection)
            else:
                self._do(session, connection, message)
        for connection, worker in list(self._workers.items()):
            if not worker.process.is_alive() and not connection.poll():
                self._bury(session, connection)

    def _do(self, session: pytest.Session, connection: Connection, message: Message) -> None:
        """Give a worker its next scope, or report what it has run."""
        worker = self._workers[connection]
        if message is None:
            scope = self._choose(self._left, worker.number)
            places = self._left.pop(scope) if scope is not None else deque[int]()
            worker.given.extend(places)
            worker.has_begun = True
            connection.send(list(places))
            return
        place, kept = message
        worker.given.remove(place)
        config = session.config
        self._report(
            session,
            session.items[place],
            [
                config.hook.pytest_report_from_serializable(config=config, data=each)
                for each in kept
            ],
        )

    def _report(
        self, session: pytest.Session, item: pytest.Item, reports: list[pytest.TestReport]
    ) -> None:
        """Tell pytest's own plugins what became of *item*; stop if enough has failed.

        Raises:
            pytest.Session.Failed: As many tests as ``--maxfail`` says have failed.
        """
        for report in reports:
            session.config.hook.pytest_runtest_logreport(report=report)
        session.config.hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)

    def _bury(self, session: pytest.Session, connection: Connection) -> None:
        """Let go of a worker that has ended; report the test that it died in, and have another one.

        Raises:
            pytest.Session.Failed: It died without a test.
        """
        worker = self._workers.pop(connection)
        connection.close()
        worker.process.join()
        if worker.process.exitcode == 0 and not worker.given:
            return
        how = f"{worker.process.name} ended with {worker.process.exitcode}"
        if not worker.given:
            raise session.Failed(f"{how} {'after' if worker.has_begun else 'before'} its tests")
        item = session.items[worker.given.popleft()]
        if worker.given:
            rest = self._scope_of(session.items[worker.given[0]].nodeid)
            self._left = {rest: worker.given, **self._left}
        report = pytest.TestReport(
            nodeid=item.nodeid,
            location=item.location,
            keywords={},
            outcome="failed",
            longrepr=f"{how} in this test",
            when="call",
        )
        self._report(session, item, [report])
        if self._left:
            self._start(session, worker.number)

    def _stop(self) -> None:
        """End what is still there as Control-C does, and kill what does not end."""
        for worker in self._workers.values():
            if worker.process.pid is not None and worker.process.is_alive():
                os.kill(worker.process.pid, signal.SIGINT)
        for connection, worker in self._workers.items():
            worker.process.join(_END_SECONDS)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            connection.close()
        self._workers.clear()


class _Forked:
    """A worker as the process sees it that has forked it."""

    def __init__(self, number: int, process: ForkProcess) -> None:
        self.number = number
        self.process = process
        self.given = deque[int]()
        """The places of the tests that it has and that are not over, in their order."""
        self.has_begun = False
