"""The modules in `kit`, which programs started by the tests import as well; and failpoints."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from statestores import failpoints

KIT = str(Path(__file__).parent / "kit")

if KIT not in sys.path:
    sys.path.insert(0, KIT)


@pytest.fixture
def armed() -> Iterator[Callable[..., None]]:
    """Arm failpoints, and disarm them at the end."""
    yield failpoints.arm
    failpoints.disarm()
