"""What the tests of a versioned store begin with."""

from collections.abc import Callable
from typing import Any

import pytest

from statestores.spi import PutResult, VersionedRecord, VersionedStore
from statestores_conformance.subjects.stores import VersionedStores

Record = VersionedRecord[bytes]
Store = VersionedStore[bytes, bytes]

HIGHEST_MS = 2**63 - 1
"""The highest time there is."""

TEN, TWENTY, FORTY = Record(b"10", 10, 20), Record(b"20", 20, 30), Record(b"40", 40, None)
"""The versions in the store `VersionedStoreFixtures.history`."""

NOT_ACCEPTED = PutResult(accepted=False, valid_to_ms=None)
"""The result of a put that came too late."""

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
"""Key, value and timestamp of puts of which one is wrong, by what is wrong."""


def accepted(valid_to_ms: int | None = None) -> PutResult:
    """Return the result of a put that was accepted and is valid until *valid_to_ms*."""
    return PutResult(accepted=True, valid_to_ms=valid_to_ms)


class VersionedStoreFixtures:
    """The stores that the tests begin with."""

    @pytest.fixture
    def store(self, versioned_stores: VersionedStores) -> Store:
        """Open one empty store."""
        return versioned_stores.open().store

    @pytest.fixture(params=["pending", "committed"])
    def commit_between(self, request: pytest.FixtureRequest) -> Callable[[Store], None]:
        """Give what a test calls after each write: a commit, or nothing. The result is the same."""
        if request.param == "committed":
            return lambda store: store.commit({})
        return lambda store: None

    @pytest.fixture(params=["pending", "committed"])
    def history(self, store: Store, request: pytest.FixtureRequest) -> Store:
        """Give a store with versions of k from 10, 20 and 40, and none from 30 to 40."""
        for timestamp_ms, value in ((20, b"20"), (40, b"40"), (10, b"10"), (30, None)):
            store.put(b"k", value, timestamp_ms)
        if request.param == "committed":
            store.commit({})
        return store
