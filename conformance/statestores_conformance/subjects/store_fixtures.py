"""What the tests of a store are given.

A kind's class gives ``stores``, which opens stores of that kind; the rest follows from it.
"""

from collections.abc import Iterator
from typing import TypeVar

import pytest

from statestores_conformance.promises import skip_unless_promised
from statestores_conformance.subjects.stores import Stores, StoreUnderTest

S = TypeVar("S", bound=Stores)


class StoreFixtures:
    """What the tests that hold for every kind are given."""

    @pytest.fixture
    def persistent_stores(self, stores: Stores) -> Stores:
        """Open stores of one kind whose content survives closing."""
        with stores.open("probe").store as probe:
            skip_unless_promised("persistent", made=probe.persistent)
        return stores

    @pytest.fixture
    def opened(self, stores: Stores) -> StoreUnderTest:
        """Open one empty store."""
        return stores.open()


def closed_at_the_end(stores: S) -> Iterator[S]:
    """Give *stores*, close what the test left open, and look for files left open."""
    try:
        yield stores
    finally:
        stores.close()

    assert stores.files_left_open() == []
