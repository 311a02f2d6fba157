"""What the tests of tasks in object stores share."""

from collections.abc import Iterator

import pytest

from statestores import failpoints


@pytest.fixture(autouse=True)
def _nothing_stays_armed() -> Iterator[None]:
    yield
    failpoints.disarm()
