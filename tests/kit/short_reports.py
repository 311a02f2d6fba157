"""A pytest plugin for pytest-xdist's workers: they report what somebody reads, and nothing else.

A worker writes six messages for each test, and the process that collects them reads them by a
serializer in Python: a begin, an end, three reports, and that the test is done. Of those, only two
say anything when a test passes: how the call of the test went, and that it is done.
"""

import pytest
from _pytest.runner import runtestprotocol

LONG_SECONDS = 1.0
"""A preparation or an end that takes longer is reported, since ``--durations`` may show it."""


class ShortReports:
    """Reports of a test what its call did, and what else failed, was skipped or took long."""

    @pytest.hookimpl
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run the test as pytest does; what is reported comes when all of it is over."""
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            if report.when == "call" or not report.passed or report.duration > LONG_SECONDS:
                item.ihook.pytest_runtest_logreport(report=report)
        return True


def register(config: pytest.Config) -> None:
    """Let *config* report in short if it is a worker's.

    Not where a run stops at a failure: pytest has to know of it before it ends the test, to end
    with it what the next one would have used.
    """
    if hasattr(config, "workerinput") and not config.getoption("maxfail"):
        config.pluginmanager.register(ShortReports())
