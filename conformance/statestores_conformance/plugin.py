"""What the package gives to pytest: hooks, and the fixtures that an author has to replace."""

from typing import NoReturn

import pytest

from statestores_conformance.promises import report_promises_not_made

SPEC_MARKER = "spec(*identifiers): the requirements of the specification that the test proves"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", SPEC_MARKER)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    report_promises_not_made(terminalreporter)


@pytest.fixture
def open_engine() -> NoReturn:
    """Fail: the author's class has to give the function that opens the engine in a directory."""
    pytest.fail(
        "the test class has no engine; give it a fixture `open_engine` that returns a function "
        "from a directory to an open engine, such as `MyEngine.open`"
    )


@pytest.fixture
def open_key_value_store() -> NoReturn:
    """Fail: the author's class has to give the function that opens a key-value store."""
    pytest.fail(
        "the test class has no key-value store; give it a fixture `open_key_value_store` that "
        "returns a function from a directory and a `KeyValue` to an open store"
    )


@pytest.fixture
def open_versioned_store() -> NoReturn:
    """Fail: the author's class has to give the function that opens a versioned store."""
    pytest.fail(
        "the test class has no versioned store; give it a fixture `open_versioned_store` that "
        "returns a function from a directory and a `Versioned` to an open store"
    )
