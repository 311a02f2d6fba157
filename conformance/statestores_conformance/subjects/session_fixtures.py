"""What the tests of a session store begin with."""

from collections.abc import Callable
from typing import Any

import pytest

from statestores.spi import SessionRecord, SessionStore
from statestores_conformance.subjects.retained_stores import SessionStores

Record = SessionRecord[bytes, bytes]
Store = SessionStore[bytes, bytes]

HIGHEST_MS = 2**63 - 1
"""The highest time there is."""

MALFORMED_PUTS: dict[str, tuple[Any, Any, Any, Any]] = {
    "no key": (None, 1, 2, b"v"),
    "text key": ("k", 1, 2, b"v"),
    "text value": (b"k", 1, 2, "v"),
    "no start": (b"k", None, 2, b"v"),
    "no end": (b"k", 1, None, b"v"),
    "float end": (b"k", 1, 2.0, b"v"),
    "truth as time": (b"k", True, 2, b"v"),
    "negative start": (b"k", -1, 2, b"v"),
    "end beyond int64": (b"k", 1, HIGHEST_MS + 1, b"v"),
    "end before start": (b"k", 2, 1, b"v"),
}
"""Key, start, end and value of puts of which one is wrong, by what is wrong."""

SESSIONS = (
    (b"b", 40, 60),
    (b"b", 10, 20),
    (b"b", 5, 20),
    (b"a\x00", 0, 90),
    (b"a", 30, 30),
    (b"a", 0, 10),
)
"""The sessions in the store `SessionStoreFixtures.filled`, not in order."""


class SessionStoreFixtures:
    """The stores that the tests begin with."""

    @pytest.fixture
    def store(self, session_stores: SessionStores) -> Store:
        """Open one empty store."""
        return session_stores.open().store

    @pytest.fixture(params=["pending", "committed"])
    def commit_between(self, request: pytest.FixtureRequest) -> Callable[[Store], None]:
        """Give what a test calls after each write: a commit, or nothing. The result is the same."""
        if request.param == "committed":
            return lambda store: store.commit({})
        return lambda store: None

    @pytest.fixture
    def filled(self, store: Store, commit_between: Callable[[Store], None]) -> Store:
        """Give a store with `SESSIONS`; the value of each is its start and end."""
        for key, start_ms, end_ms in SESSIONS:
            store.put(key, start_ms, end_ms, b"%d-%d" % (start_ms, end_ms))
            commit_between(store)
        return store
