"""The module that the child process gives to pytest: one class over the suite, for the subject.

This is what a third party writes, except that the backend's name comes from the environment.
"""

from typing import Any

import pytest

from statestores_conformance.backend import BackendTests
from statestores_conformance.faults.store_crash_tests import StoreCrashTests
from statestores_conformance.runner.subject import (
    KINDS,
    EngineSubject,
    StoreSubject,
    load_subject,
    opens,
    requested,
)
from statestores_conformance.stores.key_value.suite import KeyValueStoreTests
from statestores_conformance.stores.retained.session import SessionStoreTests
from statestores_conformance.stores.retained.window import WindowStoreTests
from statestores_conformance.stores.timestamped.suite import (
    TimestampedKeyValueStoreTests,
    TimeToLiveTests,
)
from statestores_conformance.stores.versioned.suite import VersionedStoreTests
from statestores_conformance.subjects.engines import OpenEngine
from statestores_conformance.subjects.openers import StampedByFunction

_subject = load_subject(*requested())


class _EngineSuite(BackendTests):
    """The whole suite, over an engine."""

    @pytest.fixture
    def open_engine(self) -> OpenEngine:
        assert isinstance(_subject, EngineSubject)
        return _subject.open


_STAMPED = "open_timestamped_store"

_SUITES: dict[str, tuple[str, type, str]] = {
    "key-value": ("TestKeyValueStore", KeyValueStoreTests, "open_key_value_store"),
    "timestamped-key-value": (
        "TestTimestampedKeyValueStore",
        TimestampedKeyValueStoreTests,
        _STAMPED,
    ),
    "versioned": ("TestVersionedStore", VersionedStoreTests, "open_versioned_store"),
    "window": ("TestWindowStore", WindowStoreTests, "open_window_store"),
    "session": ("TestSessionStore", SessionStoreTests, "open_session_store"),
}
"""For each kind at door two: the name and class of its tests, and the fixture that they need."""


def _suite(name: str, tests: type, fixture: str, subject: StoreSubject) -> type:
    """Return a class of *tests* and kills whose *fixture* gives the function under test."""
    opener: Any = subject.open
    if fixture == _STAMPED:
        opener = StampedByFunction(subject.open)

    def give(self: Any) -> Any:
        return opener

    parts: dict[str, Any] = {fixture: pytest.fixture(name=fixture)(give)}
    if tests is not TimeToLiveTests:  # its stores are of a kind that has been killed
        parts["TestCrashes"] = StoreCrashTests
    return type(name, (tests,), parts)


# pytest collects the names that begin with "Test".
if isinstance(_subject, EngineSubject):
    TestBackend = _EngineSuite
else:
    for _kind in KINDS:
        if opens(_subject, _kind):
            _name, _tests, _fixture = _SUITES[_kind.kind]
            globals()[_name] = _suite(_name, _tests, _fixture, _subject)
            if _tests is TimestampedKeyValueStoreTests:
                TestTimeToLive = _suite("TestTimeToLive", TimeToLiveTests, _STAMPED, _subject)
