"""What the tests of a window store begin with."""

from collections.abc import Callable
from typing import Any

import pytest

from statestores.spi import WindowRecord, WindowStore
from statestores_conformance.subjects.retained_stores import WINDOW_SIZE_MS, WindowStores

Record = WindowRecord[bytes, bytes]
Store = WindowStore[bytes, bytes]

HIGHEST_MS = 2**63 - 1
"""The highest time there is."""

MALFORMED_PUTS: dict[str, tuple[Any, Any, Any]] = {
    "no key": (None, b"v", 1),
    "text key": ("k", b"v", 1),
    "text value": (b"k", "v", 1),
    "no time": (b"k", b"v", None),
    "float time": (b"k", b"v", 1.0),
    "text time": (b"k", b"v", "1"),
    "truth as time": (b"k", b"v", True),
    "negative time": (b"k", b"v", -1),
    "time beyond int64": (b"k", b"v", HIGHEST_MS + 1),
}
"""Key, value and start of puts of which one is wrong, by what is wrong."""


def record(key: bytes, start_ms: int, value: bytes) -> Record:
    """Return a record of the window of *key* that starts at *start_ms*."""
    return Record(key, start_ms, start_ms + WINDOW_SIZE_MS, value)


class WindowStoreFixtures:
    """The stores that the tests begin with."""

    @pytest.fixture
    def store(self, window_stores: WindowStores) -> Store:
        """Open one empty store."""
        return window_stores.open().store

    @pytest.fixture
    def duplicates(self, window_stores: WindowStores) -> Store:
        """Open one empty store that retains duplicates."""
        return window_stores.open("duplicates", retain_duplicates=True).store

    @pytest.fixture(params=["pending", "committed"])
    def commit_between(self, request: pytest.FixtureRequest) -> Callable[[Store], None]:
        """Give what a test calls after each write: a commit, or nothing. The result is the same."""
        if request.param == "committed":
            return lambda store: store.commit({})
        return lambda store: None

    @pytest.fixture
    def filled(self, store: Store, commit_between: Callable[[Store], None]) -> Store:
        """Give a store with windows of three keys, one of them a prefix of another."""
        for key, starts in ((b"b", (20, 10, 30)), (b"a\x00", (10, 20)), (b"a", (30, 10))):
            for start_ms in starts:
                store.put(key, b"%d" % start_ms, start_ms)
                commit_between(store)
        return store
