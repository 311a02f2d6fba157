"""The modules in `kit`, and the same random numbers in every run."""

import random
import sys
from pathlib import Path

import pytest

KIT = str(Path(__file__).parent / "kit")

if KIT not in sys.path:
    sys.path.insert(0, KIT)


@pytest.fixture
def random_source() -> random.Random:
    """Give the same random numbers in every run."""
    return random.Random(17)
