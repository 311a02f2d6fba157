"""What the package gives to pytest: hooks, and the fixtures that an author must override."""

import os
from typing import NoReturn

import pytest

from statestores_conformance.promises import report_promises_not_made

MARKERS = (
    "spec(*identifiers): the requirements of the specification that the test proves",
    "level(name): the level of conformance that the test belongs to",
    "soak: runs for minutes; skipped unless STATESTORES_SOAK=1",
)


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("STATESTORES_SOAK") == "1":
        return
    skip = pytest.mark.skip(reason="a soak test; set STATESTORES_SOAK=1 to run it")
    for item in items:
        if item.get_closest_marker("soak"):
            item.add_marker(skip)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    report_promises_not_made(terminalreporter)


@pytest.fixture
def open_engine() -> NoReturn:
    """Fail: the author's class must give the function that opens the engine in a directory."""
    pytest.fail(
        "the test class has no engine; give it a fixture `open_engine` that returns a function "
        "from a directory to an open engine, such as `MyEngine.open`"
    )


@pytest.fixture
def open_key_value_store() -> NoReturn:
    """Fail: the author's class must give the function that opens a key-value store."""
    pytest.fail(
        "the test class has no key-value store; give it a fixture `open_key_value_store` that "
        "returns a function from a directory and a `KeyValue` to an open store"
    )


@pytest.fixture
def open_window_store() -> NoReturn:
    """Fail: the author's class must give the function that opens a window store."""
    pytest.fail(
        "the test class has no window store; give it a fixture `open_window_store` that returns "
        "a function from a directory and a `Window` to an open store"
    )


@pytest.fixture
def open_session_store() -> NoReturn:
    """Fail: the author's class must give the function that opens a session store."""
    pytest.fail(
        "the test class has no session store; give it a fixture `open_session_store` that returns "
        "a function from a directory and a `Session` to an open store"
    )


@pytest.fixture
def open_timestamped_store() -> NoReturn:
    """Fail: the author's class must give the function that opens a timestamped store."""
    pytest.fail(
        "the test class has no timestamped store; give it a fixture `open_timestamped_store` that "
        "returns a function from a directory, a `TimestampedKeyValue` and a clock to an open store"
    )


@pytest.fixture
def open_versioned_store() -> NoReturn:
    """Fail: the author's class must give the function that opens a versioned store."""
    pytest.fail(
        "the test class has no versioned store; give it a fixture `open_versioned_store` that "
        "returns a function from a directory and a `Versioned` to an open store"
    )
