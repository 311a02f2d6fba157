"""The hooks that the package gives to pytest."""

import pytest

from statestores_conformance.promises import report_promises_not_made

SPEC_MARKER = "spec(*identifiers): the requirements of the specification that the test proves"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", SPEC_MARKER)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    report_promises_not_made(terminalreporter)
