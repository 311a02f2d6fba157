"""A state root with two stores of one group, and one of another; and the modules in `kit`."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import statestores as ss

KIT = str(Path(__file__).parent / "kit")
if KIT not in sys.path:
    sys.path.insert(0, KIT)


def _root_in(directory: Path) -> ss.StateRoot:
    state = ss.StateRoot.create(directory)
    state.add_store(ss.KeyValue("counts", key=ss.utf8, value=ss.int64), partitions=3)
    state.add_store(
        ss.Versioned("rates", history_retention_ms=1_000, key=ss.utf8, value=ss.int64),
        partitions=3,
    )
    state.add_store(ss.KeyValue("names", key=ss.utf8, value=ss.utf8), partitions=2)
    return state


@pytest.fixture
def root(tmp_path: Path) -> ss.StateRoot:
    """A state root: ``counts`` and ``rates`` belong together, ``names`` is alone."""
    return _root_in(tmp_path / "state")


@pytest.fixture
def root_in() -> Callable[[Path], ss.StateRoot]:
    """What makes another such state root in a directory."""
    return _root_in
