"""The modules in `kit`, and the same random numbers in every run."""

import random
import sys
from pathlib import Path

import pytest

import statestores as ss
from statestores.state_root import StateRoot

KIT = str(Path(__file__).parent / "kit")

if KIT not in sys.path:
    sys.path.insert(0, KIT)

from in_memory import new_url  # noqa: E402  # after the path to it


@pytest.fixture
def random_source() -> random.Random:
    """Give the same random numbers in every run."""
    return random.Random(17)


@pytest.fixture
def url() -> str:
    """A root in the memory of this process that nobody else uses."""
    return new_url()


@pytest.fixture
def root(url: str) -> StateRoot:
    """A state root with the store ``kept`` of two partitions."""
    made = StateRoot.create(url)
    made.add_store(ss.KeyValue("kept"), partitions=2)
    return made
