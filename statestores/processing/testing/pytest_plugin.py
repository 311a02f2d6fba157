"""A fixture for tests of topologies: ``-p statestores.processing.testing.pytest_plugin``.

def test_counts(drive):
driver = drive(shop)
driver.topic("lines").pipe("to be", time_ms=1)
assert driver.store("counts").get("to") == 1
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from statestores.processing.dsl.topology import Topology
from statestores.processing.testing.driver import TestDriver


@pytest.fixture
def drive() -> Iterator[Callable[..., TestDriver]]:
    """Return what makes a driver of a topology; every one is closed with the test.

    It takes what `Topology.test` takes.
    """
    with ExitStack() as stack:

        def make(topology: Topology, **options: object) -> TestDriver:
            return stack.enter_context(topology.test(**options))  # type: ignore[arg-type]

        yield make
