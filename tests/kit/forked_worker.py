"""One worker of the tests: a fork of the process that has collected them.

It asks for tests by their places in the collection, runs them as pytest does, and sends what the
reports of each say. It has its own of what pytest keeps for a process: captured output, directories
and what is done at the end.
"""

import atexit
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from _pytest.runner import runtestprotocol

LONG_SECONDS = 1.0
"""A preparation or an end that takes longer is reported, since ``--durations`` may show it."""

Message: TypeAlias = tuple[int, list[dict[str, Any]]] | None
"""A test that is over, by its place, with its reports; or that there is time for more."""


class ForkedWorker:
    """A plugin that sends reports in the place of one that shows them."""

    def __init__(self, session: pytest.Session, connection: Connection, directory: Path) -> None:
        self._session = session
        self._connection = connection
        self._directory = directory
        self._places: dict[pytest.Item, int] = {}

    def play(self) -> None:
        """Run tests until no more are given, or until Control-C; then do what is left to an end.

        A process that was forked by `multiprocessing` does not do the latter by itself. What the
        process before has to do at its end is not this one's.
        """
        atexit._clear()
        try:
            self._have_its_own()
            self._run()
        except KeyboardInterrupt:
            pass  # the process before says that it was interrupted
        finally:
            atexit._run_exitfuncs()

    def _have_its_own(self) -> None:
        """Part with the process before: its terminal, captured output and temporary directories.

        The files of captured output are shared after a fork, with the place to write at.
        """
        plugins = self._session.config.pluginmanager
        terminal = plugins.unregister(name="terminalreporter")
        plugins.register(_SilentTerminal(terminal), "terminalreporter")
        plugins.register(self, "forked-worker")
        capture: Any = plugins.get_plugin("capturemanager")
        capture.stop_global_capturing()
        capture.start_global_capturing()
        capture.suspend_global_capture(in_=False)
        self._session.config.option.basetemp = str(self._directory)
        directories: Any = plugins.get_plugin("tmpdir")
        directories.pytest_configure(self._session.config)

    def _run(self) -> None:
        items = self._items()
        item = next(items, None)
        while item is not None:
            # Asked for before the test is run: at its end it leaves what the next one uses.
            following = next(items, None)
            try:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            except KeyboardInterrupt:
                # As pytest does at the end of a session: the test may have been torn down already.
                self._session._setupstate.teardown_exact(None)
                raise
            item = following

    def _items(self) -> Iterator[pytest.Item]:
        while True:
            self._connection.send(None)
            places: list[int] = self._connection.recv()
            if not places:
                return
            for place in places:
                item = self._session.items[place]
                self._places[item] = place
                yield item

    @pytest.hookimpl
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run the test as pytest does, and send what somebody reads once all of it is over."""
        reports = [
            item.config.hook.pytest_report_to_serializable(config=item.config, report=report)
            for report in runtestprotocol(item, log=False, nextitem=nextitem)
            if report.when == "call" or not report.passed or report.duration > LONG_SECONDS
        ]
        self._connection.send((self._places.pop(item), reports))
        return True


class _SilentTerminal:
    """What plugins find by the name of the terminal: where a test that hangs is written to."""

    def __init__(self, terminal: Any) -> None:
        self._tw = terminal._tw
